/**
 * A consumer's life in a group: chooses the protocol, knows the subscription and its topics, and runs the membership.
 *
 * 'auto' is what the group is, where it has members; else KIP-848 where the brokers have it. A member of KIP-848 in a
 * classic group would make another kind of group of it, for all its members (where the broker's
 * group.consumer.migration.policy lets it): that is for whoever asks for it, by `protocol: 'consumer'`. Should the
 * group have become classic since the look, and the broker refuse, this member joins as a classic one after all.
 */
import type { Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import type { Subscription } from '../../group/member/protocol.ts'
import {
  type AssignorChoice,
  type AssignorName,
  assignorNames
} from '../../group/member/strategies.ts'
import { ConsumerGroupHeartbeat } from '../../protocol/api/consumer-group-heartbeat.ts'
import { DescribeGroups } from '../../protocol/api/describe-groups.ts'
import { JoinGroup } from '../../protocol/api/join-group.ts'
import { RegisterConsumer } from '../../protocol/api/register-consumer.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { answerError } from '../../rpc/answer-errors.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import { isPassing, sleep } from '../../rpc/retry.ts'
import type { CommitIdentity } from './commits.ts'
import type { Events } from './events.ts'
import { canBeLed } from '../led.ts'
import { type LedHost, LedMembership } from './led-membership.ts'
import { type Member, Membership, type MembershipHost } from './membership.ts'
import { classicPort } from './membership-classic.ts'
import { consumerPort } from './membership-consumer.ts'
import type { GroupProtocol, Settings } from './options.ts'
import { matchTopics, subscriptionOf } from './topics.ts'

export interface GroupHost
  extends Omit<MembershipHost, 'sessionTimeoutMs' | 'maxProcessingMs' | 'joined'>,
    Omit<LedHost, 'joined'> {
  readonly cluster: Cluster
  readonly settings: Settings
  /** Fires when the consumer is closed. */
  readonly closing: AbortSignal
  readonly events: Events
}

/** How often patterns are matched that only this side can. */
const matchEveryMs = 30_000
const retryMs = 500
/** What a classic member offers that was not told otherwise. */
const usualAssignors: readonly AssignorName[] = ['cooperative-sticky']

export class Group {
  readonly #host: GroupHost
  /** Of a protocol in which members name themselves. */
  readonly #ownId: string
  #membership: Member | null = null
  /** Null: not chosen yet. */
  #protocol: GroupProtocol | null = null
  #assignors: readonly AssignorChoice[]
  /** Topics of the subscription that were there before this member was. */
  #before: ReadonlySet<string> = new Set()
  #matched: readonly string[] = []
  #timer: Timer | null = null

  constructor(host: GroupHost, memberId: string) {
    this.#host = host
    this.#ownId = memberId
    this.#assignors = host.settings.assignors ?? usualAssignors
  }

  get memberId(): string {
    const { protocol } = this.#host.settings
    if ((this.#protocol ?? protocol) === 'consumer') return this.#ownId
    return this.#membership?.memberId ?? ''
  }

  get protocol(): GroupProtocol | null {
    return this.#protocol
  }

  /** Partitions are assigned by their topic's id. */
  get byId(): boolean {
    return this.#protocol !== 'classic'
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
    const looking = this.#untilReached(() => this.#look())
    const [there, protocol] = await Promise.all([looking, this.#suitable()])
    await this.#joinBy(protocol, there)
  }

  async #suitable(): Promise<GroupProtocol> {
    // Whoever gives the metadata has said before what it speaks: that must not be asked once more.
    await this.#untilReached(() => this.#host.cluster.refresh())
    const best = await this.#untilReached(() => this.#choose())
    if (best !== 'consumer' || this.#host.settings.protocol !== 'auto') return best
    const assignor = await this.#untilReached(() => this.#classicAssignor())
    return assignor === null ? best : 'classic'
  }

  async #joinBy(protocol: GroupProtocol, there: readonly string[]): Promise<void> {
    const subscription = await this.#untilReached(() => this.#subscription(protocol, there))
    if (this.#host.closing.aborted) return
    this.#protocol = protocol
    this.#membership = this.#member(protocol, subscription)
    this.#membership.start()
  }

  #joinAgainBy(protocol: GroupProtocol): void {
    const { closing, failed } = this.#host
    this.#timer?.cancel()
    const joining = async () => this.#joinBy(protocol, await this.#untilReached(() => this.#look()))
    joining().catch((error: unknown) => {
      if (!(error instanceof PlayheadError)) throw error
      if (!closing.aborted) failed(error)
    })
  }

  #member(protocol: GroupProtocol, subscription: Subscription): Member {
    const { settings, events } = this.#host
    const { instanceId, rackId, sessionTimeoutMs, maxProcessingMs } = settings
    const rebalanceTimeoutMs = maxProcessingMs
    const host: MembershipHost & LedHost = {
      ...this.#host,
      sessionTimeoutMs,
      maxProcessingMs,
      failed: error => this.#failed(error),
      joined: () => events.emit('joined', { protocol, memberId: this.memberId })
    }
    switch (protocol) {
      case 'consumer': {
        const { serverAssignor } = settings
        const memberId = this.#ownId
        const config = { memberId, instanceId, rackId, rebalanceTimeoutMs, serverAssignor }
        return new Membership(host, consumerPort(host, config, subscription))
      }
      case 'classic': {
        const { heartbeatIntervalMs, rewind } = settings
        const assignors = this.#assignors
        const times = { sessionTimeoutMs, rebalanceTimeoutMs, heartbeatIntervalMs }
        const config = { instanceId, rackId, ...times, assignors, rewindable: rewind !== null }
        return new Membership(host, classicPort(host, config, subscription))
      }
      case 'controller': {
        const times = { sessionTimeoutMs, registerTimeoutMs: maxProcessingMs }
        const config = { instanceId, ...times, startFrom: startCode(settings) }
        return new LedMembership(host, config, subscription)
      }
    }
  }

  /** The membership cannot go on; unless this member can join in another way. */
  #failed(error: PlayheadError): void {
    const { settings, cluster, group, failed } = this.#host
    // Said by the broker, or by the list of what it speaks.
    const off = [error.kafkaError, error.code].includes('UNSUPPORTED_VERSION')
    const kafkaError = error.kafkaError ?? ''
    if (this.#protocol === 'classic' && kafkaError === 'INCONSISTENT_GROUP_PROTOCOL') {
      return this.#noAssignorInCommon(error)
    }
    const isClassic = off || classicAnswers.includes(kafkaError)
    if (this.#protocol !== 'consumer' || !isClassic) return failed(error)
    if (settings.protocol !== 'auto') {
      const when = off ? 'the brokers have KIP-848 switched off,' : 'if it is a classic group,'
      const why = `${error.message}: ${when} join it with protocol: 'classic'`
      const code = off ? 'UNSUPPORTED_VERSION' : error.code
      return failed(new PlayheadError(code, why, { group, kafkaError }))
    }
    const is = off ? 'the brokers have KIP-848 switched off' : `group '${group}' is a classic group`
    cluster.env.log.info(`${is}: joining as a classic member`)
    this.#joinAgainBy('classic')
  }

  /** Who was not told how to assign does it as the group does. */
  #noAssignorInCommon(error: PlayheadError): void {
    const { settings, cluster, group, failed, closing } = this.#host
    if (settings.assignors !== null || this.#assignors !== usualAssignors) return failed(error)
    this.#untilReached(() => this.#classicAssignor()).then(
      assignor => {
        const name = assignorNames.find(one => one === assignor)
        if (name === undefined) return failed(error)
        cluster.env.log.info(`group '${group}' assigns by '${name}': so does this member`)
        this.#assignors = [name]
        this.#joinAgainBy('classic')
      },
      (cause: unknown) => {
        if (!(cause instanceof PlayheadError)) throw cause
        if (!closing.aborted) failed(error)
      }
    )
  }

  /** The assignor of the group if it is a classic one that has members; empty: it has none yet. Null: it isn't. */
  async #classicAssignor(): Promise<string | null> {
    const { cluster, group, closing } = this.#host
    const body = { groups: [group], includeAuthorizedOperations: false }
    const to = { group }
    const { groups } = await cluster.request(DescribeGroups, body, { to, signal: closing })
    const { errorCode = 0, groupState = '', protocolData = '', members = [] } = groups[0] ?? {}
    if (errorCode === KafkaError.NOT_COORDINATOR) cluster.coordinatorMoved(to)
    const error = errorCode === KafkaError.NONE ? null : answerError(errorCode, `group '${group}'`)
    if (error?.retriable === true) throw error
    // Of a group of KIP-848 Kafka says here that it isn't there; who may not look finds out by joining.
    if (error !== null || groupState === 'Dead' || members.length === 0) return null
    return protocolData
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
  async #look(): Promise<readonly string[]> {
    const { cluster, settings } = this.#host
    const { topics } = settings
    const names = topics.filter(t => typeof t === 'string')
    this.#findCoordinators()
    const there = names.length < topics.length ? await matchTopics(cluster, topics) : names
    const { topics: known } = await cluster.refresh({ topics: there })
    this.#before = new Set(there.filter(name => known.has(name)))
    return there
  }

  async #subscription(protocol: GroupProtocol, there: readonly string[]): Promise<Subscription> {
    const { cluster, settings } = this.#host
    const patterns = settings.topics.some(topic => typeof topic !== 'string')
    if (!patterns) return { topics: there, regex: null }
    const direct = protocol === 'classic' ? null : subscriptionOf(settings.topics)
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
        if (!(error instanceof PlayheadError) || closing.aborted || !isPassing(error)) throw error
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

/**
 * What Kafka answers to a KIP-848 member of a group that is classic, and that it will not convert. Where the protocol is
 * switched off, as it is by default from 3.7 to 3.9, it is UNSUPPORTED_VERSION, although the broker says that it has it.
 */
const classicAnswers: readonly string[] = ['GROUP_ID_NOT_FOUND', 'INCONSISTENT_GROUP_PROTOCOL']

const requirements = {
  consumer: { api: ConsumerGroupHeartbeat, needs: 'Kafka does from 4.0 on (KIP-848)' },
  classic: { api: JoinGroup, needs: 'it needs JoinGroup' },
  controller: { api: RegisterConsumer, needs: "Playhead's embedded broker does" }
} as const
