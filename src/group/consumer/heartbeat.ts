/** What a KIP-848 group answers to a heartbeat: joining, staying, reconciling and leaving are all that one request. */
import type { ConsumerGroupHeartbeat } from '../../protocol/api/consumer-group-heartbeat.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { RequestRead, ResponseWritten } from '../../protocol/schema.ts'
import type { Client, Ticket, Turn } from '../machine.ts'
import { topicPattern } from '../pattern.ts'
import { ownsOnly, reconcile, sameHeld } from './reconcile.ts'
import {
  type ConsumerFact,
  type ConsumerGroup,
  type Member,
  type Subscription,
  awayEpoch,
  leftEpoch,
  listOf
} from './state.ts'
import { assignorOf, assignors, firstEpoch, retarget } from './target.ts'

export type HeartbeatRequest = RequestRead<typeof ConsumerGroupHeartbeat>
export type HeartbeatAnswer = ResponseWritten<typeof ConsumerGroupHeartbeat>
export type ConsumerTurn = Turn<ConsumerGroup, ConsumerFact, HeartbeatAnswer>

export interface Heartbeat {
  readonly kind: 'heartbeat'
  readonly ticket: Ticket
  readonly version: number
  readonly client: Client
  readonly request: HeartbeatRequest
}

export type Refusal = readonly [code: number, message: string]

export function refusedHeartbeat([errorCode, errorMessage]: Refusal): HeartbeatAnswer {
  return { throttleTimeMs: 0, errorCode, errorMessage, memberEpoch: 0, heartbeatIntervalMs: 0 }
}

export function heartbeat(turn: ConsumerTurn, event: Heartbeat): void {
  const { request, ticket } = event
  const refusal =
    request.memberEpoch < 0 ? leave(turn, event) : (admit(turn, event) ?? stay(turn, event))
  if (refusal !== undefined) turn.answer(ticket, refusedHeartbeat(refusal))
}

/** What is wrong with the request alone; Kafka's words. */
export function malformedHeartbeat(
  request: HeartbeatRequest,
  version: number
): Refusal | undefined {
  const { memberEpoch, memberId, instanceId, subscribedTopicRegex: pattern } = request
  const wrong = (message: string): Refusal => [KafkaError.INVALID_REQUEST, message]
  if (request.groupId === '') return wrong("GroupId can't be empty.")
  if (instanceId === '') return wrong("InstanceId can't be empty.")
  if (request.rackId === '') return wrong("RackId can't be empty.")
  // Before version 1 the coordinator makes the id of a new member.
  if (memberId === '' && (memberEpoch !== 0 || version >= 1)) {
    return wrong("MemberId can't be empty.")
  }
  if (memberEpoch < awayEpoch) return wrong('MemberEpoch is invalid.')
  if (memberEpoch === awayEpoch && instanceId === null) return wrong("InstanceId can't be null.")
  if (memberEpoch === 0) {
    if (request.rebalanceTimeoutMs === -1) {
      return wrong('RebalanceTimeoutMs must be provided in first request.')
    }
    if (request.topicPartitions === null || request.topicPartitions.length > 0) {
      return wrong('TopicPartitions must be empty when (re-)joining.')
    }
    if (request.subscribedTopicNames === null && pattern === null) {
      return wrong(
        'Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.'
      )
    }
  }
  const { serverAssignor } = request
  if (serverAssignor !== null && !assignors.has(serverAssignor)) {
    const known = [...assignors.keys()].join(', ')
    return [
      KafkaError.UNSUPPORTED_ASSIGNOR,
      `ServerAssignor ${serverAssignor} is not supported. Supported assignors: ${known}.`
    ]
  }
  const matcher = pattern === null ? undefined : topicPattern(pattern)
  if (typeof matcher === 'string') {
    return [
      KafkaError.INVALID_REGULAR_EXPRESSION,
      `SubscribedTopicRegex \`${pattern}\` is not a valid regular expression: ${matcher}.`
    ]
  }
  return undefined
}

/** Whether the heartbeat is one of a member, or of one that may become a member; undefined: it is. */
function admit(turn: ConsumerTurn, { request }: Heartbeat): Refusal | undefined {
  const { state: group, world } = turn
  const { memberId, memberEpoch, instanceId } = request
  if (memberEpoch === 0 && !group.members.has(memberId) && !isFilled(group, instanceId)) {
    if (group.members.size >= world.config.maxSize) {
      return [
        KafkaError.GROUP_MAX_SIZE_REACHED,
        `The consumer group has reached its maximum capacity of ${world.config.maxSize} members.`
      ]
    }
    return undefined
  }
  if (instanceId === null) return fencedDynamic(group, request)
  const there = member(group, group.statics.get(instanceId))
  if (there === undefined) {
    // A dynamic member that becomes a static one: as its own id is known, it is that member.
    if (memberEpoch === 0) return undefined
    return [KafkaError.UNKNOWN_MEMBER_ID, `Instance id ${instanceId} is unknown.`]
  }
  if (memberEpoch !== 0) {
    return there.id === memberId
      ? fencedEpoch(there, request)
      : fencedInstance(memberId, instanceId, there)
  }
  // Even to the member itself, as in Kafka: it has to wait for the end of the session that it didn't end.
  if (there.epoch !== awayEpoch) {
    return [
      KafkaError.UNRELEASED_INSTANCE_ID,
      `Static member ${memberId} with instance id ${instanceId} was not allowed to join: ` +
        `the instance id is in use by member ${there.id}.`
    ]
  }
  takeOver(turn, there, memberId)
  return undefined
}

function isFilled(group: ConsumerGroup, instanceId: string | null): boolean {
  return instanceId !== null && group.statics.has(instanceId)
}

function member(group: ConsumerGroup, memberId: string | undefined): Member | undefined {
  return memberId === undefined ? undefined : group.members.get(memberId)
}

function fencedDynamic(group: ConsumerGroup, request: HeartbeatRequest): Refusal | undefined {
  const there = group.members.get(request.memberId)
  if (there === undefined) {
    return [
      KafkaError.UNKNOWN_MEMBER_ID,
      `Member ${request.memberId} is not a member of group ${request.groupId}.`
    ]
  }
  return request.memberEpoch === 0 ? undefined : fencedEpoch(there, request)
}

function fencedInstance(memberId: string, instanceId: string, { id }: Member): Refusal {
  return [
    KafkaError.FENCED_INSTANCE_ID,
    `Static member ${memberId} with instance id ${instanceId} was fenced by member ${id}.`
  ]
}

function fencedEpoch(there: Member, request: HeartbeatRequest): Refusal | undefined {
  const { memberEpoch, topicPartitions } = request
  if (memberEpoch === there.epoch) return undefined
  // An answer was lost: the member is still where it was, and owns nothing that it shouldn't.
  if (memberEpoch === there.previousEpoch && memberEpoch < there.epoch) {
    if (ownsOnly(topicPartitions, there.assigned)) return undefined
  }
  const side = memberEpoch > there.epoch ? 'greater' : 'smaller'
  return [
    KafkaError.FENCED_MEMBER_EPOCH,
    `The consumer group member has a ${side} member epoch (${memberEpoch}) than the one known by the group ` +
      `coordinator (${there.epoch}). The member must abandon all its partitions and rejoin.`
  ]
}

/** A static member under a new id: it gets all that the one before had, and that is no more. */
function takeOver(turn: ConsumerTurn, before: Member, memberId: string): void {
  const { assigned, target, subscription, sessionEndsMs } = before
  turn.become({ kind: 'gone', memberId: before.id })
  turn.become({ kind: 'member', subscription: { ...subscription, memberId } })
  turn.become({ kind: 'target', memberId, partitions: target })
  const current = { epoch: 0, previousEpoch: 0, state: 'stable', revoking: new Map() } as const
  turn.become({ kind: 'current', memberId, assigned, ...current })
  turn.become({ kind: 'heard', memberId, sessionEndsMs })
  turn.become({ kind: 'revokeBy', memberId, revokeByMs: null })
}

/** The member is let in: takes up what it says, brings it nearer to its target, answers. */
function stay(turn: ConsumerTurn, { request, client, ticket }: Heartbeat): undefined {
  const { state: group, world } = turn
  const memberId = request.memberId === '' ? world.newId() : request.memberId
  const before = group.members.get(memberId)
  const subscription = subscriptionOf(memberId, before?.subscription, request, client)
  if (before === undefined || !sameSubscription(before.subscription, subscription)) {
    const assignor = assignorOf(group)
    turn.become({ kind: 'member', subscription })
    // Who subscribes to nothing changes nothing for the others.
    const same = sameWishes(before?.subscription, subscription) && assignorOf(group) === assignor
    if (!same) retarget(turn, true)
    else if (group.epoch < firstEpoch) turn.become({ kind: 'epoch', epoch: firstEpoch })
  }
  const after = step(turn, memberId, request)
  const sessionEndsMs = world.monotonicMs + world.config.sessionTimeoutMs
  turn.become({ kind: 'heard', memberId, sessionEndsMs })
  turn.wake(sessionEndsMs)
  const told =
    request.memberEpoch === 0 ||
    isFull(request) ||
    !sameHeld(before?.assigned ?? new Map(), after.assigned)
  turn.answer(ticket, {
    throttleTimeMs: 0,
    errorCode: KafkaError.NONE,
    errorMessage: null,
    memberId,
    memberEpoch: after.epoch,
    heartbeatIntervalMs: world.config.heartbeatIntervalMs,
    assignment: told ? { topicPartitions: listOf(after.assigned) } : null
  })
}

/** Reconciles the member, and gives it time to revoke what it must. */
function step(turn: ConsumerTurn, memberId: string, request: HeartbeatRequest): Member {
  const { state: group, world } = turn
  const there = group.members.get(memberId) as Member
  const current = reconcile(group, there, request.topicPartitions)
  if (current === undefined) return there
  turn.become({ kind: 'current', memberId, ...current })
  if (current.state === 'unrevoked') {
    const revokeByMs = world.monotonicMs + there.subscription.rebalanceTimeoutMs
    turn.become({ kind: 'revokeBy', memberId, revokeByMs })
    turn.wake(revokeByMs)
  } else if (there.revokeByMs !== null) {
    turn.become({ kind: 'revokeBy', memberId, revokeByMs: null })
  }
  return group.members.get(memberId) as Member
}

/** Everything is in it, as after a lost answer: so the member gets everything. */
function isFull({
  rebalanceTimeoutMs,
  subscribedTopicNames,
  subscribedTopicRegex,
  topicPartitions
}: HeartbeatRequest): boolean {
  const subscribed = subscribedTopicNames !== null || subscribedTopicRegex !== null
  return rebalanceTimeoutMs !== -1 && subscribed && topicPartitions !== null
}

/** What is null or -1 in a heartbeat is as it was. */
function subscriptionOf(
  memberId: string,
  before: Subscription | undefined,
  request: HeartbeatRequest,
  client: Client
): Subscription {
  const { subscribedTopicNames: names, subscribedTopicRegex: pattern } = request
  return {
    memberId,
    instanceId: request.instanceId ?? before?.instanceId ?? null,
    rackId: request.rackId ?? before?.rackId ?? null,
    clientId: client.id,
    clientHost: client.host,
    rebalanceTimeoutMs:
      request.rebalanceTimeoutMs === -1
        ? (before?.rebalanceTimeoutMs ?? -1)
        : request.rebalanceTimeoutMs,
    topics: names === null ? (before?.topics ?? []) : [...new Set(names)].sort(),
    pattern: pattern === null ? (before?.pattern ?? null) : pattern === '' ? null : pattern,
    assignor: request.serverAssignor ?? before?.assignor ?? null
  }
}

function sameSubscription(one: Subscription, other: Subscription): boolean {
  return (
    sameWishes(one, other) &&
    one.assignor === other.assignor &&
    one.instanceId === other.instanceId &&
    one.rackId === other.rackId &&
    one.clientId === other.clientId &&
    one.clientHost === other.clientHost &&
    one.rebalanceTimeoutMs === other.rebalanceTimeoutMs
  )
}

/** What the target depends on. */
function sameWishes(one: Subscription | undefined, other: Subscription): boolean {
  const { topics, pattern } = one ?? { topics: [], pattern: null }
  return (
    pattern === other.pattern &&
    topics.length === other.topics.length &&
    topics.every((topic, index) => topic === other.topics[index])
  )
}

function leave(turn: ConsumerTurn, { request, ticket }: Heartbeat): Refusal | undefined {
  const { state: group } = turn
  const { memberId, memberEpoch, instanceId, groupId } = request
  const there =
    instanceId === null ? group.members.get(memberId) : member(group, group.statics.get(instanceId))
  if (there === undefined) {
    return [KafkaError.UNKNOWN_MEMBER_ID, `Member ${memberId} is not a member of group ${groupId}.`]
  }
  if (instanceId !== null && there.id !== memberId) {
    return fencedInstance(memberId, instanceId, there)
  }
  if (memberEpoch === leftEpoch) {
    turn.become({ kind: 'gone', memberId })
    retarget(turn, true)
  } else {
    // Its partitions stay with it until it is back, or its session ends.
    const { assigned, epoch: previousEpoch } = there
    const away = { epoch: awayEpoch, previousEpoch, state: 'stable', revoking: new Map() } as const
    turn.become({ kind: 'current', memberId, assigned, ...away })
    turn.become({ kind: 'revokeBy', memberId, revokeByMs: null })
  }
  turn.answer(ticket, {
    throttleTimeMs: 0,
    errorCode: KafkaError.NONE,
    errorMessage: null,
    memberId,
    memberEpoch,
    heartbeatIntervalMs: 0
  })
  return undefined
}
