/**
 * A consumer's life in a group: chooses the protocol, knows the subscription and its topics, and runs the membership.
 *
 * 'auto' is KIP-848 where the brokers have it. A classic group with members becomes one of KIP-848 by that (the broker's
 * group.consumer.migration.policy decides); where the broker refuses, this member joins as a classic one.
 */
import type { Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import type { Subscription } from '../../group/member/protocol.ts'
import { ConsumerGroupHeartbeat } from '../../protocol/api/consumer-group-heartbeat.ts'
import { JoinGroup } from '../../protocol/api/join-group.ts'
import { RegisterConsumer } from '../../protocol/api/register-consumer.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import { sleep } from '../../rpc/retry.ts'
import type { CommitIdentity } from './commits.ts'
import { canBeLed } from '../led.ts'
import { type LedHost, LedMembership } from './led-membership.ts'
import { type Member, Membership, type MembershipHost } from './membership.ts'
import { classicPort } from './membership-classic.ts'
import { consumerPort } from './membership-consumer.ts'
import type { GroupProtocol, Settings } from './options.ts'
import { matchTopics, subscriptionOf } from './topics.ts'

export interface GroupHost extends Omit<MembershipHost, 'sessionTimeoutMs'>, LedHost {
  readonly cluster: Cluster
  readonly settings: Settings
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
  #membership: Member | null = null
  #protocol: GroupProtocol = 'consumer'
  /** Topics of the subscription that were there before this member was. */
  #before: ReadonlySet<string> = new Set()
  #matched: readonly string[] = []
  #timer: Timer | null = null

  constructor(host: GroupHost, memberId: string) {
    this.#host = host
    this.#ownId = memberId
  }

  get memberId(): string {
    return this.#protocol === 'consumer' ? this.#ownId : (this.#membership?.memberId ?? '')
  }

  /** A controller leads the group. */
  get led(): boolean {
    return this.#protocol === 'controller'
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
    this.#protocol = await this.#untilReached(() => this.#choose())
    await this.#joinBy(this.#protocol)
  }

  async #joinBy(protocol: GroupProtocol): Promise<void> {
    const subscription = await this.#untilReached(() => this.#prepare(protocol))
    if (this.#host.closing.aborted) return
    this.#membership = this.#member(protocol, subscription)
    this.#membership.start()
  }

  #member(protocol: GroupProtocol, subscription: Subscription): Member {
    const { settings } = this.#host
    const { instanceId, rackId, sessionTimeoutMs, maxProcessingMs: rebalanceTimeoutMs } = settings
    const host: MembershipHost = {
      ...this.#host,
      sessionTimeoutMs,
      failed: error => this.#failed(error)
    }
    switch (protocol) {
      case 'consumer': {
        const { serverAssignor } = settings
        const memberId = this.#ownId
        const config = { memberId, instanceId, rackId, rebalanceTimeoutMs, serverAssignor }
        return new Membership(host, consumerPort(host, config, subscription))
      }
      case 'classic': {
        const { heartbeatIntervalMs, assignors, rewind } = settings
        const times = { sessionTimeoutMs, rebalanceTimeoutMs, heartbeatIntervalMs }
        const config = { instanceId, rackId, ...times, assignors, rewindable: rewind !== null }
        return new Membership(host, classicPort(host, config, subscription))
      }
      case 'controller': {
        const times = { sessionTimeoutMs, registerTimeoutMs: settings.maxProcessingMs }
        const config = { instanceId, ...times, startFrom: startCode(settings) }
        return new LedMembership(this.#host, config, subscription)
      }
    }
  }

  /** The membership cannot go on: of 'auto', as a KIP-848 member of a group that stays classic, as a classic one. */
  #failed(error: PlayheadError): void {
    const { settings, closing, cluster, group, failed } = this.#host
    const staysClassic = classicAnswers.includes(error.kafkaError ?? '')
    if (!staysClassic || this.#protocol !== 'consumer') return failed(error)
    if (settings.protocol !== 'auto') {
      const why = `${error.message}: if it is a classic group, join it with protocol: 'classic'`
      return failed(new PlayheadError(error.code, why, { group, kafkaError: error.kafkaError }))
    }
    cluster.env.log.info(`group '${group}' is a classic group: joining as its member`)
    this.#protocol = 'classic'
    this.#timer?.cancel()
    this.#joinBy('classic').catch((cause: unknown) => {
      if (!(cause instanceof PlayheadError)) throw cause
      if (!closing.aborted) failed(cause)
    })
  }

  /** What the brokers have, the best first. Rejects with UNSUPPORTED_VERSION. */
  async #choose(): Promise<GroupProtocol> {
    const { cluster, settings, group } = this.#host
    const { protocol } = settings
    if (protocol === 'auto') {
      if (await canBeLed(cluster, group)) return 'controller'
      return (await cluster.supports(ConsumerGroupHeartbeat)) ? 'consumer' : 'classic'
    }
    const { api, needs } = requirements[protocol]
    if (await cluster.supports(api)) return protocol
    throw new PlayheadError(
      'UNSUPPORTED_VERSION',
      `no broker speaks the '${protocol}' group protocol: ${needs}`
    )
  }

  /** Finds out which topics are there. */
  async #prepare(protocol: GroupProtocol): Promise<Subscription> {
    const { cluster, settings } = this.#host
    const { topics } = settings
    const names = topics.filter(t => typeof t === 'string')
    const patterns = names.length < topics.length
    this.#findCoordinators()
    const there = patterns ? await matchTopics(cluster, topics) : names
    const { topics: known } = await cluster.refresh({ topics: there })
    this.#before = new Set(there.filter(name => known.has(name)))
    if (!patterns) return { topics: names, regex: null }
    const direct = protocol === 'classic' ? null : subscriptionOf(topics)
    if (direct !== null) {
      const matches =
        protocol === 'controller' || (await cluster.supports(ConsumerGroupHeartbeat, 1))
      if (matches) return direct
    }
    this.#matched = there
    this.#matchLater()
    return { topics: there, regex: null }
  }

  /** Beside the look at the topics. Whoever needs one that is not found asks again. */
  #findCoordinators(): void {
    const { cluster, group, settings, closing } = this.#host
    const { ledger } = settings.rewind ?? {}
    for (const name of ledger === undefined ? [group] : [group, ledger]) {
      cluster.coordinator({ group: name }, { signal: closing }).catch((error: unknown) => {
        if (!(error instanceof PlayheadError)) throw error
      })
    }
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

/** What Kafka answers to a KIP-848 member of a group that is classic, and that it will not convert. */
const classicAnswers: readonly string[] = ['GROUP_ID_NOT_FOUND', 'INCONSISTENT_GROUP_PROTOCOL']

const requirements = {
  consumer: { api: ConsumerGroupHeartbeat, needs: 'Kafka does from 4.0 on (KIP-848)' },
  classic: { api: JoinGroup, needs: 'it needs JoinGroup' },
  controller: { api: RegisterConsumer, needs: "Playhead's embedded broker does" }
} as const
