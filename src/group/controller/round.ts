/** Rounds: everybody registers, then partitions are given out, and all are answered together. */
import { KafkaError } from '../../protocol/errors.ts'
import type { Partitions } from '../assign/assignor.ts'
import type { Topic } from '../machine.ts'
import {
  type At,
  type Draft,
  answerRegistration,
  decide,
  grant,
  isHeld,
  pass,
  record
} from './grants.ts'
import { change, heard, tell, wakeBy } from './news.ts'
import { put } from './by-partition.ts'
import {
  type ControllerGroup,
  type Lease,
  type Leases,
  type Member,
  type Registered,
  nothing,
  ticketOf
} from './state.ts'
import { allWanted, assign, matches, subscriptions, wantedTopics } from './target.ts'
import type { ControllerTurn } from './world.ts'

/**
 * In a group of thousands that forms, members come one by one for seconds. Were each of them a round, everybody would
 * register thousands of times. So between two rounds of a large group there is a pause, as long as the last one took;
 * members go on meanwhile.
 */
const smallGroup = 100
const pauseMsPerMember = 0.2
const longestPauseMs = 5_000

function pauseMs({ members, roundTookMs }: ControllerGroup): number {
  if (members.size < smallGroup) return 0
  return Math.min(longestPauseMs, Math.max(members.size * pauseMsPerMember, roundTookMs))
}

/** Every member but those that have just registered is told to do so. */
export function openRound(turn: ControllerTurn, why: 'group' | 'topics'): void {
  const { state: group, world } = turn
  if (group.round !== null || group.members.size === 0) return
  const startsMs = Math.max(world.monotonicMs, group.roundEndedMs + pauseMs(group))
  turn.become({ kind: 'round', why, startsMs })
  if (startsMs <= world.monotonicMs) beginRound(turn)
  else wakeBy(turn, startsMs)
}

/** Members are told. */
export function beginRound(turn: ControllerTurn): void {
  const { state: group } = turn
  const { missing, startsMs } = roundOf(group)
  turn.become({ kind: 'roundTold' })
  let firstMs = Infinity
  for (const id of missing) {
    const member = group.members.get(id)
    if (member === undefined) continue
    firstMs = Math.min(firstMs, member.registration.registerTimeoutMs)
    tell(turn, id)
  }
  wakeBy(turn, startsMs + firstMs)
}

function roundOf({ round }: ControllerGroup): NonNullable<ControllerGroup['round']> {
  return round ?? { why: 'group', startsMs: 0, told: true, missing: new Set() }
}

/** Ends the round when nobody is missing any more. */
export function settle(turn: ControllerTurn): void {
  const { state: group } = turn
  if (group.round === null || group.round.missing.size > 0) return
  if (group.members.size === 0) return emptied(turn)
  const kept = new Map<string, Leases>()
  for (const member of group.members.values()) kept.set(member.id, keptOf(turn, member))
  // From here on nobody has what it didn't keep.
  const wanted = wantedTopics(group.members.values(), turn.world.topics)
  know(turn, allWanted(wanted))
  const targets = assign(group, wanted)
  const { members } = group
  const owners = ownersIn(kept)
  const generation = group.head.generation + 1
  turn.become({ kind: 'roundOver', atMs: turn.world.monotonicMs })
  const promised = new Map<string, Map<number, string>>()
  for (const member of members.values()) {
    const target = targets.get(member.id) ?? nothing
    const leases = draw(turn, member, {
      target,
      kept: kept.get(member.id) ?? nothing,
      owners,
      promised,
      generation
    })
    end(turn, member, target, leases, generation)
  }
  turn.become({ kind: 'promised', promised })
  recordUnowned(turn)
  const said = subscriptions(members.values())
  turn.become({ kind: 'head', head: { ...group.head, ...said, generation } })
  answerAll(turn)
}

/** What the member goes on delivering, of topics that are there. */
function keptOf({ world }: ControllerTurn, { leases, registered }: Member): Leases {
  const kept = new Map<string, Map<number, Lease>>()
  for (const [topicId, of] of leases) {
    if (world.topics.withId(topicId) === undefined) continue
    for (const [partition, lease] of of) {
      if (keeps(registered, topicId, partition, lease)) put(kept, topicId, partition, lease)
    }
  }
  return kept
}

/** A registration gives up what it doesn't name, but nothing that was granted after it was sent. */
export function keeps(
  registered: Pick<Registered, 'generation' | 'kept'> | null,
  topicId: string,
  partition: number,
  { since }: Lease
): boolean {
  if (registered === null || since > registered.generation) return true
  return registered.kept.get(topicId)?.has(partition) ?? false
}

/** What the member is to give up. */
export function recalledOf(leases: Leases): { topicId: string; partition: number }[] {
  return [...leases].flatMap(([topicId, of]) =>
    [...of].flatMap(([partition, { moved }]) => (moved ? [{ topicId, partition }] : []))
  )
}

/** Some of it was granted by an answer that it never heard: its last registration does not name it. */
export function isUnheard(
  recalled: readonly { readonly topicId: string; readonly partition: number }[],
  registered: Pick<Registered, 'kept'> | null
): boolean {
  if (registered === null) return false
  return recalled.some(
    ({ topicId, partition }) => !(registered.kept.get(topicId)?.has(partition) ?? false)
  )
}

function ownersIn(kept: ReadonlyMap<string, Leases>): Map<string, Map<number, string>> {
  const owners = new Map<string, Map<number, string>>()
  for (const [memberId, leases] of kept) {
    for (const [topicId, of] of leases) {
      for (const partition of of.keys()) put(owners, topicId, partition, memberId)
    }
  }
  return owners
}

interface Drawing {
  readonly target: Partitions
  readonly kept: Leases
  readonly owners: ReadonlyMap<string, ReadonlyMap<number, string>>
  /** What others have yet to give up, or a transaction holds, is put here. */
  readonly promised: Map<string, Map<number, string>>
  readonly generation: number
}

/** What a member has after the round. */
function draw(turn: ControllerTurn, member: Member, drawing: Drawing): Draft {
  const { target, kept, owners, promised, generation } = drawing
  const leases: Draft = new Map()
  for (const [topicId, of] of kept) {
    for (const [partition, lease] of of) {
      const moved = !target.get(topicId)?.has(partition)
      put(leases, topicId, partition, moved === lease.moved ? lease : { ...lease, moved })
    }
  }
  for (const [topicId, of] of target) {
    for (const partition of of) {
      if (leases.get(topicId)?.has(partition)) continue
      const taken = owners.get(topicId)?.has(partition) ?? false
      const topic = turn.world.topics.withId(topicId)?.name ?? ''
      if (taken || isHeld(turn.state, { topicId, topic, partition }))
        put(promised, topicId, partition, member.id)
      else grant(turn, leases, member, { topicId, partition, since: generation })
    }
  }
  return leases
}

function end(
  turn: ControllerTurn,
  member: Member,
  target: Partitions,
  leases: Draft,
  generation: number
): void {
  const memberId = member.id
  if (member.generation < 0) {
    turn.become({ kind: 'member', registration: member.registration, durable: true })
  }
  turn.become({ kind: 'holds', memberId, generation, leases })
  const recalled = recalledOf(leases)
  const recalledUntilMs =
    recalled.length > 0 ? turn.world.monotonicMs + member.registration.registerTimeoutMs : Infinity
  const isUnaware = isUnheard(recalled, member.registered)
  change(turn, memberId, { target, due: nothing, recalledUntilMs, isUnaware })
  wakeBy(turn, recalledUntilMs)
}

function answerAll(turn: ControllerTurn): void {
  for (const { id, registered } of turn.state.members.values()) {
    if (registered === null) continue
    const to = { registered: null, told: 'nothing' } as const
    if (registered.ticket === null) change(turn, id, to)
    else {
      heard(turn, id, to)
      answerRegistration(turn, id, registered.ticket, registered.kept)
    }
    tell(turn, id)
  }
}

/** Rewinds of partitions that nobody got. */
export function recordUnowned(turn: ControllerTurn): void {
  const { state: group } = turn
  if (group.waiting === 0) return
  const all = [...group.rewinds.values()].flatMap(of => [...of.values()])
  for (const rewind of all) {
    const owned = group.owners.get(rewind.topicId)?.has(rewind.partition) ?? false
    if (rewind.state === 'waiting' && !owned && !isHeld(group, rewind)) record(turn, rewind)
  }
}

/** Transactions have ended, so partitions that they held may be given out. */
export function unhold(turn: ControllerTurn): void {
  const { state: group, world } = turn
  // Its end sees to all of them.
  if (group.round !== null) return
  recordUnowned(turn)
  const free: At[] = []
  for (const [topicId, of] of group.promised) {
    const topic = world.topics.withId(topicId)?.name
    if (topic === undefined) continue
    for (const partition of of.keys()) {
      if (!group.owners.get(topicId)?.has(partition)) free.push({ topicId, topic, partition })
    }
  }
  for (const at of free) pass(turn, at)
}

/** Takes in what there is of the group's topics; what appeared after the group starts at its smallest offset. */
function know(turn: ControllerTurn, wanted: ReadonlyMap<string, Topic>): void {
  const { state: group } = turn
  for (const { id: topicId, name: topic, partitionCount } of wanted.values()) {
    const before = group.known.get(topicId)
    if (before?.partitionCount === partitionCount) continue
    // Of what was subscribed to before and wasn't there: it appeared. What is subscribed to only now may be old.
    const appeared = before === undefined && matches(topic, group.head)
    const freshFrom = before?.freshFrom ?? (appeared ? 0 : partitionCount)
    turn.become({ kind: 'known', topic: { topicId, topic, partitionCount, freshFrom } })
  }
}

/** Topics that are gone leave leases, rewinds, and what is known. True: some member had to do with one. */
export function dropTopics(turn: ControllerTurn): boolean {
  const { state: group, world } = turn
  const gone = (topicId: string) => world.topics.withId(topicId) === undefined
  const all = [...group.rewinds.values()].flatMap(of => [...of.values()])
  for (const rewind of all.filter(({ topicId }) => gone(topicId))) {
    turn.become({ kind: 'rewindOver', topicId: rewind.topicId, partition: rewind.partition })
    decide(turn, rewind, KafkaError.UNKNOWN_TOPIC_OR_PARTITION, -1)
  }
  for (const topicId of group.known.keys()) {
    if (gone(topicId)) turn.become({ kind: 'unknown', topicId })
  }
  return [...group.owners.keys()].some(gone)
}

/** Whether topics that members want are not as the last round saw them. */
export function topicsChanged(turn: ControllerTurn): boolean {
  const { state: group, world } = turn
  const wanted = allWanted(wantedTopics(group.members.values(), world.topics))
  for (const { id, partitionCount } of wanted.values()) {
    if (group.known.get(id)?.partitionCount !== partitionCount) return true
  }
  return false
}

/** A member is no more: what it had is free, and what waited for it takes place. Who calls this opens a round. */
export function removeMember(turn: ControllerTurn, memberId: string, errorCode: number): void {
  const { state: group } = turn
  const member = group.members.get(memberId)
  if (member === undefined) return
  const { parked, registered, leases } = member
  if (parked !== null) {
    turn.answer(parked.ticket, { errorCode, generationId: -1, rewound: [] })
  }
  const waits = ticketOf(registered)
  if (waits !== null) {
    turn.answer(waits, refusal(errorCode, memberId))
  }
  turn.become({ kind: 'gone', memberId })
  if (group.waiting === 0) return
  for (const [topicId, of] of leases) {
    for (const partition of of.keys()) {
      const rewind = group.rewinds.get(topicId)?.get(partition)
      if (rewind?.state === 'waiting' && !isHeld(group, rewind)) record(turn, rewind)
    }
  }
}

export function refusal(errorCode: number, memberId: string, errorMessage: string | null = null) {
  return { errorCode, errorMessage, memberId, partitions: [] }
}

/** After members were removed: the others get what they had. */
export function afterRemoval(turn: ControllerTurn): void {
  if (turn.state.members.size === 0) return emptied(turn)
  openRound(turn, 'group')
  settle(turn)
}

function emptied(turn: ControllerTurn): void {
  const { state: group, world } = turn
  if (group.round !== null) turn.become({ kind: 'roundOver', atMs: turn.world.monotonicMs })
  recordUnowned(turn)
  turn.become({ kind: 'promised', promised: nothing })
  turn.become({ kind: 'head', head: { ...group.head, emptySinceMs: world.wallMs } })
}
