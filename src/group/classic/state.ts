/**
 * The state of a classic group (JoinGroup, SyncGroup, Heartbeat, LeaveGroup), and the facts that change it.
 *
 * Phases, by Kafka's names, what each answers and where it leads:
 *   Empty                no members. A JoinGroup of a new member leads to PreparingRebalance; anything of a member is
 *                        UNKNOWN_MEMBER_ID; offsets may be committed by anybody who gives no generation.
 *   PreparingRebalance   waits until every member has sent JoinGroup, at most the longest rebalance timeout of them;
 *                        who has not by then is removed, static members excepted. Heartbeats and SyncGroup are
 *                        REBALANCE_IN_PROGRESS. Leads to CompletingRebalance with the next generation, or Empty.
 *   CompletingRebalance  JoinGroup is answered, the leader makes the assignment. SyncGroup waits for it; commits are
 *                        REBALANCE_IN_PROGRESS. Leads to Stable, or back when members come, go or change.
 *   Stable               the assignment is known. A change of members leads to PreparingRebalance.
 *
 * Kafka stores a group when its leader has sent the assignment. Here each change is stored: an answered generation
 * never comes again with other members after a crash.
 */
import { type Read, array, bytes, int32, int64, message, string } from '../../protocol/schema.ts'
import { type Part, type Ticket, type Write, part, write } from '../machine.ts'

export type Phase = 'Empty' | 'PreparingRebalance' | 'CompletingRebalance' | 'Stable'

export const StoredClassicGroup = message({
  name: 'StoredClassicGroup',
  versions: [0, 0],
  flexible: 0,
  fields: {
    phase: string(),
    generation: int32(),
    protocolType: string({ nullable: 0 }),
    protocol: string({ nullable: 0 }),
    leader: string({ nullable: 0 }),
    /** When the phase began; wall clock. */
    sinceMs: int64()
  }
})

export const StoredClassicMember = message({
  name: 'StoredClassicMember',
  versions: [0, 0],
  flexible: 0,
  fields: {
    memberId: string(),
    instanceId: string({ nullable: 0 }),
    clientId: string(),
    clientHost: string(),
    sessionTimeoutMs: int32(),
    rebalanceTimeoutMs: int32(),
    protocols: array({ name: string(), metadata: bytes() }),
    assignment: bytes()
  }
})

export type ClassicMemberFact = Read<typeof StoredClassicMember.fields>

export interface ClassicMember extends ClassicMemberFact {
  /** Its JoinGroup that waits. */
  readonly joining: Ticket | null
  /** Its SyncGroup that waits. */
  readonly syncing: Ticket | null
  /** It has joined this generation and not yet asked for its assignment. */
  readonly unsynced: boolean
  /** It was never answered a JoinGroup: its client may be gone without our knowing. */
  readonly fresh: boolean
  readonly sessionEndsMs: number
}

export interface ClassicGroup {
  phase: Phase
  generation: number
  protocolType: string | null
  protocol: string | null
  leader: string | null
  sinceMs: number
  readonly members: Map<string, ClassicMember>
  readonly statics: Map<string, string>
  /** Ids that were given out (KIP-394) and have not joined yet, with their deadlines. */
  readonly promised: Map<string, number>
  /** When waiting for JoinGroups ends. */
  joinBy: JoinBy | null
  /** When waiting for SyncGroups ends. */
  syncByMs: number | null
}

export interface JoinBy {
  readonly atMs: number
  /** Of an empty group's first rebalance: it waits for more to come, and longer when more do, at most so long in all. */
  readonly initial: { readonly leftMs: number; readonly more: boolean } | null
}

export type ClassicFact =
  | ({ readonly kind: 'group' } & Read<typeof StoredClassicGroup.fields>)
  | { readonly kind: 'member'; readonly member: ClassicMemberFact }
  | { readonly kind: 'gone'; readonly memberId: string }
  | ({ readonly kind: 'waits'; readonly memberId: string } & Partial<
      Pick<ClassicMember, 'joining' | 'syncing' | 'unsynced' | 'fresh' | 'sessionEndsMs'>
    >)
  | { readonly kind: 'promised'; readonly memberId: string; readonly untilMs: number | null }
  | { readonly kind: 'joinBy'; readonly joinBy: JoinBy | null }
  | { readonly kind: 'syncBy'; readonly syncByMs: number | null }

export function newClassicGroup(): ClassicGroup {
  return {
    phase: 'Empty',
    generation: 0,
    protocolType: null,
    protocol: null,
    leader: null,
    sinceMs: -1,
    members: new Map(),
    statics: new Map(),
    promised: new Map(),
    joinBy: null,
    syncByMs: null
  }
}

export function applyClassic(group: ClassicGroup, fact: ClassicFact): ClassicGroup {
  switch (fact.kind) {
    case 'group':
      group.phase = fact.phase as Phase
      group.generation = fact.generation
      group.protocolType = fact.protocolType
      group.protocol = fact.protocol
      group.leader = fact.leader
      group.sinceMs = fact.sinceMs
      return group
    case 'member': {
      const { memberId, instanceId } = fact.member
      const before = group.members.get(memberId) ?? quiet
      const { joining, syncing, unsynced, fresh, sessionEndsMs } = before
      const waits = { joining, syncing, unsynced, fresh, sessionEndsMs }
      group.members.set(memberId, { ...fact.member, ...waits })
      if (instanceId !== null) group.statics.set(instanceId, memberId)
      return group
    }
    case 'gone': {
      const instanceId = group.members.get(fact.memberId)?.instanceId ?? null
      group.members.delete(fact.memberId)
      if (instanceId !== null && group.statics.get(instanceId) === fact.memberId) {
        group.statics.delete(instanceId)
      }
      return group
    }
    case 'waits': {
      const { kind: _kind, memberId, ...waits } = fact
      const before = group.members.get(memberId)
      if (before !== undefined) group.members.set(memberId, { ...before, ...waits })
      return group
    }
    case 'promised':
      if (fact.untilMs === null) group.promised.delete(fact.memberId)
      else group.promised.set(fact.memberId, fact.untilMs)
      return group
    case 'joinBy':
      group.joinBy = fact.joinBy
      return group
    case 'syncBy':
      group.syncByMs = fact.syncByMs
      return group
  }
}

const quiet = {
  joining: null,
  syncing: null,
  unsynced: false,
  fresh: false,
  sessionEndsMs: Infinity
} as const

// Parts of the store: 0x18 to 0x1f are this machine's.
const groupPart = 0x18
const memberPart = 0x19

export function classicWrites(fact: ClassicFact): readonly Write[] {
  switch (fact.kind) {
    case 'group':
      return [write(groupPart, '', StoredClassicGroup, fact)]
    case 'member':
      return [write(memberPart, fact.member.memberId, StoredClassicMember, fact.member)]
    case 'gone':
      return [write(memberPart, fact.memberId, StoredClassicMember, null)]
    default:
      return []
  }
}

export const classicParts: ReadonlyMap<number, Part<ClassicFact>> = new Map([
  [groupPart, part(StoredClassicGroup, (value): ClassicFact => ({ kind: 'group', ...value }))],
  [memberPart, part(StoredClassicMember, (member): ClassicFact => ({ kind: 'member', member }))]
])
