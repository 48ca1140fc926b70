/** Where a partition starts when it is granted, and what becomes of a rewind then. */
import {
  endOf,
  isOfAnother,
  parseCommit,
  sequenceOf
} from '../../protocol/embedded/rewind-envelope.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { Partitions } from '../assign/assignor.ts'
import { committedAs, unsettled, offsetOf } from '../offsets/offsets.ts'
import type { Ticket } from '../machine.ts'
import { put } from './by-partition.ts'
import { tell } from './news.ts'
import { lastRewind, waitingRewind } from './of-partition.ts'
import type { Call, ControllerGroup, Lease, Member, Rewind } from './state.ts'
import type { ControllerTurn, RegisterAnswer, RewindAnswer } from './world.ts'

/** Leases in the making. */
export type Draft = Map<string, Map<number, Lease>>

/**
 * Adds a partition to what a member gets. A rewind that waited for it is recorded with that; of one that was recorded
 * the new owner is told.
 */
export function grant(
  turn: ControllerTurn,
  draft: Draft,
  member: Member,
  { topicId, partition, since }: { topicId: string; partition: number; since: number }
): void {
  const { state: group, world } = turn
  const topic = world.topics.withId(topicId)
  if (topic === undefined) return
  const rewind = group.rewinds.get(topicId)?.get(partition)
  if (rewind?.state === 'waiting') record(turn, rewind, 'done')
  else if (rewind?.state === 'recorded') {
    turn.become({ kind: 'rewind', rewind: { ...rewind, state: 'done' } })
  }
  const isNews = rewind?.state === 'waiting' || rewind?.state === 'recorded'
  put(draft, topicId, partition, { since, moved: false, rewindId: isNews ? rewind.id : 0 })
  const { startFrom } = member.registration
  if (startFrom !== 'latest' || offsetOf(group.offsets, topic.name, partition)) return
  // Who takes it over should start here too, not at what is latest then.
  const offset = policyStart(turn, member, { topicId, topic: topic.name, partition })
  commitOffset(turn, { topicId, topic: topic.name, partition }, offset)
}

/**
 * An open transaction may yet change where the partition starts, so nobody gets it before that has ended. Who read it
 * from what is committed would work once more on what the transaction holds. A rewind that waits says where it starts,
 * whatever was committed; but where a replay goes on after its window is where the group was.
 */
export function isHeld(group: ControllerGroup, { topicId, topic, partition }: At): boolean {
  const rewind = waitingRewind(group, topicId, partition)
  if (rewind !== undefined && rewind.until < 0) return false
  return unsettled(group.offsets, topic, partition)
}

/** Nobody has the partition any more: a rewind that waited for it takes place, and whom it is promised to is told. */
export function pass(turn: ControllerTurn, at: At): void {
  const { state: group } = turn
  const { topicId, partition } = at
  if (isHeld(group, at)) return
  const rewind = waitingRewind(group, topicId, partition)
  if (rewind !== undefined) record(turn, rewind)
  const to = group.promised.get(topicId)?.get(partition)
  if (to === undefined) return
  turn.become({ kind: 'due', topicId, partition })
  tell(turn, to)
}

export interface At {
  readonly topicId: string
  readonly topic: string
  readonly partition: number
}

/** The rewind takes place: nothing of its partition runs. 'done': an owner is told with its grant. */
export function record(
  turn: ControllerTurn,
  rewind: Rewind,
  state: 'recorded' | 'done' = 'recorded'
): void {
  const log = turn.world.log(rewind.topic, rewind.partition)
  // What was there when it was asked for may have been deleted by now.
  const there = Math.max(log?.start ?? 0, Math.min(rewind.target, log?.end ?? Infinity))
  // Its owner has committed where it stood.
  const stood = offsetOf(turn.state.offsets, rewind.topic, rewind.partition)?.offset
  const from = stood ?? rewind.from
  const resume = Math.max(rewind.resume, from)
  // A replay of which nothing is left is a rewind to where it would have gone on.
  const isOver = rewind.until >= 0 && there >= rewind.until
  const offset = isOver ? resume : there
  const window = rewind.until < 0 || isOver ? { until: -1, resume: -1 } : { resume }
  commitOffset(turn, rewind, offset)
  const recorded = { ...rewind, ...window, target: offset, from, state }
  turn.become({ kind: 'rewind', rewind: recorded })
  decide(turn, recorded, KafkaError.NONE, offset)
}

function commitOffset(turn: ControllerTurn, at: At, offset: number): void {
  const { state: group, world } = turn
  const { topicId, topic, partition } = at
  const leaderEpoch = world.log(topic, partition)?.epochOf(offset) ?? -1
  const one = { topicId, topic, partition, offset, leaderEpoch, metadata: null }
  const commit = committedAs(one, group.offsets.position + 1, { nowMs: world.wallMs })
  turn.become({ kind: 'offset', fact: { kind: 'committed', commit } })
}

/** Its outcome, for whoever waits for it. */
export function decide(
  turn: ControllerTurn,
  { id, topicId, partition, from }: Pick<Rewind, 'id' | 'topicId' | 'partition' | 'from'>,
  errorCode: number,
  offset: number
): void {
  for (const call of turn.state.calls.values()) {
    const line = call.id === id ? call.lines.get(topicId)?.get(partition) : undefined
    if (line === undefined || line.errorCode !== null) continue
    const { ticket } = call
    turn.become({ kind: 'decided', ticket, topicId, partition, errorCode, from, offset })
    if (call.open === 0) answerCall(turn, ticket)
  }
}

/** What is not decided by now is pending. */
export function answerCall(turn: ControllerTurn, ticket: Ticket): void {
  const call = turn.state.calls.get(ticket)
  if (call === undefined) return
  const offsets = linesOf(call.lines)
  const codes = new Set<number>()
  for (const { partitions } of offsets) for (const { errorCode } of partitions) codes.add(errorCode)
  turn.become({ kind: 'callOver', ticket })
  turn.answer(ticket, { ...outcome(codes), rewindId: call.id, offsets })
}

export function linesOf(lines: Call['lines']) {
  return [...lines.values()].map(of => {
    const partitions = [...of].map(([partition, line]) => {
      const { previousOffset, offset, owner } = line
      const errorCode = line.errorCode ?? KafkaError.REWIND_PENDING
      return { partition, errorCode, previousOffset, offset, owner }
    })
    return { topic: [...of.values()][0]?.topic ?? '', partitions }
  })
}

function outcome(codes: ReadonlySet<number>): Pick<RewindAnswer, 'errorCode' | 'errorMessage'> {
  if (codes.has(KafkaError.REWIND_PENDING)) {
    const errorMessage =
      'written, but not every owner has taken it up in time; it still takes place: see the partitions'
    return { errorCode: KafkaError.REWIND_PENDING, errorMessage }
  }
  if (codes.has(KafkaError.REWIND_SUPERSEDED)) {
    const errorMessage = 'a later rewind won: see the partitions'
    return { errorCode: KafkaError.REWIND_SUPERSEDED, errorMessage }
  }
  const [first] = [...codes].filter(code => code !== KafkaError.NONE)
  if (first === undefined) return { errorCode: KafkaError.NONE, errorMessage: null }
  return { errorCode: first, errorMessage: 'not all could be rewound: see the partitions' }
}

/**
 * The group is where it was before the replay, or has gone on from there: its commit says so, by its mark. An offset
 * does not: where the window ends, the owner may still have to go on at `resume`; and it may have sought since. (By
 * the offset where there is no mark: others than Playhead's consumers know of no window.)
 */
export function windowOver(
  turn: Pick<ControllerTurn, 'state'>,
  { topic, partition, id, until }: Pick<Rewind, 'topic' | 'partition' | 'id' | 'until'>
): boolean {
  const committed = offsetOf(turn.state.offsets, topic, partition)
  if (committed === undefined) return false
  const { mark } = parseCommit(committed.metadata)
  return mark === null ? committed.offset >= until : mark.sequence >= endOf(sequenceOf(id))
}

/** The committed offset; else the smallest if the partition appeared after the group; else as startFrom says. */
function startOf(turn: ControllerTurn, member: Member, at: At): { offset: number; epoch: number } {
  const log = turn.world.log(at.topic, at.partition)
  const committed = offsetOf(turn.state.offsets, at.topic, at.partition)
  const former = committed !== undefined && isOfAnother(committed.metadata, at.topicId)
  if (committed !== undefined && !former) {
    const { offset, leaderEpoch } = committed
    return { offset, epoch: leaderEpoch >= 0 ? leaderEpoch : (log?.epochOf(offset) ?? -1) }
  }
  // A commit of a former topic of the name shows that the group is older than this one.
  const offset = former ? (log?.start ?? 0) : policyStart(turn, member, at)
  return { offset, epoch: offset < 0 ? -1 : (log?.epochOf(offset) ?? -1) }
}

function policyStart(turn: ControllerTurn, member: Member, at: At): number {
  const log = turn.world.log(at.topic, at.partition)
  const known = turn.state.known.get(at.topicId)
  if (known !== undefined && at.partition >= known.freshFrom) return log?.start ?? 0
  switch (member.registration.startFrom) {
    case 'earliest':
      return log?.start ?? 0
    case 'latest':
      return log?.end ?? 0
    case 'none':
      return -1
  }
}

type RegisteredPartition = NonNullable<
  NonNullable<RegisterAnswer['partitions']>[number]['partitions']
>[number]

/** Tells a member what is its own now. */
export function answerRegistration(
  turn: ControllerTurn,
  memberId: string,
  ticket: Ticket,
  kept: Partitions
): void {
  const member = turn.state.members.get(memberId)
  if (member === undefined) return
  let unset = ''
  const partitions: { topicId: string; topic: string; partitions: RegisteredPartition[] }[] = []
  for (const [topicId, of] of member.leases) {
    const topic = turn.world.topics.withId(topicId)?.name
    if (topic === undefined) continue
    const list: RegisteredPartition[] = []
    for (const [partition, { moved }] of of) {
      if (moved) continue
      const { offset, epoch } = startOf(turn, member, { topicId, topic, partition })
      if (offset < 0 && !kept.get(topicId)?.has(partition)) unset = `${topic}-${partition}`
      const last = lastRewind(turn.state, topicId, partition)
      const { id: rewindId, until } = last
      const over = until >= 0 && windowOver(turn, { topic, partition, id: rewindId, until })
      const resume = over ? -1 : last.resume
      list.push({ partition, offset, leaderEpoch: epoch, rewindId, until, resume })
    }
    if (list.length > 0) partitions.push({ topicId, topic, partitions: list })
  }
  const rewinds = rewindsOf(turn, member, kept)
  const { sessionTimeoutMs } = member.registration
  const { heartbeatIntervalMs } = turn.world.config
  turn.answer(ticket, {
    ...verdict(unset),
    memberId,
    generationId: member.generation,
    heartbeatIntervalMs: Math.min(heartbeatIntervalMs, Math.floor(sessionTimeoutMs / 3)),
    partitions,
    rewinds
  })
}

/** Who asked for the rewinds that starts come from, and why: each once. */
function rewindsOf(turn: ControllerTurn, { leases }: Member, kept: Partitions) {
  const rewinds = new Map<number, { rewindId: number; by: string; reason: string }>()
  for (const [topicId, of] of leases) {
    for (const [partition, { rewindId }] of of) {
      if (rewindId === 0 || kept.get(topicId)?.has(partition)) continue
      const { by = '', reason = '' } = turn.state.rewinds.get(topicId)?.get(partition) ?? {}
      rewinds.set(rewindId, { rewindId, by, reason })
    }
  }
  return [...rewinds.values()]
}

function verdict(unset: string): Pick<RegisterAnswer, 'errorCode' | 'errorMessage'> {
  if (unset === '') return { errorCode: KafkaError.NONE, errorMessage: null }
  return {
    errorCode: KafkaError.OFFSET_OUT_OF_RANGE,
    errorMessage: `nothing is committed for ${unset}, and startFrom is none`
  }
}
