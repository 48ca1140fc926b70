/** RewindConsumer: moves partitions of a group, whoever has them and whatever it is doing. */
import { KafkaError } from '../../protocol/errors.ts'
import { offsetOf } from '../offsets/offsets.ts'
import { answerCall, decide, pass } from './grants.ts'
import { tell, wakeBy } from './news.ts'
import { put } from './by-partition.ts'
import { type TakeBack, cancel, takeBack } from './cancel.ts'
import { lastRewind, ownerOf, waitingRewind } from './of-partition.ts'
import type { Call, CallLine, Rewind } from './state.ts'
import type { ControllerTurn, LogView, Move, Refusal, RewindAnswer } from './world.ts'

const latest = -1
const earliest = -2

/** What is said of a rewind is kept for each of its partitions. */
const longestWho = 100
const longestReason = 500

/** A topic id '' and no log: there is no such partition. */
interface Wish extends TakeBack {
  readonly log: LogView | undefined
  readonly offset: number
  readonly until: number
  readonly resume: number
}

export function rewind(turn: ControllerTurn, event: Move): void {
  const { state: group, world } = turn
  const { request, ticket } = event
  const wrong = fault(turn, event)
  if (wrong !== undefined) return refuse(turn, event, wrong)
  const wishes = wishesOf(turn, event)
  const unknown = wishes.find(({ log }) => log === undefined)
  if (unknown !== undefined) return refuseUnknown(turn, ticket, wishes)
  if (wishes.some(({ offset }) => offset === takeBack)) return cancel(turn, ticket, wishes)
  // Rises with time too: so ids of groups that were deleted and made anew don't begin again.
  const id = Math.max(group.head.lastRewindId + 1, world.wallMs)
  turn.become({ kind: 'head', head: { ...group.head, lastRewindId: id } })
  const lines = new Map<string, Map<number, CallLine>>()
  const ids = wishes.map(wish => {
    const rewind = resolve(turn, wish, id, event)
    const previousOffset = rewind.from
    const owner = ownerOf(group, wish.topicId, wish.partition)?.id ?? ''
    const { topic, topicId, partition } = wish
    put(lines, topicId, partition, {
      topic,
      previousOffset,
      owner,
      offset: rewind.target,
      errorCode: null
    })
    return rewind
  })
  const untilMs = world.monotonicMs + request.timeoutMs
  const call: Call = { ticket, id, untilMs, lines, open: wishes.length }
  turn.become({ kind: 'call', call })
  const owners = new Set<string>()
  for (const rewind of ids) {
    const owner = take(turn, rewind)
    if (owner !== undefined) owners.add(owner)
  }
  for (const owner of owners) tell(turn, owner)
  if (!group.calls.has(ticket)) return
  if (request.timeoutMs === 0) answerCall(turn, ticket)
  else wakeBy(turn, untilMs)
}

/** Written; returns the owner that is to be told. */
function take(turn: ControllerTurn, rewind: Rewind): string | undefined {
  const { state: group } = turn
  const { topicId, partition } = rewind
  const before = waitingRewind(group, topicId, partition)
  turn.become({ kind: 'rewind', rewind })
  if (before !== undefined) decide(turn, before, KafkaError.REWIND_SUPERSEDED, before.target)
  const owner = ownerOf(group, topicId, partition)
  if (owner !== undefined) return owner.id
  // Nobody has it. In a round it takes effect at the end: somebody may be about to get it.
  if (group.round === null) pass(turn, rewind)
  return undefined
}

function resolve(turn: ControllerTurn, wish: Wish, id: number, event: Move): Rewind {
  const { state: group, world } = turn
  const { memberId, by: named, reason } = event.request
  const { topic, topicId, partition, until } = wish
  const start = wish.log?.start ?? 0
  const end = wish.log?.end ?? 0
  const asked = wish.offset === latest ? end : wish.offset === earliest ? start : wish.offset
  const target = Math.max(start, Math.min(asked, end))
  // A replay that would end where it begins is a rewind to where the group goes on.
  const committed = offsetOf(group.offsets, topic, partition)?.offset ?? -1
  const resume = Math.max(wish.resume, committed)
  const bounded = until > target
  const last = lastRewind(group, topicId, partition)
  return {
    topicId,
    topic,
    partition,
    id,
    previousId: last.id,
    previousUntil: last.until,
    previousResume: last.resume,
    target: until >= 0 && !bounded ? Math.max(resume, 0) : target,
    from: committed,
    until: bounded ? until : -1,
    resume: bounded ? resume : -1,
    askedAtMs: world.wallMs,
    by: (named || memberId || event.client.id).slice(0, longestWho),
    reason: reason.slice(0, longestReason),
    state: 'waiting'
  }
}

function wishesOf({ world }: ControllerTurn, { request }: Move): readonly Wish[] {
  return request.offsets.flatMap(({ topic: name, partitions }) => {
    const topic = world.topics.named(name)
    return partitions.map(({ partition, offset, until, resume, rewindId }) => {
      const log = topic === undefined ? undefined : world.log(name, partition)
      const topicId = topic?.id ?? ''
      return { topic: name, topicId, log, partition, offset, until, resume, rewindId }
    })
  })
}

/** What is wrong with the request as a whole. */
function fault({ state: group }: ControllerTurn, { request }: Move): Refusal | undefined {
  const { memberId, generationId, timeoutMs, offsets } = request
  const wrong = (message: string): Refusal => [KafkaError.INVALID_REQUEST, message]
  if (timeoutMs < 0) return wrong(`timeoutMs is ${timeoutMs}`)
  if (!offsets.some(({ partitions }) => partitions.length > 0))
    return wrong('no partition is named')
  if (memberId !== null) {
    const member = group.members.get(memberId)
    if (member === undefined) {
      return [KafkaError.UNKNOWN_MEMBER_ID, `${memberId} is no member`]
    }
    if (generationId !== member.generation) {
      const message = `${memberId} is of generation ${member.generation}, not ${generationId}`
      return [KafkaError.ILLEGAL_GENERATION, message]
    }
  }
  const seen = new Set<string>()
  let cancels = 0
  for (const { topic, partitions } of offsets) {
    for (const { partition, offset, until, resume, rewindId } of partitions) {
      const named = `${partition}:${topic}`
      if (seen.has(named)) return wrong(`${topic}-${partition} is named twice`)
      seen.add(named)
      if (offset < takeBack) return wrong(`the offset for ${topic}-${partition} is ${offset}`)
      if (offset === takeBack) cancels++
      else if (rewindId !== 0)
        return wrong(`a rewind of ${topic}-${partition} is named, not to take it back`)
      if (rewindId < 0) return wrong(`the rewind of ${topic}-${partition} is ${rewindId}`)
      if (until < -1 || resume < -1) return wrong(`the window of ${topic}-${partition} is negative`)
    }
  }
  if (cancels === 0 || cancels === seen.size) return undefined
  return wrong('some rewinds are taken back and others asked for: these are two requests')
}

export function refusedRewind([errorCode, errorMessage]: Refusal): RewindAnswer {
  return { errorCode, errorMessage, offsets: [] }
}

function refuse(turn: ControllerTurn, { ticket }: Move, wrong: Refusal): void {
  turn.answer(ticket, refusedRewind(wrong))
}

/** All or nothing: what is known isn't moved either. */
function refuseUnknown(turn: ControllerTurn, ticket: number, wishes: readonly Wish[]): void {
  const topics = [...new Set(wishes.map(({ topic }) => topic))]
  const offsets = topics.map(name => ({
    topic: name,
    partitions: wishes
      .filter(({ topic }) => topic === name)
      .map(({ partition, log }) => ({
        partition,
        errorCode:
          log === undefined
            ? KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            : KafkaError.OPERATION_NOT_ATTEMPTED
      }))
  }))
  turn.answer(ticket, {
    errorCode: KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    errorMessage: 'a partition is unknown, so none was moved',
    offsets
  })
}
