/**
 * The state of a group led by a controller, as Kafka's design of 2013 had it, and the facts that change it.
 *
 * States of a group:
 *   empty      no members. A RegisterConsumer leads to gathering; anybody may commit offsets; a rewind is recorded.
 *   gathering  a round is open: whoever has not registered since it opened is told so by its heartbeat. It ends when
 *              the last of them has registered or was removed, and leads to stable, or to empty.
 *   stable     everybody was answered. A member that comes, goes or wants other topics leads to gathering, and so do
 *              topics that come, grow or go. A rewind does not: it concerns the owners of its partitions alone.
 *
 * States of a partition, its lease:
 *   free       nobody has it: the next round gives it to somebody.
 *   held       nobody has it, and an open transaction may yet commit offsets of it: it is promised, as if somebody had
 *              it, until that has ended.
 *   granted    to a member. A commit of it is taken from that member alone, with the member's generation.
 *   recalled   it is still the member's, who is to stop it, commit, and register. `moved`: then it is free and goes to
 *              whom it is promised. `rewound`: then it is the member's again, at its new offset.
 *
 * A registration gives up what the member doesn't say it keeps, as far as it was granted no later than the generation
 * that the registration names. So a registration that comes late, on a connection that was given up, takes nothing
 * away that was granted since; and one whose answer was lost is answered again.
 */
import type { Partitions } from '../assign/assignor.ts'
import { type Client, type Ticket } from '../machine.ts'
import { type OffsetFact, type Offsets, applyOffset, noOffsets } from '../offsets/offsets.ts'
import { drop, put } from './by-partition.ts'

export type StartFrom = 'earliest' | 'latest' | 'none'

/** What a member says of itself when it registers. Durable, once it was answered. */
export interface Registration {
  readonly memberId: string
  readonly instanceId: string | null
  readonly client: Client
  readonly sessionTimeoutMs: number
  readonly registerTimeoutMs: number
  readonly topics: readonly string[]
  readonly pattern: string | null
  readonly startFrom: StartFrom
  /** 0: no limit. */
  readonly capacity: number
}

export interface Lease {
  /** The generation in which it was granted: a commit or registration of an older one is not about it. */
  readonly since: number
  /** The member is to give it up, as it goes to another. */
  readonly moved: boolean
  /** The rewind by which it started; 0: none. */
  readonly rewindId: number
}

/** By topic id and partition. */
export type Leases = ReadonlyMap<string, ReadonlyMap<number, Lease>>

export interface Parked {
  readonly ticket: Ticket
  readonly untilMs: number
}

/** A registration that waits for the end of the round. */
export interface Registered {
  /** Null: the connection broke; the member registers again when it is back. */
  readonly ticket: Ticket | null
  readonly generation: number
  readonly kept: Partitions
}

export interface Member {
  readonly id: string
  readonly registration: Registration
  /** -1: it has not been answered yet. */
  readonly generation: number
  readonly leases: Leases
  /** What the last round gave it, granted or promised. */
  readonly target: Partitions
  /** Monotonic. Infinity: while a request of it waits here, it is alive. */
  readonly sessionEndsMs: number
  readonly parked: Parked | null
  readonly registered: Registered | null
  /** The last it was told since it was answered. */
  readonly told: 'nothing' | 'changed' | 'rewound'
  /** Until when it has to have given up what is recalled as moved. */
  readonly recalledUntilMs: number
  /** It was not told of what is recalled, so it cannot give that up: it is to register once more, without it. */
  readonly isUnaware: boolean
  /** Promised to it and free by now. */
  readonly due: Partitions
}

/** A topic of the group. */
export interface Known {
  readonly topicId: string
  readonly topic: string
  readonly partitionCount: number
  /** Partitions from here on appeared after the group did: they start at their smallest offset. */
  readonly freshFrom: number
}

/**
 * The newest rewind of one partition.
 *   waiting   its owner was told, or is to be. When it has given up the partition, or is gone, the offset is recorded;
 *             of a replay, when no transaction holds the partition either.
 *   recorded  the offset is committed; there is no owner that was told. The next one is, with its grant.
 *   cancelled its caller took it back while it waited: it never takes place, and the one before is the last that did.
 *   done      its owner was told. It is kept: who asks learns of it, and may undo it. Of a bounded replay every owner
 *             is told the window, until its end is committed.
 */
export interface Rewind {
  readonly topicId: string
  readonly topic: string
  readonly partition: number
  readonly id: number
  /** The last one before it that took place; 0: none. */
  readonly previousId: number
  /** … and its window, -1: it was no bounded replay. It is in force again if this one is cancelled. */
  readonly previousUntil: number
  readonly previousResume: number
  readonly target: number
  /** Where the group was: when it was asked for, and then when it took place; -1: nowhere. */
  readonly from: number
  /** Bounded replay; -1: not one. */
  readonly until: number
  readonly resume: number
  /** Wall clock. */
  readonly askedAtMs: number
  readonly by: string
  readonly reason: string
  readonly state: RewindState
}
/** In the order of their numbers, on the wire and in the store. */
export const rewindStates = ['waiting', 'recorded', 'done', 'cancelled'] as const
export type RewindState = (typeof rewindStates)[number]

/** Somebody waits for the outcome of a rewind. */
export interface Call {
  readonly ticket: Ticket
  readonly id: number
  readonly untilMs: number
  /** By topic id and partition, in the order of the request. */
  readonly lines: ReadonlyMap<string, ReadonlyMap<number, CallLine>>
  /** How many lines are not decided. */
  open: number
}

export interface CallLine {
  readonly topic: string
  previousOffset: number
  readonly owner: string
  offset: number
  /** Null: not decided. */
  errorCode: number | null
}

export interface Round {
  readonly why: 'group' | 'topics'
  /** From when on members are told, and their time to register runs. */
  readonly startsMs: number
  told: boolean
  /** Who has not registered. */
  readonly missing: Set<string>
}

/** What outlives the process of the group as a whole. */
export interface Head {
  readonly generation: number
  readonly lastRewindId: number
  /** Of members that don't say. */
  readonly sessionTimeoutMs: number
  readonly startFrom: StartFrom
  /** When it became empty, or was made: wall clock. */
  readonly emptySinceMs: number
  /** What members subscribed to at the last round: a topic that matches and is not known appeared after it. */
  readonly topics: readonly string[]
  readonly patterns: readonly string[]
}

export interface ControllerGroup {
  head: Head
  readonly members: Map<string, Member>
  /** Member id by instance id. */
  readonly statics: Map<string, string>
  /** Who has a lease, by topic id and partition: derived from the members. */
  readonly owners: Map<string, Map<number, string>>
  readonly known: Map<string, Known>
  /** The newest of each partition, by topic id and partition. */
  readonly rewinds: Map<string, Map<number, Rewind>>
  /** How many of them are waiting. */
  waiting: number
  readonly calls: Map<Ticket, Call>
  /** Who gets a partition when it is free, and no transaction holds it: member id by topic id and partition. */
  readonly promised: Map<string, Map<number, string>>
  round: Round | null
  /** Of the last one. */
  roundEndedMs: number
  roundTookMs: number
  /** Whose heartbeat or registration waits. */
  readonly tickets: Map<Ticket, string>
  /** When `time` is due at the latest: monotonic. */
  wakeAtMs: number
  /** The group's committed offsets. They are the host's to load. */
  readonly offsets: Offsets
}

export type ControllerFact =
  | { readonly kind: 'head'; readonly head: Head }
  | {
      readonly kind: 'member'
      readonly registration: Registration
      /** False: it was not answered yet, and nobody would miss it. */
      readonly durable: boolean
    }
  | {
      readonly kind: 'holds'
      readonly memberId: string
      readonly generation: number
      readonly leases: Leases
    }
  | { readonly kind: 'gone'; readonly memberId: string }
  | { readonly kind: 'known'; readonly topic: Known }
  | { readonly kind: 'unknown'; readonly topicId: string }
  | { readonly kind: 'rewind'; readonly rewind: Rewind }
  | { readonly kind: 'rewindOver'; readonly topicId: string; readonly partition: number }
  | { readonly kind: 'offset'; readonly fact: OffsetFact }
  // What follows lasts as long as the process.
  | { readonly kind: 'changes'; readonly memberId: string; readonly to: Partial<Waiting> }
  | { readonly kind: 'round'; readonly why: Round['why']; readonly startsMs: number }
  | { readonly kind: 'roundTold' }
  | { readonly kind: 'roundOver'; readonly atMs: number }
  | {
      readonly kind: 'promised'
      readonly promised: ReadonlyMap<string, ReadonlyMap<number, string>>
    }
  | {
      readonly kind: 'promise'
      readonly topicId: string
      readonly partition: number
      readonly memberId: string
    }
  | { readonly kind: 'due'; readonly topicId: string; readonly partition: number }
  | { readonly kind: 'call'; readonly call: Call }
  | {
      readonly kind: 'decided'
      readonly ticket: Ticket
      readonly topicId: string
      readonly partition: number
      readonly errorCode: number
      readonly from: number
      readonly offset: number
    }
  | { readonly kind: 'callOver'; readonly ticket: Ticket }
  | { readonly kind: 'wakes'; readonly atMs: number }

/** The volatile side of a member. */
export type Waiting = Pick<
  Member,
  | 'target'
  | 'sessionEndsMs'
  | 'parked'
  | 'registered'
  | 'told'
  | 'recalledUntilMs'
  | 'isUnaware'
  | 'due'
>

export function newControllerGroup(offsets: Offsets = noOffsets()): ControllerGroup {
  return {
    head: {
      generation: 0,
      lastRewindId: 0,
      sessionTimeoutMs: -1,
      startFrom: 'earliest',
      emptySinceMs: -1,
      topics: [],
      patterns: []
    },
    members: new Map(),
    statics: new Map(),
    owners: new Map(),
    known: new Map(),
    rewinds: new Map(),
    waiting: 0,
    calls: new Map(),
    promised: new Map(),
    round: null,
    roundEndedMs: -Infinity,
    roundTookMs: 0,
    tickets: new Map(),
    wakeAtMs: Infinity,
    offsets
  }
}

export const nothing: ReadonlyMap<string, never> = new Map<string, never>()

export function applyController(group: ControllerGroup, fact: ControllerFact): ControllerGroup {
  switch (fact.kind) {
    case 'head':
      group.head = fact.head
      break
    case 'member':
      enter(group, fact.registration)
      break
    case 'holds':
      hold(group, fact)
      break
    case 'gone':
      remove(group, fact.memberId)
      break
    case 'known':
      group.known.set(fact.topic.topicId, fact.topic)
      break
    case 'unknown':
      group.known.delete(fact.topicId)
      break
    case 'rewind':
      forgetRewind(group, fact.rewind.topicId, fact.rewind.partition)
      put(group.rewinds, fact.rewind.topicId, fact.rewind.partition, fact.rewind)
      if (fact.rewind.state === 'waiting') group.waiting++
      break
    case 'rewindOver':
      forgetRewind(group, fact.topicId, fact.partition)
      break
    case 'offset':
      applyOffset(group.offsets, fact.fact)
      break
    default:
      applyVolatile(group, fact)
  }
  return group
}

type VolatileFact = Exclude<
  ControllerFact,
  {
    kind:
      | 'head'
      | 'member'
      | 'holds'
      | 'gone'
      | 'known'
      | 'unknown'
      | 'rewind'
      | 'rewindOver'
      | 'offset'
  }
>

function applyVolatile(group: ControllerGroup, fact: VolatileFact): void {
  switch (fact.kind) {
    case 'changes':
      return change(group, fact.memberId, fact.to)
    case 'round': {
      const missing = new Set<string>()
      for (const { id, registered } of group.members.values()) {
        if (registered === null) missing.add(id)
      }
      group.round = { why: fact.why, startsMs: fact.startsMs, told: false, missing }
      return
    }
    case 'roundTold':
      if (group.round !== null) group.round.told = true
      return
    case 'roundOver':
      if (group.round !== null) group.roundTookMs = fact.atMs - group.round.startsMs
      group.round = null
      group.roundEndedMs = fact.atMs
      return
    case 'promised':
      group.promised.clear()
      for (const [topicId, members] of fact.promised) group.promised.set(topicId, new Map(members))
      return
    case 'promise':
      put(group.promised, fact.topicId, fact.partition, fact.memberId)
      return
    case 'due': {
      const member = group.members.get(drop(group.promised, fact.topicId, fact.partition) ?? '')
      if (member === undefined) return
      const due = new Map([...member.due].map(([topicId, of]) => [topicId, new Set(of)]))
      const of = due.get(fact.topicId)
      if (of === undefined) due.set(fact.topicId, new Set([fact.partition]))
      else of.add(fact.partition)
      group.members.set(member.id, { ...member, due })
      return
    }
    case 'call':
      group.calls.set(fact.call.ticket, fact.call)
      return
    case 'decided': {
      const call = group.calls.get(fact.ticket)
      const line = call?.lines.get(fact.topicId)?.get(fact.partition)
      if (call === undefined || line === undefined) return
      line.errorCode = fact.errorCode
      line.previousOffset = fact.from
      line.offset = fact.offset
      call.open--
      return
    }
    case 'callOver':
      group.calls.delete(fact.ticket)
      return
    case 'wakes':
      group.wakeAtMs = fact.atMs
      return
  }
}

function enter(group: ControllerGroup, registration: Registration): void {
  const { memberId, instanceId } = registration
  const there = group.members.get(memberId)
  if (instanceId !== null) group.statics.set(instanceId, memberId)
  if (there !== undefined) {
    group.members.set(memberId, { ...there, registration })
    return
  }
  group.members.set(memberId, {
    id: memberId,
    registration,
    generation: -1,
    leases: nothing,
    target: nothing,
    sessionEndsMs: Infinity,
    parked: null,
    registered: null,
    told: 'nothing',
    recalledUntilMs: Infinity,
    isUnaware: false,
    due: nothing
  })
  group.round?.missing.add(memberId)
}

function hold(
  group: ControllerGroup,
  { memberId, generation, leases }: Extract<ControllerFact, { kind: 'holds' }>
): void {
  const member = group.members.get(memberId)
  if (member === undefined) return
  disown(group, member)
  group.members.set(memberId, { ...member, generation, leases })
  for (const [topicId, partitions] of leases) {
    for (const partition of partitions.keys()) put(group.owners, topicId, partition, memberId)
  }
}

function remove(group: ControllerGroup, memberId: string): void {
  const member = group.members.get(memberId)
  if (member === undefined) return
  disown(group, member)
  group.members.delete(memberId)
  group.round?.missing.delete(memberId)
  if (member.parked !== null) group.tickets.delete(member.parked.ticket)
  const ticket = ticketOf(member.registered)
  if (ticket !== null) group.tickets.delete(ticket)
  const { instanceId } = member.registration
  if (instanceId !== null && group.statics.get(instanceId) === memberId) {
    group.statics.delete(instanceId)
  }
}

function change(group: ControllerGroup, memberId: string, to: Partial<Waiting>): void {
  const member = group.members.get(memberId)
  if (member === undefined) return
  if (to.parked !== undefined) {
    if (member.parked !== null) group.tickets.delete(member.parked.ticket)
    if (to.parked !== null) group.tickets.set(to.parked.ticket, memberId)
  }
  if (to.registered !== undefined) {
    const [before, after] = [ticketOf(member.registered), ticketOf(to.registered)]
    if (before !== null) group.tickets.delete(before)
    if (after !== null) group.tickets.set(after, memberId)
    if (to.registered === null) group.round?.missing.add(memberId)
    else group.round?.missing.delete(memberId)
  }
  group.members.set(memberId, { ...member, ...to })
}

function disown(group: ControllerGroup, { id, leases }: Member): void {
  for (const [topicId, partitions] of leases) {
    for (const partition of partitions.keys()) {
      if (group.owners.get(topicId)?.get(partition) === id) drop(group.owners, topicId, partition)
    }
  }
}

function forgetRewind(group: ControllerGroup, topicId: string, partition: number): void {
  const before = drop(group.rewinds, topicId, partition)
  if (before?.state === 'waiting') group.waiting--
}

/** Of a registration that waits, as long as somebody waits for it. */
export function ticketOf(registered: Registered | null): Ticket | null {
  return registered === null ? null : registered.ticket
}
