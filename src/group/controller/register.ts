/** RegisterConsumer: who joins, who comes back, who has done what it was told; and UnregisterConsumer. */
import { KafkaError } from '../../protocol/errors.ts'
import type { RegisterConsumer } from '../../protocol/api/register-consumer.ts'
import type { RequestRead } from '../../protocol/schema.ts'
import type { Partitions } from '../assign/assignor.ts'
import type { GroupConfig } from '../machine.ts'
import { topicPattern } from '../pattern.ts'
import { type Draft, answerRegistration, grant, isHeld, pass } from './grants.ts'
import { change, heard, tell } from './news.ts'
import { put } from './by-partition.ts'
import { waitingRewind } from './of-partition.ts'
import {
  type ControllerGroup,
  type Member,
  type Registered,
  type Registration,
  nothing,
  ticketOf
} from './state.ts'
import { startsFrom } from './stored.ts'
import {
  afterRemoval,
  keeps,
  openRound,
  refusal,
  removeMember,
  settle,
  isUnheard,
  recalledOf
} from './round.ts'
import type { ControllerTurn, Refusal, Register, Unregister } from './world.ts'

type Request = RequestRead<typeof RegisterConsumer>

/** A member may be waited for no longer than Kafka lets a rebalance wait. */
const maxRegisterTimeoutMs = 1_800_000

/** What is wrong with the request, whatever the group. */
export function malformedRegistration(request: Request, config: GroupConfig): Refusal | undefined {
  const { sessionTimeoutMs, registerTimeoutMs, startFrom, capacity, instanceId } = request
  const { minSessionTimeoutMs: least, maxSessionTimeoutMs: most } = config
  const wrong = (message: string): Refusal => [KafkaError.INVALID_REQUEST, message]
  if (sessionTimeoutMs !== -1 && (sessionTimeoutMs < least || sessionTimeoutMs > most)) {
    return [
      KafkaError.INVALID_SESSION_TIMEOUT,
      `sessionTimeoutMs is ${sessionTimeoutMs}: from ${least} to ${most} is possible`
    ]
  }
  if (registerTimeoutMs < 1 || registerTimeoutMs > maxRegisterTimeoutMs) {
    return wrong(
      `registerTimeoutMs is ${registerTimeoutMs}: from 1 to ${maxRegisterTimeoutMs} is possible`
    )
  }
  if (startFrom < -1 || startFrom >= startsFrom.length) {
    return wrong(`startFrom is ${startFrom}: 0 earliest, 1 latest, 2 none, -1 the group's`)
  }
  if (capacity < 0) return wrong(`capacity is ${capacity}: 0 (no limit) or more is possible`)
  if (request.generationId < -1) return wrong(`generationId is ${request.generationId}`)
  if (instanceId === '') return wrong('instanceId is empty: give null for a member without one')
  const pattern = request.topicPattern === null ? undefined : topicPattern(request.topicPattern)
  if (typeof pattern === 'string') {
    return [KafkaError.INVALID_REGULAR_EXPRESSION, `topicPattern: ${pattern}`]
  }
  return undefined
}

export function register(turn: ControllerTurn, event: Register): void {
  const { request, ticket } = event
  const wrong = malformedRegistration(request, turn.world.config) ?? fault(turn, request)
  if (wrong !== undefined) {
    turn.answer(ticket, refusal(wrong[0], request.memberId, wrong[1]))
    return
  }
  const there = turn.state.members.get(request.memberId)
  if (there !== undefined) return again(turn, event, there)
  const before = turn.state.members.get(turn.state.statics.get(request.instanceId ?? '') ?? '')
  if (before !== undefined) return comeBack(turn, event, before)
  join(turn, event)
}

/** What is wrong with it in this group. */
function fault({ state: group, world }: ControllerTurn, request: Request): Refusal | undefined {
  const { memberId, instanceId, generationId } = request
  const holder = group.statics.get(instanceId ?? '')
  if (memberId === '') {
    const full = holder === undefined && group.members.size >= world.config.maxSize
    if (!full) return undefined
    const message = `the group has ${world.config.maxSize} members, and may not have more`
    return [KafkaError.GROUP_MAX_SIZE_REACHED, message]
  }
  if (holder !== undefined && holder !== memberId) {
    return [KafkaError.FENCED_INSTANCE_ID, `instance ${instanceId} is member ${holder} by now`]
  }
  const member = group.members.get(memberId)
  if (member === undefined) {
    return [KafkaError.UNKNOWN_MEMBER_ID, `${memberId} is no member: register with an empty id`]
  }
  if (generationId <= member.generation) return undefined
  return [
    KafkaError.ILLEGAL_GENERATION,
    `${memberId} is of generation ${member.generation}, not ${generationId}`
  ]
}

function join(turn: ControllerTurn, event: Register): void {
  const memberId = `${event.request.instanceId ?? event.client.id}-${turn.world.newId()}`
  const registration = registrationOf(turn, event, memberId)
  turn.become({ kind: 'member', registration, durable: false })
  wait(turn, memberId, { ticket: event.ticket, generation: -1, kept: nothing })
  openRound(turn, 'group')
  settle(turn)
}

/** A static member under a new id, the one before being gone: it gets what that had, and nobody else is told. */
function comeBack(turn: ControllerTurn, event: Register, before: Member): void {
  const { state: group } = turn
  const memberId = `${event.request.instanceId ?? ''}-${turn.world.newId()}`
  const { leases, target, generation, due, registered, parked } = before
  const registration = registrationOf(turn, event, memberId)
  if (parked !== null) {
    const errorCode = KafkaError.FENCED_INSTANCE_ID
    turn.answer(parked.ticket, { errorCode, generationId: -1, rewound: [] })
  }
  const waits = ticketOf(registered)
  if (waits !== null) {
    turn.answer(waits, refusal(KafkaError.FENCED_INSTANCE_ID, before.id))
  }
  turn.become({ kind: 'gone', memberId: before.id })
  turn.become({ kind: 'member', registration, durable: generation >= 0 })
  if (generation >= 0) turn.become({ kind: 'holds', memberId, generation, leases })
  change(turn, memberId, { target, due })
  renamePromises(turn, before.id, memberId)
  const member = group.members.get(memberId) as Member
  // The one before has stopped, whatever it kept.
  const registering = { ticket: event.ticket, generation: group.head.generation, kept: nothing }
  proceed(turn, member, registering, wishesChanged(before.registration, registration))
}

function renamePromises(turn: ControllerTurn, from: string, to: string): void {
  const promised = new Map<string, Map<number, string>>()
  for (const [topicId, of] of turn.state.promised) {
    for (const [partition, id] of of) put(promised, topicId, partition, id === from ? to : id)
  }
  turn.become({ kind: 'promised', promised })
}

function again(turn: ControllerTurn, event: Register, member: Member): void {
  const { request, ticket } = event
  const before = ticketOf(member.registered)
  if (before !== null) {
    // A request that the member gave up: it is answered by this one.
    turn.answer(before, refusal(KafkaError.GROUP_CHANGED, member.id))
  }
  const registration = registrationOf(turn, event, member.id)
  if (!sameRegistration(registration, member.registration)) {
    const durable = member.generation >= 0
    turn.become({ kind: 'member', registration, durable })
  }
  // Who is of no generation has lost all that it had, also what it was granted and did not hear of.
  const isAnew = request.generationId < 0
  const registering = {
    ticket,
    generation: isAnew ? turn.state.head.generation : request.generationId,
    kept: isAnew ? nothing : keptBy(turn.state, member, request)
  }
  proceed(turn, member, registering, wishesChanged(member.registration, registration))
}

/** What the member goes on delivering: see the request's declaration. */
function keptBy(group: ControllerGroup, { leases, told }: Member, { kept }: Request): Partitions {
  if (kept !== null) {
    return new Map(kept.map(({ topicId, partitions }) => [topicId, new Set(partitions)]))
  }
  if (told !== 'rewound') return nothing
  const rest = new Map<string, Set<number>>()
  for (const [topicId, of] of leases) {
    const flowing = [...of.keys()].filter(
      partition => waitingRewind(group, topicId, partition) === undefined
    )
    rest.set(topicId, new Set(flowing))
  }
  return rest
}

/** Answers at once, or when the round ends that is open or must be. */
function proceed(
  turn: ControllerTurn,
  { id }: Member,
  registering: Registered & { readonly ticket: number },
  wishesChanged: 'topics' | 'group' | null
): void {
  const { state: group } = turn
  if (group.round === null && wishesChanged === null) return answerNow(turn, id, registering)
  // Others are told; this one has done it already.
  wait(turn, id, registering)
  openRound(turn, wishesChanged ?? 'group')
  settle(turn)
}

function wait(turn: ControllerTurn, memberId: string, registered: Registered): void {
  heard(turn, memberId, { registered })
}

/** No round is open: the member gave up what was recalled, and gets what is due to it. */
function answerNow(
  turn: ControllerTurn,
  memberId: string,
  registered: Registered & { readonly ticket: number }
): void {
  const { state: group } = turn
  const member = group.members.get(memberId) as Member
  const since = group.head.generation + 1
  const leases: Draft = new Map()
  const freed: { readonly topicId: string; readonly partition: number }[] = []
  let granted = false
  let changed = false
  const give = (topicId: string, partition: number): void => {
    const topic = turn.world.topics.withId(topicId)?.name ?? ''
    if (isHeld(group, { topicId, topic, partition })) {
      turn.become({ kind: 'promise', topicId, partition, memberId })
      return
    }
    grant(turn, leases, member, { topicId, partition, since })
    granted = true
  }
  for (const [topicId, of] of member.leases) {
    for (const [partition, lease] of of) {
      if (keeps(registered, topicId, partition, lease)) {
        put(leases, topicId, partition, lease)
        continue
      }
      changed = true
      if (lease.moved) freed.push({ topicId, partition })
      else give(topicId, partition)
    }
  }
  for (const [topicId, of] of member.due) for (const partition of of) give(topicId, partition)
  const generation = granted ? since : member.generation
  if (granted) turn.become({ kind: 'head', head: { ...group.head, generation } })
  if (granted || changed) turn.become({ kind: 'holds', memberId, generation, leases })
  const recalled = recalledOf(leases)
  const recalledUntilMs = recalled.length > 0 ? member.recalledUntilMs : Infinity
  const isUnaware = isUnheard(recalled, registered)
  heard(turn, memberId, { told: 'nothing', due: nothing, recalledUntilMs, isUnaware })
  answerRegistration(turn, memberId, registered.ticket, registered.kept)
  for (const at of freed)
    pass(turn, { ...at, topic: turn.world.topics.withId(at.topicId)?.name ?? '' })
  // Perhaps it kept what is rewound.
  tell(turn, memberId)
}

function registrationOf(
  { state: group, world }: ControllerTurn,
  { request, client }: Register,
  memberId: string
): Registration {
  const { head, members } = group
  const before = members.get(memberId)?.registration
  const session = head.sessionTimeoutMs > 0 ? head.sessionTimeoutMs : world.config.sessionTimeoutMs
  const { clientHost, sessionTimeoutMs } = request
  return {
    memberId,
    instanceId: before?.instanceId ?? request.instanceId,
    client: { id: client.id, host: clientHost === '' ? client.host : clientHost },
    sessionTimeoutMs: sessionTimeoutMs === -1 ? session : sessionTimeoutMs,
    registerTimeoutMs: request.registerTimeoutMs,
    topics: sorted(request.topics),
    pattern: request.topicPattern,
    startFrom: startsFrom[request.startFrom] ?? head.startFrom,
    capacity: request.capacity
  }
}

function sorted(topics: readonly string[]): readonly string[] {
  return topics.length < 2 ? topics : [...new Set(topics)].sort()
}

/** Whether it wants other topics, or more or fewer partitions than before. */
function wishesChanged(before: Registration, after: Registration): 'topics' | 'group' | null {
  if (before.pattern !== after.pattern || !sameTopics(before, after)) return 'topics'
  return before.capacity === after.capacity ? null : 'group'
}

function sameTopics({ topics: one }: Registration, { topics: other }: Registration): boolean {
  return one.length === other.length && one.every((topic, index) => topic === other[index])
}

/** Whether there is nothing to store. */
function sameRegistration(one: Registration, other: Registration): boolean {
  return (
    one.memberId === other.memberId &&
    one.instanceId === other.instanceId &&
    one.client.id === other.client.id &&
    one.client.host === other.client.host &&
    one.sessionTimeoutMs === other.sessionTimeoutMs &&
    one.registerTimeoutMs === other.registerTimeoutMs &&
    one.pattern === other.pattern &&
    one.startFrom === other.startFrom &&
    one.capacity === other.capacity &&
    sameTopics(one, other)
  )
}

export function unregister(turn: ControllerTurn, { request, ticket }: Unregister): void {
  const { memberId, generationId } = request
  const member = turn.state.members.get(memberId)
  if (member === undefined) {
    turn.answer(ticket, { errorCode: KafkaError.UNKNOWN_MEMBER_ID })
    return
  }
  if (generationId > member.generation || generationId < -1) {
    turn.answer(ticket, { errorCode: KafkaError.ILLEGAL_GENERATION })
    return
  }
  removeMember(turn, memberId, KafkaError.UNKNOWN_MEMBER_ID)
  turn.answer(ticket, { errorCode: KafkaError.NONE })
  afterRemoval(turn)
}
