/**
 * Runs the member's machine of a group led by a controller (group/member/controller.ts): finds the controller, sends
 * what the machine asks for, carries out what it decides. Any broker knows who leads the group; the answer is good
 * until somebody says otherwise.
 *
 * Heartbeats and registrations wait at the broker, which answers the requests of a connection in order. So each has a
 * connection of its own, beside that of the commits.
 */
import type { Env, Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { decideLed } from '../../group/member/controller.ts'
import {
  applyLed,
  checkLed,
  type LedAction,
  type LedAnswer,
  type LedConfig,
  type LedEvent,
  type LedLease,
  type LedMember,
  ledMember,
  type LedRequest
} from '../../group/member/controller-state.ts'
import type { Lease, Subscription } from '../../group/member/protocol.ts'
import { ControllerHeartbeat } from '../../protocol/api/controller-heartbeat.ts'
import { ControllerListGroups } from '../../protocol/api/controller-list-groups.ts'
import { RegisterConsumer } from '../../protocol/api/register-consumer.ts'
import { UnregisterConsumer } from '../../protocol/api/unregister-consumer.ts'
import { KafkaError, kafkaErrorName } from '../../protocol/errors.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import type { CommitIdentity } from './commits.ts'
import { cannotGoOn, isDefinite, refusalOf, surelyMemberMs } from './membership.ts'
import type { TopicIdPartition } from './offsets.ts'

/** A partition, and where it starts; see LedLease. */
export type PlacedPartition = TopicIdPartition &
  Pick<LedLease, 'offset' | 'lastRewindId' | 'rewind' | 'window' | 'replayed'>

export interface LedHost {
  readonly cluster: Cluster
  readonly group: string
  /** Names this consumer's connections. */
  readonly name: string
  assignAt(partitions: readonly PlacedPartition[]): void
  revoke(partitions: readonly TopicIdPartition[]): Promise<void>
  lose(partitions: readonly TopicIdPartition[], why: string): void
  /** Stops these where they are; resolves when that is committed, or can't be soon. */
  halt(partitions: readonly TopicIdPartition[]): Promise<void>
  /** What was halted goes on elsewhere. */
  move(partitions: readonly PlacedPartition[]): void
  confirmed(): void
  /** The controller has accepted this member, for the first time or again. */
  joined(): void
  failed(error: PlayheadError): void
}

export class LedMembership {
  readonly #host: LedHost
  readonly #env: Env
  readonly #config: LedConfig
  #member: LedMember
  #controller: number | null = null
  readonly #names = new Map<string, string>()
  #timer: Timer | null = null
  #timerAt = Infinity
  readonly #ends = new Set<() => void>()
  #over = false

  constructor(host: LedHost, config: LedConfig, subscription: Subscription) {
    this.#host = host
    this.#env = host.cluster.env
    this.#config = config
    this.#member = ledMember(config, subscription)
  }

  get memberId(): string {
    return this.#member.memberId
  }

  get joined(): boolean {
    return this.#member.phase === 'member'
  }

  /** As whom to commit; undefined while not a member. */
  get identity(): CommitIdentity | undefined {
    const { memberId, epoch } = this.#member
    if (epoch < 0) return undefined
    return { memberId, epoch, instanceId: this.#config.instanceId }
  }

  /** Until when this member is surely in its group, as far as it was told. */
  get aliveUntil(): number {
    const { sessionTimeoutMs, registerTimeoutMs } = this.#config
    const { lastGoodAt, heartbeatIntervalMs } = this.#member
    return lastGoodAt + surelyMemberMs(sessionTimeoutMs, registerTimeoutMs, heartbeatIntervalMs)
  }

  start(): void {
    this.#tell({ on: 'start' })
  }

  subscribe(subscription: Subscription): void {
    this.#tell({ on: 'subscribed', subscription })
  }

  overdue(): void {
    this.#tell({ on: 'overdue' })
  }

  caughtUp(): void {
    this.#tell({ on: 'caughtUp' })
  }

  /** A commit was refused: the generation has moved on, or there is no membership any more. Registering tells. */
  doubted(): void {
    const { phase, registering, mustRegister } = this.#member
    if (phase !== 'member' || registering !== null || mustRegister) return
    this.#tell({ on: 'subscribed', subscription: this.#member.subscription })
  }

  async close(deadline: number): Promise<void> {
    if (!this.#over) {
      const left = new Promise<void>(resolve => this.#ends.add(resolve))
      const { clock } = this.#env
      const timer = clock.after(Math.max(0, deadline - clock.monotonic()), () => this.#end())
      this.#tell({ on: 'close' })
      await left
      timer.cancel()
    }
    this.#end()
    for (const lane of [this.#lane('group'), this.#lane('wait')]) this.#host.cluster.endLane(lane)
  }

  #tell(event: LedEvent): void {
    if (this.#over) return
    const { joined } = this
    const { facts, actions } = decideLed(this.#member, event, this.#env.clock.monotonic())
    for (const fact of facts) this.#member = applyLed(this.#member, fact)
    checkLed(this.#member)
    if (!joined && this.joined) this.#host.joined()
    for (const action of actions) this.#do(action)
    this.#arm()
  }

  #do(action: LedAction): void {
    const { group } = this.#host
    switch (action.do) {
      case 'request':
        this.#send(action.request).catch((error: unknown) => this.#unsent(action.request, error))
        return
      case 'findCoordinator':
        this.#controller = null
        this.#host.cluster.coordinatorMoved({ group })
        return
      case 'assign':
        return this.#host.assignAt(action.leases.map(lease => this.#placed(lease)))
      case 'revoke': {
        const { leases } = action
        return this.#after(this.#host.revoke(this.#named(leases)), { on: 'released', leases })
      }
      case 'halt': {
        const { leases } = action
        return this.#after(this.#host.halt(this.#named(leases)), { on: 'halted', leases })
      }
      case 'move':
        return this.#host.move(action.leases.map(lease => this.#placed(lease)))
      case 'lose':
        return this.#host.lose(this.#named(action.leases), action.why)
      case 'rejoin':
        this.#env.log.info(`group '${group}': joining again: ${action.why}`)
        return
      case 'fail':
        return this.#host.failed(action.error ?? refusalOf(group, action.code, action.message))
      case 'left':
        return this.#end()
    }
  }

  #after(work: Promise<void>, event: LedEvent): void {
    work.then(
      () => this.#tell(event),
      (error: unknown) => {
        const { group } = this.#host
        this.#env.log.warn(`group '${group}': partitions were not stopped cleanly`, { error })
        this.#tell(event)
      }
    )
  }

  #placed(lease: LedLease): PlacedPartition {
    const { topic: topicId, name: topic, ...placed } = lease
    this.#names.set(topicId, topic)
    return { topic, topicId, ...placed }
  }

  /** Whatever we own came with the name of its topic. */
  #named(leases: readonly Lease[]): TopicIdPartition[] {
    return leases.map(({ topic: topicId, partition }) => {
      return { topicId, topic: this.#names.get(topicId) ?? '', partition }
    })
  }

  #end(): void {
    this.#over = true
    this.#timer?.cancel()
    this.#timer = null
    for (const resolve of this.#ends) resolve()
    this.#ends.clear()
  }

  // Requests

  async #send(request: LedRequest): Promise<void> {
    const node = (this.#controller ??= await this.#findController())
    if (this.#over) return
    const answer = await this.#ask(node, request)
    const good = this.#member.lastGoodAt
    this.#tell({ on: 'answered', answer })
    if (this.#member.lastGoodAt > good) this.#host.confirmed()
  }

  #unsent(request: LedRequest, error: unknown): void {
    if (!(error instanceof PlayheadError)) throw error
    if (error.code === 'CLOSED') return this.#end()
    if (isDefinite(error)) {
      return this.#tell({ on: 'unable', error: cannotGoOn(this.#host.group, error) })
    }
    this.#env.log.debug(`group '${this.#host.group}': no answer to a ${request.kind}`, {
      error: error.message
    })
    this.#tell({ on: 'unanswered', kind: request.kind })
  }

  /** `list_groups(my_group)` of the design of 2013, sent to any broker. */
  async #findController(): Promise<number> {
    const { cluster, group } = this.#host
    const body = { groupId: group }
    const answer = await cluster.request(ControllerListGroups, body, { timeoutMs: 5_000 })
    const { nodeId = -1 } = answer.groups[0]?.controller ?? {}
    if (answer.errorCode === KafkaError.NONE && nodeId >= 0) return nodeId
    const kafkaError = kafkaErrorName(answer.errorCode)
    const message = `group '${group}' has no controller at present: ${kafkaError}`
    throw new PlayheadError('BROKER_ERROR', message, { group, kafkaError, retriable: true })
  }

  async #ask(node: number, request: LedRequest): Promise<LedAnswer> {
    const { cluster, group: groupId } = this.#host
    const { sessionTimeoutMs } = this.#config
    const to = { node }
    switch (request.kind) {
      case 'register': {
        const options = { to, lane: this.#lane('group'), timeoutMs: 2 * sessionTimeoutMs }
        const body = await cluster.request(RegisterConsumer, { groupId, ...request.body }, options)
        return { kind: 'register', body }
      }
      case 'heartbeat': {
        const timeoutMs = (request.body.maxWaitMs ?? 0) + Math.max(1_000, sessionTimeoutMs / 3)
        const options = { to, lane: this.#lane('wait'), timeoutMs }
        const body = await cluster.request(
          ControllerHeartbeat,
          { groupId, ...request.body },
          options
        )
        return { kind: 'heartbeat', body }
      }
      case 'leave': {
        const options = { to, timeoutMs: 5_000 }
        const body = await cluster.request(
          UnregisterConsumer,
          { groupId, ...request.body },
          options
        )
        return { kind: 'leave', body }
      }
    }
  }

  #lane(of: 'group' | 'wait'): `group:${string}` | `wait:${string}` {
    return of === 'group' ? `group:${this.#host.name}+` : `wait:${this.#host.name}`
  }

  #arm(): void {
    const { wakeAt, giveUpBy } = this.#member
    const at = this.#over ? Infinity : Math.min(wakeAt, giveUpBy)
    if (at === this.#timerAt) return
    this.#timer?.cancel()
    this.#timer = null
    this.#timerAt = at
    if (at === Infinity) return
    const { clock, random } = this.#env
    // Members that lost one controller together shouldn't come back together.
    const jitter = this.#member.failures > 0 && at < giveUpBy ? 1 + random.next() * 0.2 : 1
    this.#timer = clock.after(Math.max(0, at - clock.monotonic()) * jitter, () => {
      this.#timer = null
      this.#timerAt = Infinity
      this.#tell({ on: 'wake' })
    })
  }
}
