/**
 * The member's half of a KIP-848 group. One request does everything: ConsumerGroupHeartbeat joins (epoch 0), keeps
 * alive, brings the target assignment, acknowledges what was given up, and leaves (-1; -2 for a static member that
 * will be back).
 *
 * The coordinator never gives a partition to somebody else before this member has said, by a heartbeat without it,
 * that it let go. So a revocation has no deadline here: heartbeats go on beside the handlers, and the acknowledgement
 * leaves when the last of them has ended and its work is committed. (The coordinator has one: `rebalanceTimeoutMs`.)
 *
 * Facts change state, `apply` alone applies them. Times are monotonic milliseconds.
 */
import { assert, unreachable } from '../../base/assert.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { type HeartbeatAnswer, heartbeatOf, type HeartbeatRequest } from './consumer-words.ts'
import {
  type Decision,
  type Lease,
  type Leases,
  leaseKey,
  leasesOf,
  type MemberAction,
  type MemberEvent,
  type MemberView,
  noLeases,
  type Subscription,
  tooSlow,
  without
} from './protocol.ts'

/** What doesn't change while a member lives. */
export interface ConsumerMemberConfig {
  readonly memberId: string
  /** A static member: its partitions wait for it to come back (KIP-345). */
  readonly instanceId: string | null
  readonly rackId: string | null
  /** How long the coordinator waits for partitions to be given up. */
  readonly rebalanceTimeoutMs: number
  /** 'uniform', 'range', or null: the coordinator's default. */
  readonly serverAssignor: string | null
}

export type Phase =
  /** Nothing was asked yet. `start` leads to joining. */
  | 'idle'
  /** Owns nothing and asks to join with epoch 0, again until answered. Success leads to member. */
  | 'joining'
  /** Heartbeats, owns, gives up. FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID lead to joining, `overdue` to overdue. */
  | 'member'
  /** A handler was too slow: everything was given up, the leave is on its way. `caughtUp` leads to joining. */
  | 'overdue'
  /** `close` was told; the leave is sent until it is answered. Leads to left. */
  | 'leaving'
  /** Final. */
  | 'left'
  /** The coordinator refused for good. Final, but for `close`, which leads to left. */
  | 'failed'

export type RequestKind = 'join' | 'heartbeat' | 'leave'

export interface ConsumerMember extends MemberView {
  readonly config: ConsumerMemberConfig
  readonly subscription: Subscription
  readonly phase: Phase
  /** Of `owned`: asked back, not yet released. */
  readonly recalled: Leases
  /** What the coordinator wants this member to own; null until it has said. */
  readonly target: Leases | null
  readonly heartbeatIntervalMs: number
  readonly inFlight: RequestKind | null
  readonly sentAt: number
  /** How many heartbeats since the join found nothing to own. */
  readonly looks: number
  /**
   * Until then one that was given up may yet come, and its answer, which goes nowhere, tell what the coordinator tells
   * once: so those after it ask for everything.
   */
  readonly doubtsUntil: number
  /** What the next heartbeat must say beyond being alive. */
  readonly mustSay: 'nothing' | 'owned' | 'everything'
}

export type Fact =
  | { readonly is: 'joining'; readonly at: number }
  | { readonly is: 'sent'; readonly kind: RequestKind; readonly at: number }
  | { readonly is: 'accepted'; readonly epoch: number; readonly intervalMs: number }
  | { readonly is: 'failed'; readonly retryAt: number }
  | { readonly is: 'targeted'; readonly target: Leases }
  | { readonly is: 'granted'; readonly leases: Leases }
  | { readonly is: 'recalled'; readonly leases: Leases; readonly giveUpBy: number }
  | { readonly is: 'released'; readonly leases: Leases; readonly at: number }
  | { readonly is: 'subscribed'; readonly subscription: Subscription; readonly at: number }
  | { readonly is: 'overdue'; readonly at: number }
  /** The request in flight was answered; what follows from that is another fact. */
  | { readonly is: 'settled' }
  | { readonly is: 'leaving'; readonly at: number }
  | { readonly is: 'left' }
  | { readonly is: 'refused' }

type Action = MemberAction<HeartbeatRequest>

/** Back-off between requests that fail: doubles from the first to the last of these. */
export const retryBackoffMs = 100
export const retryBackoffMaxMs = 2_000
/** Until the coordinator says: Kafka's default for groups. */
const firstIntervalMs = 5_000
/** How late a heartbeat may come that was given up. */
const lateMs = 30_000
/** Of a new member that has nothing yet: doubles from the first to the last of these, some nine seconds in all. */
const lookMs = 50
const lookMaxMs = 500
const mostLooks = 20
const never = Infinity

export function consumerMember(
  config: ConsumerMemberConfig,
  subscription: Subscription
): ConsumerMember {
  return {
    config,
    subscription,
    memberId: config.memberId,
    phase: 'idle',
    epoch: -1,
    owned: noLeases,
    recalled: noLeases,
    target: null,
    heartbeatIntervalMs: firstIntervalMs,
    inFlight: null,
    sentAt: -Infinity,
    looks: 0,
    doubtsUntil: -Infinity,
    lastGoodAt: -Infinity,
    giveUpBy: never,
    mustSay: 'everything',
    wakeAt: never,
    failures: 0
  }
}

export function decide(
  member: ConsumerMember,
  event: MemberEvent<HeartbeatAnswer>,
  now: number
): Decision<Fact, HeartbeatRequest> {
  const turn = new Turn(member, now)
  turn.on(event)
  return turn
}

/** One decision in the making: facts take effect as they are found, so that what follows sees them. */
class Turn implements Decision<Fact, HeartbeatRequest> {
  readonly facts: Fact[] = []
  readonly actions: Action[] = []
  private member: ConsumerMember
  private readonly now: number

  constructor(member: ConsumerMember, now: number) {
    this.member = member
    this.now = now
  }

  on(event: MemberEvent<HeartbeatAnswer>): void {
    const { phase } = this.member
    switch (event.on) {
      case 'start':
        if (phase === 'idle') this.fact({ is: 'joining', at: this.now })
        break
      case 'wake':
        if (this.now >= this.member.giveUpBy) this.rejoin(tooSlow)
        break
      case 'answered':
        this.answered(event.answer)
        break
      case 'unanswered':
        this.failed()
        break
      case 'unable':
        this.unable(event)
        break
      case 'released':
        this.released(event.leases)
        break
      case 'subscribed':
        if (phase !== 'left' && phase !== 'failed') {
          this.fact({ is: 'subscribed', subscription: event.subscription, at: this.now })
        }
        break
      case 'overdue':
        this.overdue()
        break
      case 'caughtUp':
        if (phase === 'overdue') this.fact({ is: 'joining', at: this.now })
        break
      case 'close':
        this.close()
        break
      default:
        unreachable(event)
    }
    this.sendWhatIsDue()
  }

  private answered(answer: HeartbeatAnswer): void {
    const { phase, inFlight } = this.member
    assert(inFlight !== null, 'an answer is to the request in flight')
    if (phase === 'leaving' || phase === 'overdue') return this.answeredOnTheWayOut(answer)
    // An answer to the leave of an overdue member that has caught up meanwhile: the join is still to come.
    if (inFlight === 'leave' || phase !== (inFlight === 'join' ? 'joining' : 'member')) {
      return this.fact({ is: 'settled' })
    }
    if (answer.errorCode === KafkaError.NONE) return this.accepted(answer)
    this.refused(answer)
  }

  private accepted(answer: HeartbeatAnswer): void {
    const intervalMs = answer.heartbeatIntervalMs > 0 ? answer.heartbeatIntervalMs : firstIntervalMs
    const { lastGoodAt, config } = this.member
    this.fact({ is: 'accepted', epoch: answer.memberEpoch, intervalMs })
    if (answer.assignment === null) return
    const leases: Lease[] = []
    for (const { topicId, partitions } of answer.assignment.topicPartitions) {
      for (const partition of partitions) leases.push({ topic: topicId, partition })
    }
    this.fact({ is: 'targeted', target: leasesOf(leases) })
    this.reconcile(lastGoodAt + config.rebalanceTimeoutMs)
  }

  /** Brings what is owned nearer to the target. What is recalled and wanted again is granted once it is released. */
  private reconcile(giveUpBy = never): void {
    const { owned, recalled, target } = this.member
    if (target === null) return
    const recall = without(without(owned, target), recalled)
    if (recall.size > 0) {
      this.fact({ is: 'recalled', leases: recall, giveUpBy })
      this.actions.push({ do: 'revoke', leases: [...recall.values()] })
    }
    const grant = without(target, owned)
    if (grant.size > 0) {
      this.fact({ is: 'granted', leases: grant })
      this.actions.push({ do: 'assign', leases: [...grant.values()] })
    }
  }

  private released(leases: readonly Lease[]): void {
    // A lease that was lost meanwhile is nobody's business any more.
    const ours = new Map(
      leases.filter(l => this.member.recalled.has(leaseKey(l))).map(l => [leaseKey(l), l])
    )
    if (ours.size === 0) return
    this.fact({ is: 'released', leases: ours, at: this.now })
    if (this.member.phase === 'member') this.reconcile()
  }

  private refused(answer: HeartbeatAnswer): void {
    const { errorCode: code } = answer
    switch (code) {
      case KafkaError.NOT_COORDINATOR:
      case KafkaError.COORDINATOR_NOT_AVAILABLE:
        this.actions.push({ do: 'findCoordinator' })
        return this.failed()
      // A static member's former self is still in its session: it ends, or leaves.
      case KafkaError.UNRELEASED_INSTANCE_ID:
      case KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
      case KafkaError.REQUEST_TIMED_OUT:
      case KafkaError.NETWORK_EXCEPTION:
      case KafkaError.THROTTLING_QUOTA_EXCEEDED:
      case KafkaError.UNKNOWN_SERVER_ERROR:
        return this.failed()
      case KafkaError.FENCED_MEMBER_EPOCH:
      case KafkaError.UNKNOWN_MEMBER_ID:
      case KafkaError.STALE_MEMBER_EPOCH:
        this.fact({ is: 'settled' })
        return this.rejoin('the coordinator no longer knows this member')
      default:
        this.loseAll('the group refused this member')
        this.fact({ is: 'refused' })
        this.actions.push({ do: 'fail', code, message: answer.errorMessage ?? '' })
    }
  }

  private unable({ error }: Extract<MemberEvent<unknown>, { on: 'unable' }>): void {
    const { phase } = this.member
    if (phase === 'left' || phase === 'failed') return
    const left = phase === 'leaving'
    if (!left) this.loseAll(error.message)
    this.fact({ is: left ? 'left' : 'refused' })
    this.actions.push(left ? { do: 'left' } : { do: 'fail', code: 0, message: '', error })
  }

  private rejoin(why: string): void {
    // Right after a join was refused this way a pause keeps two members of one id from a hot loop.
    const again = this.member.phase === 'joining'
    this.loseAll(why)
    if (again) return this.failed()
    this.fact({ is: 'joining', at: this.now })
    this.actions.push({ do: 'rejoin', why })
  }

  private loseAll(why: string): void {
    const { owned } = this.member
    if (owned.size > 0) this.actions.push({ do: 'lose', leases: [...owned.values()], why })
  }

  private overdue(): void {
    if (this.member.phase !== 'member' && this.member.phase !== 'joining') return
    this.loseAll('a handler took longer than maxProcessingMs')
    this.fact({ is: 'overdue', at: this.now })
  }

  private close(): void {
    const { phase, sentAt } = this.member
    if (phase === 'left' || phase === 'leaving') return
    // A join without an answer may have been accepted: whatever was asked once is left.
    const everAsked = sentAt > -Infinity
    if (phase !== 'failed' && everAsked) return this.fact({ is: 'leaving', at: this.now })
    this.fact({ is: 'left' })
    this.actions.push({ do: 'left' })
  }

  /** Of an answer while leaving only one thing matters: whether the coordinator has to be asked again. */
  private answeredOnTheWayOut(answer: HeartbeatAnswer): void {
    const { phase, inFlight } = this.member
    const { errorCode: code } = answer
    if (inFlight !== 'leave') return this.fact({ is: 'settled' })
    if (code === KafkaError.NOT_COORDINATOR || code === KafkaError.COORDINATOR_NOT_AVAILABLE) {
      this.actions.push({ do: 'findCoordinator' })
      return this.failed()
    }
    if (code === KafkaError.COORDINATOR_LOAD_IN_PROGRESS) return this.failed()
    this.fact({ is: 'settled' })
    if (phase === 'overdue') return
    this.fact({ is: 'left' })
    this.actions.push({ do: 'left' })
  }

  private failed(): void {
    const backoff = Math.min(retryBackoffMaxMs, retryBackoffMs * 2 ** this.member.failures)
    this.fact({ is: 'failed', retryAt: this.now + backoff })
  }

  private sendWhatIsDue(): void {
    const { inFlight, wakeAt, phase } = this.member
    if (inFlight !== null || wakeAt > this.now) return
    const kind = phase === 'joining' ? 'join' : phase === 'member' ? 'heartbeat' : 'leave'
    this.actions.push({ do: 'request', request: heartbeatOf(this.member, kind, this.now) })
    this.fact({ is: 'sent', kind, at: this.now })
  }

  private fact(fact: Fact): void {
    this.facts.push(fact)
    this.member = apply(this.member, fact)
  }
}

const nothingOwned = {
  owned: noLeases,
  recalled: noLeases,
  target: null,
  epoch: -1,
  giveUpBy: never
} as const

export function apply(member: ConsumerMember, fact: Fact): ConsumerMember {
  switch (fact.is) {
    case 'joining':
      return {
        ...member,
        ...nothingOwned,
        phase: 'joining',
        mustSay: 'everything',
        lastGoodAt: -Infinity,
        looks: 0,
        failures: 0,
        wakeAt: fact.at
      }
    case 'sent':
      return { ...member, inFlight: fact.kind, sentAt: fact.at, mustSay: 'nothing', wakeAt: never }
    case 'accepted':
      return applyAccepted(member, fact.epoch, fact.intervalMs)
    case 'failed': {
      const failures = member.failures + 1
      const doubtsUntil = fact.retryAt + lateMs
      const next = { failures, doubtsUntil, mustSay: 'everything', wakeAt: fact.retryAt } as const
      return { ...member, ...next, inFlight: null }
    }
    case 'subscribed': {
      const { subscription } = fact
      if (member.phase !== 'member') return { ...member, subscription }
      return { ...member, subscription, mustSay: 'everything', wakeAt: fact.at }
    }
    case 'overdue':
      return { ...member, ...nothingOwned, phase: 'overdue', failures: 0, wakeAt: fact.at }
    case 'settled': {
      const settled = member.phase === 'overdue' && member.inFlight === 'leave'
      return { ...member, inFlight: null, wakeAt: settled ? never : member.sentAt }
    }
    case 'leaving':
      return { ...member, ...nothingOwned, phase: 'leaving', failures: 0, wakeAt: fact.at }
    case 'left':
      return { ...member, ...nothingOwned, phase: 'left', wakeAt: never }
    case 'refused':
      return { ...member, ...nothingOwned, phase: 'failed', inFlight: null, wakeAt: never }
    default:
      return applyToLeases(member, fact)
  }
}

/**
 * Between two heartbeats. Who has just joined and has nothing yet looks more often: the coordinator assigns a moment
 * later, and others let go of what it is to have, neither of which it can tell before it is asked.
 */
function pauseMs({ owned, looks }: ConsumerMember, intervalMs: number): number {
  if (owned.size > 0 || looks >= mostLooks) return intervalMs
  return Math.min(intervalMs, lookMaxMs, lookMs * 2 ** looks)
}

function applyAccepted(member: ConsumerMember, epoch: number, intervalMs: number): ConsumerMember {
  const dueAt = member.sentAt + pauseMs(member, intervalMs)
  return {
    ...member,
    phase: 'member',
    epoch,
    heartbeatIntervalMs: intervalMs,
    lastGoodAt: member.sentAt,
    inFlight: null,
    looks: member.looks + 1,
    failures: 0,
    // What became worth saying while the request was out is said at once.
    wakeAt: member.mustSay === 'nothing' ? dueAt : member.sentAt
  }
}

type LeaseFact = Extract<Fact, { readonly is: 'targeted' | 'granted' | 'recalled' | 'released' }>

function applyToLeases(member: ConsumerMember, fact: LeaseFact): ConsumerMember {
  const { owned, recalled } = member
  switch (fact.is) {
    case 'targeted':
      return { ...member, target: fact.target }
    case 'granted': {
      const more = new Map([...owned, ...fact.leases])
      return { ...member, owned: more, ...saying(member, member.sentAt) }
    }
    case 'recalled': {
      const giveUpBy = Math.min(member.giveUpBy, fact.giveUpBy)
      return { ...member, recalled: new Map([...recalled, ...fact.leases]), giveUpBy }
    }
    case 'released': {
      const rest = without(recalled, fact.leases)
      return {
        ...member,
        owned: without(owned, fact.leases),
        recalled: rest,
        giveUpBy: rest.size === 0 ? never : member.giveUpBy,
        ...(member.phase === 'member' ? saying(member, fact.at) : {})
      }
    }
    default:
      return unreachable(fact)
  }
}

/** The next heartbeat says what is owned, and is due at once, behind the one that may be in flight. */
function saying(member: ConsumerMember, at: number): Pick<ConsumerMember, 'mustSay' | 'wakeAt'> {
  return { mustSay: member.mustSay === 'everything' ? 'everything' : 'owned', wakeAt: at }
}

/** What holds after every step. */
export function checkInvariants(member: ConsumerMember): void {
  const { phase, owned, recalled, epoch, inFlight, wakeAt } = member
  for (const key of recalled.keys()) assert(owned.has(key), 'what is recalled is owned')
  assert(phase === 'member' || owned.size === 0, 'only a member owns partitions')
  assert((phase === 'member') === epoch >= 0, 'a member has an epoch, and nobody else')
  const moves = phase === 'joining' || phase === 'member' || phase === 'leaving'
  assert(!moves || inFlight !== null || wakeAt < never, 'somebody alive has something to wait for')
}
