/**
 * A consumer's life in a group: chooses the protocol, knows the subscription and its topics, and runs the membership.
 * The other protocols' members go in here, beside `Membership`.
 */
import type { Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import type { Subscription } from '../../group/member/protocol.ts'
import { ConsumerGroupHeartbeat } from '../../protocol/api/consumer-group-heartbeat.ts'
import { RegisterConsumer } from '../../protocol/api/register-consumer.ts'
import type { LaneName } from '../../rpc/call.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import { sleep } from '../../rpc/retry.ts'
import type { CommitIdentity } from './commits.ts'
import { type LedHost, LedMembership } from './led-membership.ts'
import { Membership, type MembershipHost } from './membership.ts'
import type { Settings } from './options.ts'
import { matchTopics, subscriptionOf } from './topics.ts'

export interface GroupHost extends Omit<MembershipHost, 'sessionTimeoutMs'>, LedHost {
  readonly cluster: Cluster
  readonly settings: Settings
  readonly lane: LaneName
  /** Fires when the consumer is closed. */
  readonly closing: AbortSignal
}

/** How often patterns are matched that only this side can. */
const matchEveryMs = 30_000
const retryMs = 500

export class Group {
  readonly #host: GroupHost
  /** Of a protocol in which members name themselves. */
  readonly #ownId: string
  #membership: Membership | LedMembership | null = null
  /** Topics of the subscription that were there before this member was. */
  #before: ReadonlySet<string> = new Set()
  #matched: readonly string[] = []
  #timer: Timer | null = null
  #ledByController = false

  constructor(host: GroupHost, memberId: string) {
    this.#host = host
    this.#ownId = memberId
  }

  get memberId(): string {
    return this.led ? (this.#membership?.memberId ?? '') : this.#ownId
  }

  /** A controller leads the group. */
  get led(): boolean {
    return this.#membership instanceof LedMembership
  }

  get identity(): CommitIdentity | undefined {
    return this.#membership?.identity
  }

  get aliveUntil(): number {
    return this.#membership?.aliveUntil ?? -Infinity
  }

  get joined(): boolean {
    return this.#membership?.joined ?? false
  }

  /** Whether this member saw `topic` come into being. */
  appeared(topic: string): boolean {
    return !this.#before.has(topic)
  }

  start(): void {
    this.#join().catch((error: unknown) => {
      if (!(error instanceof PlayheadError)) throw error
      if (!this.#host.closing.aborted) this.#host.failed(error)
    })
  }

  overdue(): void {
    this.#membership?.overdue()
  }

  caughtUp(): void {
    this.#membership?.caughtUp()
  }

  doubted(): void {
    this.#membership?.doubted()
  }

  async close(deadline: number): Promise<void> {
    this.#timer?.cancel()
    await this.#membership?.close(deadline)
  }

  async #join(): Promise<void> {
    const { settings, closing } = this.#host
    const subscription = await this.#untilReached(() => this.#prepare())
    if (closing.aborted) return
    if (this.#ledByController) {
      this.#membership = new LedMembership(
        this.#host,
        {
          instanceId: settings.instanceId,
          sessionTimeoutMs: settings.sessionTimeoutMs,
          registerTimeoutMs: settings.maxProcessingMs,
          startFrom: startCode(settings)
        },
        subscription
      )
      return this.#membership.start()
    }
    this.#membership = new Membership(
      { ...this.#host, sessionTimeoutMs: settings.sessionTimeoutMs },
      {
        memberId: this.#ownId,
        instanceId: settings.instanceId,
        rackId: settings.rackId,
        rebalanceTimeoutMs: settings.maxProcessingMs,
        serverAssignor: settings.serverAssignor
      },
      subscription
    )
    this.#membership.start()
  }

  /** Finds out what the brokers speak, and which topics are there. */
  async #prepare(): Promise<Subscription> {
    const { cluster, settings } = this.#host
    const { topics, protocol } = settings
    const names = topics.filter(t => typeof t === 'string')
    const patterns = names.length < topics.length
    this.#ledByController = await this.#isLed(protocol)
    if (protocol === 'classic') throw notYet(protocol)
    if (!this.#ledByController && !(await cluster.supports(ConsumerGroupHeartbeat))) {
      throw notYet('classic')
    }
    const there = patterns ? await matchTopics(cluster, topics) : names
    const { topics: known } = await cluster.refresh({ topics: there })
    this.#before = new Set(there.filter(name => known.has(name)))
    const direct = subscriptionOf(topics)
    if (direct !== null) {
      const matches = this.#ledByController || (await cluster.supports(ConsumerGroupHeartbeat, 1))
      if (direct.regex === null || matches) return direct
    }
    this.#matched = there
    this.#matchLater()
    return { topics: there, regex: null }
  }

  /** 'auto' doesn't decide for it by itself. */
  async #isLed(protocol: Settings['protocol']): Promise<boolean> {
    if (protocol !== 'controller') return false
    if (await this.#host.cluster.supports(RegisterConsumer)) return true
    throw new PlayheadError(
      'UNSUPPORTED_VERSION',
      "no broker speaks the 'controller' group protocol: Playhead's embedded broker does"
    )
  }

  #matchLater(): void {
    const { cluster, closing } = this.#host
    if (closing.aborted) return
    this.#timer = cluster.env.clock.after(matchEveryMs, () => {
      this.#match().catch((error: unknown) => {
        if (!(error instanceof PlayheadError)) throw error
        cluster.env.log.warn('topics could not be matched', { error: error.message })
      })
      this.#matchLater()
    })
  }

  async #match(): Promise<void> {
    const { cluster, settings, closing } = this.#host
    const topics = await matchTopics(cluster, settings.topics)
    if (closing.aborted || topics.join() === this.#matched.join()) return
    this.#matched = topics
    await cluster.refresh({ topics })
    this.#membership?.subscribe({ topics, regex: null })
  }

  async #untilReached<T>(attempt: () => Promise<T>): Promise<T> {
    const { cluster, closing } = this.#host
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        if (!(error instanceof PlayheadError) || !error.retriable || closing.aborted) throw error
        cluster.env.log.warn('the cluster cannot be reached', { error: error.message })
        await sleep(cluster.env.clock, retryMs, [closing])
      }
    }
  }
}

/** As RegisterConsumer numbers it; a time is looked up on this side. */
function startCode({ startFrom }: Settings): number {
  if (startFrom === 'earliest') return 0
  return startFrom === 'latest' ? 1 : 2
}

function notYet(protocol: string): PlayheadError {
  return new PlayheadError(
    'UNSUPPORTED_VERSION',
    `the '${protocol}' group protocol is not there yet: Playhead needs brokers that speak KIP-848 (Kafka 4.0 and later)`
  )
}
