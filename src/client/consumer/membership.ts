/**
 * Runs the member's machine (group/member/): gives it the clock and the network, and carries out what it asks for. The
 * heartbeats of a KIP-848 member go beside the handlers, whatever these do: a slow handler is said to be slow
 * (`overdue`), it doesn't make the member look dead.
 *
 * The seam for the other protocols is the vocabulary of group/member/protocol.ts: a driver of theirs asks the same of
 * `MembershipHost`.
 */
import type { Env, Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import {
  apply,
  checkInvariants,
  type ConsumerMember,
  type ConsumerMemberConfig,
  consumerMember,
  decide,
  type HeartbeatAnswer,
  type HeartbeatRequest
} from '../../group/member/consumer.ts'
import {
  type Lease,
  leaseKey,
  type MemberAction,
  type MemberEvent,
  type Subscription
} from '../../group/member/protocol.ts'
import { ConsumerGroupHeartbeat } from '../../protocol/api/consumer-group-heartbeat.ts'
import { kafkaErrorName } from '../../protocol/errors.ts'
import type { LaneName } from '../../rpc/call.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import type { CommitIdentity } from './commits.ts'
import type { TopicIdPartition } from './offsets.ts'
import { topicNames } from './topics.ts'

export interface MembershipHost {
  readonly cluster: Cluster
  readonly group: string
  readonly lane: LaneName
  readonly sessionTimeoutMs: number
  assign(partitions: readonly TopicIdPartition[]): void
  /** Resolves when nothing of `partitions` runs any more and what was processed is committed, or cannot be. */
  revoke(partitions: readonly TopicIdPartition[]): Promise<void>
  lose(partitions: readonly TopicIdPartition[], why: string): void
  /** The coordinator answered well: a session that may have been over is not. */
  confirmed(): void
  /** The group cannot be joined. */
  failed(error: PlayheadError): void
}

/** A heartbeat without an answer for so long is given up: several fit into a session. */
function heartbeatTimeoutMs(sessionTimeoutMs: number): number {
  return Math.max(1_000, Math.floor(sessionTimeoutMs / 3))
}

export class Membership {
  readonly #host: MembershipHost
  readonly #env: Env
  readonly #config: ConsumerMemberConfig
  #member: ConsumerMember
  #timer: Timer | null = null
  #timerAt = Infinity
  readonly #naming = new Naming()
  readonly #ends = new Set<() => void>()
  #over = false

  constructor(host: MembershipHost, config: ConsumerMemberConfig, subscription: Subscription) {
    this.#host = host
    this.#env = host.cluster.env
    this.#config = config
    this.#member = consumerMember(config, subscription)
  }

  get member(): ConsumerMember {
    return this.#member
  }

  /** As whom to commit; undefined while not a member. */
  get identity(): CommitIdentity | undefined {
    const { memberId, epoch } = this.#member
    if (epoch < 0) return undefined
    return { memberId, epoch, instanceId: this.#config.instanceId }
  }

  /** Until when this member is surely in its group, as far as it was told. */
  get aliveUntil(): number {
    return this.#member.lastGoodAt + this.#host.sessionTimeoutMs
  }

  get memberId(): string {
    return this.#member.memberId
  }

  get joined(): boolean {
    return this.#member.phase === 'member'
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

  /** Leaves. Resolves when the coordinator knows, or at `deadline` (monotonic), when its session time-out has to do. */
  async close(deadline: number): Promise<void> {
    if (!this.#over) {
      const left = new Promise<void>(resolve => this.#ends.add(resolve))
      this.#tell({ on: 'close' })
      const { clock } = this.#env
      const timer = clock.after(Math.max(0, deadline - clock.monotonic()), () => this.#end())
      await left
      timer.cancel()
    }
    this.#end()
  }

  /** The coordinator answered something else than a heartbeat with: it knows no such member. Ask at once. */
  doubted(): void {
    if (this.#member.phase === 'member') this.#subscribeAgain()
  }

  #subscribeAgain(): void {
    this.#tell({ on: 'subscribed', subscription: this.#member.subscription })
  }

  #tell(event: MemberEvent<HeartbeatAnswer>): void {
    if (this.#over) return
    const { facts, actions } = decide(this.#member, event, this.#env.clock.monotonic())
    for (const fact of facts) this.#member = apply(this.#member, fact)
    checkInvariants(this.#member)
    for (const action of actions) this.#do(action)
    this.#arm()
  }

  #do(action: MemberAction<HeartbeatRequest>): void {
    const { cluster, group } = this.#host
    switch (action.do) {
      case 'request':
        return this.#send(action.request)
      case 'findCoordinator':
        return cluster.coordinatorMoved({ group })
      case 'assign':
        return this.#assign(action.leases)
      case 'revoke':
        return this.#revoke(action.leases)
      case 'lose':
        return this.#host.lose(this.#naming.release(action.leases), action.why)
      case 'rejoin':
        this.#env.log.info(`group '${group}': joining again: ${action.why}`)
        return
      case 'fail': {
        this.#host.failed(refusalOf(group, action.code, action.message))
        return
      }
      case 'left':
        return this.#end()
    }
  }

  #end(): void {
    this.#over = true
    this.#timer?.cancel()
    this.#timer = null
    this.#naming.close()
    for (const resolve of this.#ends) resolve()
    this.#ends.clear()
  }

  #send(request: HeartbeatRequest): void {
    const { cluster, group, lane, sessionTimeoutMs } = this.#host
    const call = cluster.send(
      ConsumerGroupHeartbeat,
      { groupId: group, ...request },
      { to: { group }, lane, timeoutMs: heartbeatTimeoutMs(sessionTimeoutMs) }
    )
    call.response.then(
      ({ body }) => {
        const good = this.#member.lastGoodAt
        this.#tell({ on: 'answered', answer: body })
        if (this.#member.lastGoodAt > good) this.#host.confirmed()
      },
      (error: unknown) => {
        if (!(error instanceof PlayheadError)) throw error
        if (error.code === 'CLOSED') return this.#end()
        if (error.code === 'UNSUPPORTED_VERSION' || error.code === 'AUTHENTICATION_FAILED') {
          this.#host.failed(error)
        }
        this.#tell({ on: 'unanswered' })
      }
    )
  }

  /** Leases come by topic id, everything else goes by name: a topic that isn't known yet is asked for first. */
  #assign(leases: readonly Lease[]): void {
    const { cluster } = this.#host
    this.#naming.add(leases)
    const attempt = async (): Promise<void> => {
      const wanted = this.#naming.waiting()
      if (wanted.length === 0 || this.#over) return
      const names = await topicNames(cluster, new Set(wanted.map(l => l.topic)))
      if (this.#over) return
      const named = this.#naming.named(names)
      if (named.length > 0) this.#host.assign(named)
      if (this.#naming.waiting().length > 0) this.#naming.later(this.#env, again)
    }
    const again = (): void => {
      attempt().catch((error: unknown) => {
        if (!(error instanceof PlayheadError)) throw error
        if (error.code !== 'CLOSED') this.#naming.later(this.#env, again)
      })
    }
    again()
  }

  #revoke(leases: readonly Lease[]): void {
    const partitions = this.#naming.release(leases)
    const released = (): void => this.#tell({ on: 'released', leases })
    this.#host.revoke(partitions).then(released, (error: unknown) => {
      this.#env.log.warn(`group '${this.#host.group}': a revocation was not clean`, {
        error: String(error)
      })
      released()
    })
  }

  #arm(): void {
    const at = this.#over ? Infinity : this.#member.wakeAt
    if (at === this.#timerAt) return
    this.#timer?.cancel()
    this.#timer = null
    this.#timerAt = at
    if (at === Infinity || this.#member.inFlight !== null) {
      this.#timerAt = Infinity
      return
    }
    const { clock, random } = this.#env
    // Members that lost one coordinator together shouldn't come back together.
    const jitter = this.#member.failures > 0 ? 1 + random.next() * 0.2 : 1
    this.#timer = clock.after(Math.max(0, at - clock.monotonic()) * jitter, () => {
      this.#timer = null
      this.#timerAt = Infinity
      this.#tell({ on: 'wake' })
    })
  }
}

/** The group cannot be joined as configured. */
export function refusalOf(group: string, code: number, why: string): PlayheadError {
  const kafkaError = kafkaErrorName(code)
  const message = `group '${group}' refused this consumer: ${kafkaError} ${why}`
  return new PlayheadError(codeOf(kafkaError), message, { group, kafkaError })
}

function codeOf(
  kafkaError: string
): 'AUTHORIZATION_FAILED' | 'FENCED' | 'INVALID_ARGUMENT' | 'BROKER_ERROR' {
  if (kafkaError.endsWith('AUTHORIZATION_FAILED')) return 'AUTHORIZATION_FAILED'
  if (kafkaError === 'FENCED_INSTANCE_ID') return 'FENCED'
  const configured = ['INVALID_REGULAR_EXPRESSION', 'UNSUPPORTED_ASSIGNOR', 'INVALID_GROUP_ID']
  return configured.includes(kafkaError) ? 'INVALID_ARGUMENT' : 'BROKER_ERROR'
}

/** Leases between the machine, which knows topics by id, and the rest, which knows them by name. */
class Naming {
  readonly #waiting = new Map<string, Lease>()
  readonly #named = new Map<string, TopicIdPartition>()
  #timer: Timer | null = null

  add(leases: readonly Lease[]): void {
    for (const lease of leases) this.#waiting.set(leaseKey(lease), lease)
  }

  waiting(): Lease[] {
    return [...this.#waiting.values()]
  }

  /** Those that wait and whose topic is in `names`: they wait no longer. */
  named(names: ReadonlyMap<string, string>): TopicIdPartition[] {
    const now: TopicIdPartition[] = []
    for (const [key, lease] of this.#waiting) {
      const topic = names.get(lease.topic)
      if (topic === undefined) continue
      const partition = { topic, topicId: lease.topic, partition: lease.partition }
      this.#waiting.delete(key)
      this.#named.set(key, partition)
      now.push(partition)
    }
    return now
  }

  /** Gives up `leases`; those that had a name are returned, the others nobody has heard of. */
  release(leases: readonly Lease[]): TopicIdPartition[] {
    const known: TopicIdPartition[] = []
    for (const lease of leases) {
      const key = leaseKey(lease)
      this.#waiting.delete(key)
      const partition = this.#named.get(key)
      this.#named.delete(key)
      if (partition !== undefined) known.push(partition)
    }
    return known
  }

  later(env: Env, again: () => void): void {
    this.#timer ??= env.clock.after(200, () => {
      this.#timer = null
      again()
    })
  }

  close(): void {
    this.#timer?.cancel()
    this.#waiting.clear()
  }
}
