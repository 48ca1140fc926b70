/**
 * Runs a member's machine (group/member/): gives it the clock and the network, and carries out what it asks for.
 * Heartbeats go beside the handlers, whatever these do: a slow handler is said to be slow (`overdue`), it doesn't make
 * the member look dead.
 *
 * What differs between the protocols is in a `MemberPort`: membership-consumer.ts (KIP-848), membership-classic.ts.
 */
import type { Env, Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import {
  type Decision,
  type Lease,
  leaseKey,
  type MemberAction,
  type MemberView,
  type Subscription
} from '../../group/member/protocol.ts'
import { kafkaErrorName } from '../../protocol/errors.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import type { CommitIdentity } from './commits.ts'
import type { TopicIdPartition } from './offsets.ts'

export interface MembershipHost {
  readonly cluster: Cluster
  readonly group: string
  readonly lane: `group:${string}`
  readonly sessionTimeoutMs: number
  readonly maxProcessingMs: number
  assign(partitions: readonly TopicIdPartition[]): void
  /** Resolves when nothing of `partitions` runs any more and what was processed is committed, or cannot be. */
  revoke(partitions: readonly TopicIdPartition[]): Promise<void>
  lose(partitions: readonly TopicIdPartition[], why: string): void
  /** The coordinator answered well: a session that may have been over is not. */
  confirmed(): void
  /** The coordinator has accepted this member, for the first time or again. */
  joined(): void
  /** The group cannot be joined. */
  failed(error: PlayheadError): void
}

/** A group protocol: its machine, and how its requests are sent. */
export interface MemberPort<State extends MemberView, Event, Fact, Request> {
  readonly initial: State
  readonly instanceId: string | null
  decide(state: State, event: Event, now: number): Decision<Fact, Request>
  apply(state: State, fact: Fact): State
  check(state: State): void
  /** When it wants to be told the time; Infinity: something else comes first. */
  wakeAt(state: State): number
  /** Between two heartbeats. */
  intervalMs(state: State): number
  /** Sends a request of the machine; what comes of it is told. */
  send(request: Request, membership: MembershipOf<Event>): void
  /** What leases call topics, with name and id. Those that don't exist (any more) are left out. */
  topics(names: ReadonlySet<string>): Promise<ReadonlyMap<string, NamedTopic>>
  /** The event that makes it ask the coordinator at once whether it is still a member; null: not at present. */
  doubt(state: State): Event | null
  /** Called when an event changed the state. */
  changed?(state: State, membership: MembershipOf<Event>): void
  close?(): void
}

export interface NamedTopic {
  readonly topic: string
  readonly topicId: string
}

/** A membership as its port sees it. */
export interface MembershipOf<Event> {
  tell(event: Event | CommonEvent): void
  /** A request was rejected. False: this membership is over, and nothing is to be told. */
  troubled(error: unknown): boolean
}

/** Events of every machine. */
type CommonEvent =
  | { readonly on: 'start' }
  | { readonly on: 'wake' }
  | { readonly on: 'unable'; readonly error: PlayheadError }
  | { readonly on: 'released'; readonly leases: readonly Lease[] }
  | { readonly on: 'overdue' }
  | { readonly on: 'caughtUp' }
  | { readonly on: 'subscribed'; readonly subscription: Subscription }
  | { readonly on: 'close' }

/** A heartbeat without an answer for so long is given up: several fit into a session. */
export function heartbeatTimeoutMs(sessionTimeoutMs: number): number {
  return Math.max(1_000, Math.floor(sessionTimeoutMs / 3))
}

/**
 * How long a member is surely in its group once the coordinator has accepted a request: until its session ends, or a
 * round that begins right then has waited for it in vain. But three heartbeats: what a single late answer stops would
 * stop all the time.
 */
export function surelyMemberMs(
  sessionTimeoutMs: number,
  maxProcessingMs: number,
  intervalMs: number
): number {
  return Math.min(sessionTimeoutMs, Math.max(maxProcessingMs, 3 * intervalMs))
}

/** A membership as the rest of the consumer sees it, whatever its protocol. */
export interface Member {
  readonly memberId: string
  readonly identity: CommitIdentity | undefined
  readonly aliveUntil: number
  readonly joined: boolean
  start(): void
  subscribe(subscription: Subscription): void
  overdue(): void
  caughtUp(): void
  doubted(): void
  close(deadline: number): Promise<void>
}

export class Membership<State extends MemberView, Event, Fact, Request>
  implements Member, MembershipOf<Event>
{
  readonly #host: MembershipHost
  readonly #env: Env
  readonly #port: MemberPort<State, Event | CommonEvent, Fact, Request>
  #member: State
  #timer: Timer | null = null
  #timerAt = Infinity
  readonly #naming = new Naming()
  readonly #ends = new Set<() => void>()
  #over = false

  constructor(host: MembershipHost, port: MemberPort<State, Event | CommonEvent, Fact, Request>) {
    this.#host = host
    this.#env = host.cluster.env
    this.#port = port
    this.#member = port.initial
  }

  get memberId(): string {
    return this.#member.memberId
  }

  /** As whom to commit; undefined while not a member. */
  get identity(): CommitIdentity | undefined {
    const { memberId, epoch } = this.#member
    if (epoch < 0) return undefined
    return { memberId, epoch, instanceId: this.#port.instanceId }
  }

  /** Until when this member is surely in its group, as far as it was told. */
  get aliveUntil(): number {
    const { sessionTimeoutMs, maxProcessingMs } = this.#host
    const intervalMs = this.#port.intervalMs(this.#member)
    return this.#member.lastGoodAt + surelyMemberMs(sessionTimeoutMs, maxProcessingMs, intervalMs)
  }

  get joined(): boolean {
    return this.#member.epoch >= 0
  }

  start(): void {
    this.tell({ on: 'start' })
  }

  subscribe(subscription: Subscription): void {
    this.tell({ on: 'subscribed', subscription })
  }

  overdue(): void {
    this.tell({ on: 'overdue' })
  }

  caughtUp(): void {
    this.tell({ on: 'caughtUp' })
  }

  /** Leaves. Resolves when the coordinator knows, or at `deadline` (monotonic), when its session time-out has to do. */
  async close(deadline: number): Promise<void> {
    if (!this.#over) {
      const left = new Promise<void>(resolve => this.#ends.add(resolve))
      this.tell({ on: 'close' })
      const { clock } = this.#env
      const timer = clock.after(Math.max(0, deadline - clock.monotonic()), () => this.#end())
      await left
      timer.cancel()
    }
    this.#end()
  }

  /** The coordinator answered something else than a heartbeat with: it knows no such member. Ask at once. */
  doubted(): void {
    const event = this.#port.doubt(this.#member)
    if (event !== null) this.tell(event)
  }

  tell(event: Event | CommonEvent): void {
    if (this.#over) return
    const { lastGoodAt: good, epoch } = this.#member
    const { facts, actions } = this.#port.decide(this.#member, event, this.#env.clock.monotonic())
    for (const fact of facts) this.#member = this.#port.apply(this.#member, fact)
    this.#port.check(this.#member)
    if (epoch < 0 && this.#member.epoch >= 0) this.#host.joined()
    for (const action of actions) this.#do(action)
    this.#arm()
    if (this.#member.lastGoodAt > good) this.#host.confirmed()
    if (facts.length > 0) this.#port.changed?.(this.#member, this)
  }

  troubled(error: unknown): boolean {
    if (!(error instanceof PlayheadError)) throw error
    if (error.code === 'CLOSED') this.#end()
    else if (isDefinite(error)) {
      this.tell({ on: 'unable', error: cannotGoOn(this.#host.group, error) })
      return false
    }
    return !this.#over
  }

  #do(action: MemberAction<Request>): void {
    const { cluster, group } = this.#host
    switch (action.do) {
      case 'request':
        return this.#port.send(action.request, this)
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
        this.#host.failed(action.error ?? refusalOf(group, action.code, action.message))
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
    this.#port.close?.()
    for (const resolve of this.#ends) resolve()
    this.#ends.clear()
  }

  /** Leases have a topic's id or its name, everything else needs both: a topic that isn't known is asked for first. */
  #assign(leases: readonly Lease[]): void {
    this.#naming.add(leases)
    const attempt = async (): Promise<void> => {
      const wanted = this.#naming.waiting()
      if (wanted.length === 0 || this.#over) return
      const names = await this.#port.topics(new Set(wanted.map(l => l.topic)))
      if (this.#over) return
      const named = this.#naming.named(names)
      if (named.length > 0) this.#host.assign(named)
      if (this.#naming.waiting().length > 0) this.#naming.later(this.#env, again)
    }
    const again = (): void => {
      attempt().catch((error: unknown) => {
        if (!(error instanceof PlayheadError)) throw error
        if (error.code !== 'CLOSED' && !this.#over) this.#naming.later(this.#env, again)
      })
    }
    again()
  }

  /** What is being given up keeps its name until it is: the membership may be lost before, and it with it. */
  #revoke(leases: readonly Lease[]): void {
    const partitions = this.#naming.begin(leases)
    const released = (): void => {
      this.#naming.end(partitions)
      this.tell({ on: 'released', leases })
    }
    this.#host.revoke([...partitions.values()]).then(released, (error: unknown) => {
      this.#env.log.warn(`group '${this.#host.group}': a revocation was not clean`, {
        error: String(error)
      })
      released()
    })
  }

  #arm(): void {
    const { giveUpBy } = this.#member
    const at = this.#over ? Infinity : Math.min(this.#port.wakeAt(this.#member), giveUpBy)
    if (at === this.#timerAt) return
    this.#timer?.cancel()
    this.#timer = null
    this.#timerAt = at
    if (at === Infinity) return
    const { clock, random } = this.#env
    // Members that lost one coordinator together shouldn't come back together.
    const jitter = this.#member.failures > 0 && at < giveUpBy ? 1 + random.next() * 0.2 : 1
    this.#timer = clock.after(Math.max(0, at - clock.monotonic()) * jitter, () => {
      this.#timer = null
      this.#timerAt = Infinity
      this.tell({ on: 'wake' })
    })
  }
}

/** No request gets further than this one: who tries again hears the same. */
export function isDefinite({ code }: PlayheadError): boolean {
  return code === 'UNSUPPORTED_VERSION' || code === 'AUTHENTICATION_FAILED'
}

export function cannotGoOn(group: string, cause: PlayheadError): PlayheadError {
  const message = `group '${group}': this consumer is no member any more: ${cause.message}`
  return new PlayheadError(cause.code, message, { group, cause })
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
  const configured = [
    'INVALID_REGULAR_EXPRESSION',
    'UNSUPPORTED_ASSIGNOR',
    'INVALID_GROUP_ID',
    'INCONSISTENT_GROUP_PROTOCOL',
    'INVALID_SESSION_TIMEOUT'
  ]
  return configured.includes(kafkaError) ? 'INVALID_ARGUMENT' : 'BROKER_ERROR'
}

/** Leases between the machine, which has one name for a topic, and the rest, which has name and id. */
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
  named(names: ReadonlyMap<string, NamedTopic>): TopicIdPartition[] {
    const now: TopicIdPartition[] = []
    for (const [key, lease] of this.#waiting) {
      const topic = names.get(lease.topic)
      if (topic === undefined) continue
      const partition = { ...topic, partition: lease.partition }
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

  /** The same, but the names stay until `end`. */
  begin(leases: readonly Lease[]): Map<string, TopicIdPartition> {
    const known = new Map<string, TopicIdPartition>()
    for (const lease of leases) {
      const key = leaseKey(lease)
      this.#waiting.delete(key)
      const partition = this.#named.get(key)
      if (partition !== undefined) known.set(key, partition)
    }
    return known
  }

  /** Unless they were given up meanwhile, and came again. */
  end(begun: ReadonlyMap<string, TopicIdPartition>): void {
    for (const [key, partition] of begun) {
      if (this.#named.get(key) === partition) this.#named.delete(key)
    }
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
