/**
 * What a member of a classic group knows, and how each fact changes it. What it does is in classic.ts.
 *
 * A member has two lines to its coordinator. On one it rebalances: JoinGroup, whose answer waits for all other members;
 * then, if it leads, the question how many partitions there are; then SyncGroup, whose answer waits for the leader. On
 * the other go its heartbeats, also while the first line waits, and in the end LeaveGroup. Each line has at most one
 * request under way.
 */
import { assert, unreachable } from '../../base/assert.ts'
import type { Heartbeat } from '../../protocol/api/heartbeat.ts'
import type { JoinGroup } from '../../protocol/api/join-group.ts'
import type { LeaveGroup } from '../../protocol/api/leave-group.ts'
import type { SyncGroup } from '../../protocol/api/sync-group.ts'
import type { RequestOf, ResponseOf } from '../../protocol/schema.ts'
import { type Leases, type MemberView, noLeases, type Subscription, without } from './protocol.ts'
import { type AssignorChoice, strategyOf } from './strategies.ts'

/** What doesn't change while a member lives. */
export interface ClassicMemberConfig {
  /** A static member: its partitions wait for it to come back (KIP-345). */
  readonly instanceId: string | null
  readonly rackId: string | null
  readonly sessionTimeoutMs: number
  /** How long the others wait for this member to join again. */
  readonly rebalanceTimeoutMs: number
  /** Between two heartbeats: a rebalance is heard of by one. */
  readonly heartbeatIntervalMs: number
  /** Best first. The coordinator takes one that all members offer. */
  readonly assignors: readonly AssignorChoice[]
  /** Says to all who look that this member takes part in rewinds. */
  readonly rewindable: boolean
}

export type Phase =
  /** Nothing was asked yet. `start` leads to joining. */
  | 'idle'
  /** JoinGroup is to be sent, or waits. With the generation before, if it is in one. Leads to syncing. */
  | 'joining'
  /** In a generation, without its assignment: SyncGroup. Leads to member; back to joining when the group moved on. */
  | 'syncing'
  /** Has its assignment. REBALANCE_IN_PROGRESS leads to joining, once everything is given up if it isn't cooperative. */
  | 'member'
  /** A handler was too slow: everything was given up, the leave is on its way. `caughtUp` leads to joining. */
  | 'overdue'
  /** `close` was told; the leave is sent until it is answered. Leads to left. */
  | 'leaving'
  /** Final. */
  | 'left'
  /** The coordinator refused for good. Final, but for `close`, which leads to left. */
  | 'failed'

export type JoinAnswer = Pick<
  ResponseOf<typeof JoinGroup>,
  'errorCode' | 'generationId' | 'protocolName' | 'leader' | 'skipAssignment' | 'memberId'
> & { readonly members: readonly JoinedMember[] }

/** A member as the coordinator tells the leader of it. */
export interface JoinedMember {
  readonly memberId: string
  readonly groupInstanceId: string | null
  readonly metadata: Buffer
}

/** How many partitions each topic has; a topic that isn't there has none. */
export type PartitionCounts = ReadonlyMap<string, number>

/** By topic, by partition: the racks that have a replica of it. Of what isn't in it nobody knows. */
export type PartitionRacks = ReadonlyMap<string, readonly (readonly string[])[]>

/** What a leader counted. */
export interface Counted {
  readonly counts: PartitionCounts
  readonly racks: PartitionRacks
}

export type Assignments = readonly { readonly memberId: string; readonly assignment: Buffer }[]

type Body<A> = Omit<A, 'groupId'>

/** What a member asks. */
export type ClassicRequest =
  | { readonly kind: 'join'; readonly body: Body<RequestOf<typeof JoinGroup>> }
  /**
   * The leader's question to the cluster: how many partitions do these have? Of a static leader that came back and is not
   * to assign anew (KIP-814): how many has the group? More may have come while it was away, and nobody looked.
   */
  | { readonly kind: 'count'; readonly topics: readonly string[]; readonly ofGroup: boolean }
  | { readonly kind: 'sync'; readonly body: Body<RequestOf<typeof SyncGroup>> }
  | { readonly kind: 'heartbeat'; readonly body: Body<RequestOf<typeof Heartbeat>> }
  | { readonly kind: 'leave'; readonly body: Body<RequestOf<typeof LeaveGroup>> }

/** An answer, to the request of that kind; null: there will be none, and whether it took effect is unknown. */
export type ClassicAnswer =
  | { readonly to: 'join'; readonly body: JoinAnswer | null }
  | { readonly to: 'count'; readonly body: Counted | null }
  | {
      readonly to: 'sync'
      readonly body: { readonly errorCode: number; readonly assignment: Buffer } | null
    }
  | { readonly to: 'heartbeat'; readonly body: { readonly errorCode: number } | null }
  | { readonly to: 'leave'; readonly body: { readonly errorCode: number } | null }

/** Requests of the line that rebalances, and of the other. */
export type LineKind = 'join' | 'count' | 'sync'
export type BeatKind = 'heartbeat' | 'leave'

/** A request under way. */
export interface Flight<Kind> {
  readonly kind: Kind
  readonly at: number
  /** The member's then: an answer about an older one says nothing. */
  readonly generation: number
}

export interface ClassicMember extends MemberView {
  readonly config: ClassicMemberConfig
  readonly subscription: Subscription
  readonly phase: Phase
  /** Of `owned`: asked back, not yet released. */
  readonly recalled: Leases
  /** What the leader gave this member; null while it is another generation's. */
  readonly target: Leases | null
  /** Of a leader: all members of the generation. */
  readonly leads: readonly JoinedMember[] | null
  /** The leader was told that the group has its assignment already (KIP-814). */
  readonly skipsAssignment: boolean
  /** Of a leader: what it counted, and what it assigns by that. */
  readonly plan: (Counted & { readonly assignments: Assignments }) | null
  /** What it was assigned last, and in which generation (-1: it never was): it outlives the membership. */
  readonly last: { readonly leases: Leases; readonly generation: number }
  /** The assignor that all members offer. */
  readonly assignor: string | null
  readonly line: Flight<LineKind> | null
  readonly beat: Flight<BeatKind> | null
  /** When the line that rebalances has its next request to send; Infinity: it has none. */
  readonly lineAt: number
  /** When the next heartbeat or leave is due; Infinity: none. */
  readonly beatAt: number
  /** From one heartbeat to the next, at present. */
  readonly beatEveryMs: number
  /** What was said when it joined is no longer so: it joins again. */
  readonly joinsAgain: boolean
  /** The round that it has heard of may end without it then; Infinity: it has heard of none. */
  readonly joinBy: number
  /** The generation that it joined may go on without it then, unless its SyncGroup gets there. */
  readonly syncBy: number
}

export type Fact =
  /** A rebalance, as a member of the generation before, if of any. */
  | { readonly is: 'joining'; readonly at: number }
  /** Nothing it had counts any more: not its partitions, nor its generation. */
  | { readonly is: 'expelled'; readonly forgetId: boolean }
  | { readonly is: 'named'; readonly memberId: string }
  | { readonly is: 'sentLine'; readonly kind: LineKind; readonly at: number }
  | { readonly is: 'sentBeat'; readonly kind: BeatKind; readonly at: number }
  /** The request under way is answered, or never will be; what follows from that is another fact. */
  | { readonly is: 'lineFree' }
  | { readonly is: 'beatFree' }
  | { readonly is: 'lineFailed'; readonly retryAt: number }
  | { readonly is: 'beatFailed'; readonly retryAt: number }
  | {
      readonly is: 'joined'
      readonly memberId: string
      readonly generation: number
      readonly assignor: string
      readonly leads: readonly JoinedMember[] | null
      readonly skipsAssignment: boolean
      readonly sentAt: number
      readonly at: number
    }
  | {
      readonly is: 'planned'
      readonly counted: Counted
      readonly assignments: Assignments
      readonly at: number
    }
  | { readonly is: 'synced'; readonly target: Leases; readonly at: number }
  /** The coordinator knows this member: as of a request that was sent at `sentAt`. */
  | { readonly is: 'good'; readonly sentAt: number }
  /** The coordinator waits for this member to join, at the earliest since then; null: it does not. */
  | { readonly is: 'waitedFor'; readonly since: number | null }
  | { readonly is: 'beatSoon'; readonly at: number }
  | { readonly is: 'granted'; readonly leases: Leases }
  | { readonly is: 'recalled'; readonly leases: Leases }
  | { readonly is: 'released'; readonly leases: Leases }
  | { readonly is: 'subscribed'; readonly subscription: Subscription }
  | { readonly is: 'mustJoinAgain' }
  | { readonly is: 'overdue'; readonly at: number }
  | { readonly is: 'leaving'; readonly at: number }
  | { readonly is: 'left' }
  /** At: leaves, then, whom the others would wait for. */
  | { readonly is: 'refused'; readonly at: number }

const never = Infinity

/**
 * A cooperative rebalance is often followed by a second, once somebody has given up what is meant for another. So that
 * this one is heard of soon, the heartbeats after a rebalance come in steps that double, from this to the interval.
 */
const soonMs = 50

const outside = {
  epoch: -1,
  owned: noLeases,
  recalled: noLeases,
  target: null,
  leads: null,
  skipsAssignment: false,
  plan: null,
  assignor: null,
  joinsAgain: false,
  joinBy: never,
  syncBy: never,
  lineAt: never,
  beatAt: never
} as const

export function classicMember(
  config: ClassicMemberConfig,
  subscription: Subscription
): ClassicMember {
  return {
    ...outside,
    config,
    subscription,
    memberId: '',
    phase: 'idle',
    last: { leases: noLeases, generation: -1 },
    line: null,
    beat: null,
    beatEveryMs: config.heartbeatIntervalMs,
    wakeAt: never,
    giveUpBy: never,
    lastGoodAt: -Infinity,
    failures: 0
  }
}

/** Whether it keeps its partitions while it joins (KIP-429): all that it offers must know what members have. */
export function isCooperative({ config }: ClassicMember): boolean {
  return config.assignors.every(choice => strategyOf(choice).cooperative)
}

export function apply(member: ClassicMember, fact: Fact): ClassicMember {
  const next = applied(member, fact)
  const { line, beat, lineAt, beatAt, phase, owned, joinBy, syncBy } = next
  const wakeAt = Math.min(line === null ? lineAt : never, beat === null ? beatAt : never)
  // Once there is a new round nobody waits for what belongs to the one before.
  const waitedUntil = phase === 'syncing' && joinBy === never ? syncBy : joinBy
  return { ...next, wakeAt, giveUpBy: owned.size === 0 ? never : waitedUntil }
}

function applied(member: ClassicMember, fact: Fact): ClassicMember {
  switch (fact.is) {
    case 'joining':
      return {
        ...member,
        phase: 'joining',
        target: null,
        leads: null,
        plan: null,
        joinsAgain: false,
        lineAt: fact.at
      }
    case 'expelled': {
      const { lineAt } = member
      const memberId = fact.forgetId ? '' : member.memberId
      return { ...member, ...outside, memberId, lineAt, lastGoodAt: -Infinity }
    }
    case 'named':
      return { ...member, memberId: fact.memberId }
    case 'joined': {
      const { memberId, generation: epoch, assignor, leads, skipsAssignment, at } = fact
      const { heartbeatIntervalMs, rebalanceTimeoutMs } = member.config
      // The coordinator counts from its answer on; a heartbeat that waits is about the generation before.
      const beatAt = member.epoch === -1 ? at + heartbeatIntervalMs : member.beatAt
      const joined = { memberId, epoch, assignor, leads, skipsAssignment, lineAt: at, beatAt }
      // For the SyncGroup it waits as long: since after the last that was told the round was on.
      const syncBy = Math.max(member.lastGoodAt, fact.sentAt) + rebalanceTimeoutMs
      return { ...member, ...joined, phase: 'syncing', joinBy: never, syncBy, failures: 0 }
    }
    case 'planned': {
      const { counted, assignments, at } = fact
      return { ...member, plan: { ...counted, assignments }, lineAt: at }
    }
    case 'synced': {
      const synced = { ...member, target: fact.target, lineAt: never, failures: 0 }
      const beatEveryMs = isCooperative(member) ? soonMs : member.config.heartbeatIntervalMs
      const beatAt = Math.min(member.beatAt, fact.at + beatEveryMs)
      const last = { leases: fact.target, generation: member.epoch }
      return { ...synced, phase: 'member', beatAt, beatEveryMs, last }
    }
    case 'good':
      return { ...member, lastGoodAt: Math.max(member.lastGoodAt, fact.sentAt), failures: 0 }
    case 'subscribed':
      return { ...member, subscription: fact.subscription }
    case 'mustJoinAgain':
      return { ...member, joinsAgain: true }
    case 'overdue':
    case 'leaving': {
      const { memberId, config } = member
      // A static member's partitions wait for it; its session time-out is what ends that.
      const owes = config.instanceId === null && memberId !== ''
      const beatAt = owes ? fact.at : never
      return { ...member, ...outside, phase: fact.is, beatAt, failures: 0, lastGoodAt: -Infinity }
    }
    case 'left':
      return { ...member, ...outside, phase: 'left' }
    case 'refused':
      return { ...member, ...outside, phase: 'failed', beatAt: fact.at }
    default:
      return appliedToLeases(member, fact)
  }
}

type LeaseFact = Extract<Fact, { readonly is: 'granted' | 'recalled' | 'released' | 'waitedFor' }>

function appliedToLeases(member: ClassicMember, fact: LeaseFact | LineFact): ClassicMember {
  const { owned, recalled } = member
  switch (fact.is) {
    case 'waitedFor': {
      if (fact.since === null) return { ...member, joinBy: never }
      const by = fact.since + member.config.rebalanceTimeoutMs
      return { ...member, joinBy: Math.min(member.joinBy, by) }
    }
    case 'granted':
      return { ...member, owned: new Map([...owned, ...fact.leases]) }
    case 'recalled':
      return { ...member, recalled: new Map([...recalled, ...fact.leases]) }
    case 'released': {
      const { leases } = fact
      return { ...member, owned: without(owned, leases), recalled: without(recalled, leases) }
    }
    default:
      return appliedToLines(member, fact)
  }
}

type LineFact = Extract<
  Fact,
  {
    readonly is:
      | 'sentLine'
      | 'sentBeat'
      | 'lineFree'
      | 'beatFree'
      | 'lineFailed'
      | 'beatFailed'
      | 'beatSoon'
  }
>

function appliedToLines(member: ClassicMember, fact: LineFact): ClassicMember {
  const { epoch: generation, config } = member
  switch (fact.is) {
    case 'sentLine': {
      const { kind, at } = fact
      return { ...member, line: { kind, at, generation }, lineAt: never }
    }
    case 'sentBeat': {
      const { kind, at } = fact
      const beatAt = kind === 'leave' ? never : at + member.beatEveryMs
      const beatEveryMs = Math.min(config.heartbeatIntervalMs, 2 * member.beatEveryMs)
      return { ...member, beat: { kind, at, generation }, beatAt, beatEveryMs }
    }
    case 'lineFree':
      return { ...member, line: null }
    case 'beatFree':
      return { ...member, beat: null }
    case 'lineFailed':
      return { ...member, line: null, lineAt: fact.retryAt, failures: member.failures + 1 }
    case 'beatFailed':
      return { ...member, beat: null, beatAt: fact.retryAt, failures: member.failures + 1 }
    case 'beatSoon':
      return { ...member, beatAt: Math.min(member.beatAt, fact.at) }
    default:
      return unreachable(fact)
  }
}

/** What holds after every step. */
export function checkInvariants(member: ClassicMember): void {
  const { phase, owned, recalled, epoch, line, beat, wakeAt, leads } = member
  const inside = phase === 'joining' || phase === 'syncing' || phase === 'member'
  for (const key of recalled.keys()) assert(owned.has(key), 'what is recalled is owned')
  assert(inside || owned.size === 0, 'only a member owns partitions')
  assert(inside || epoch === -1, 'only a member has a generation')
  assert(epoch >= 0 || owned.size === 0, 'what is owned is owned in a generation')
  assert(phase !== 'syncing' || epoch >= 0, 'a generation is synced')
  assert(phase !== 'member' || epoch >= 0, 'a member has a generation')
  assert(leads === null || phase === 'syncing' || phase === 'member', 'a leader leads a generation')
  const moves = inside || phase === 'leaving'
  const waits = line !== null || beat !== null || wakeAt < never
  assert(!moves || waits, 'somebody alive has something to wait for')
}
