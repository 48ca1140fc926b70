/** What a classic group answers to the requests of its members. */
import type { Heartbeat } from '../../protocol/api/heartbeat.ts'
import type { JoinGroup } from '../../protocol/api/join-group.ts'
import type { LeaveGroup } from '../../protocol/api/leave-group.ts'
import type { SyncGroup } from '../../protocol/api/sync-group.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { RequestRead } from '../../protocol/schema.ts'
import type { Client, Ticket } from '../machine.ts'
import {
  type ClassicTurn,
  failWaiting,
  generationAnswer,
  groupFact,
  heard,
  memberFault,
  noBytes,
  refusedJoin,
  refusedSync,
  remove
} from './answers.ts'
import { completeIfJoined, handOut, prepare, prepareIfFormed, selectProtocol } from './rebalance.ts'
import type { ClassicGroup, ClassicMember, ClassicMemberFact } from './state.ts'

export interface Join {
  readonly kind: 'join'
  readonly ticket: Ticket
  readonly version: number
  readonly client: Client
  readonly request: RequestRead<typeof JoinGroup>
}
export interface Sync {
  readonly kind: 'sync'
  readonly ticket: Ticket
  readonly request: RequestRead<typeof SyncGroup>
}
export interface Beat {
  readonly kind: 'heartbeat'
  readonly ticket: Ticket
  readonly request: RequestRead<typeof Heartbeat>
}
export interface Leave {
  readonly kind: 'leave'
  readonly ticket: Ticket
  readonly version: number
  readonly request: RequestRead<typeof LeaveGroup>
}
export type ClassicRequest = Join | Sync | Beat | Leave

/** Since version 4 a new member first gets its id, so that a client that gives up leaves no member behind (KIP-394). */
const knownIdsFrom = 4
/** Since version 3 several may leave at once, each with an error code of its own. */
export const severalFrom = 3
/** Since version 9 a leader can be told that the group has its assignment (KIP-814). */
const skipsFrom = 9

export function join(turn: ClassicTurn, event: Join): void {
  const { state: group, world } = turn
  const { request, ticket } = event
  const refuse = (code: number, memberId = request.memberId) =>
    turn.answer(ticket, refusedJoin(code, memberId))
  const { memberId, groupInstanceId: instanceId } = request
  const { maxSize } = world.config
  const there = group.members.get(memberId)
  if (there === undefined && group.members.size + group.promised.size >= maxSize) {
    if (!group.promised.has(memberId)) return refuse(KafkaError.GROUP_MAX_SIZE_REACHED)
  }
  if (!speaks(group, request)) return refuse(KafkaError.INCONSISTENT_GROUP_PROTOCOL)
  if (memberId === '') return joinNew(turn, event)
  if (group.promised.has(memberId)) {
    turn.become({ kind: 'promised', memberId, untilMs: null })
    return admit(turn, event, memberId)
  }
  const wrong = memberFault(group, memberId, instanceId)
  if (wrong !== KafkaError.NONE || there === undefined) {
    return refuse(wrong === KafkaError.NONE ? KafkaError.UNKNOWN_MEMBER_ID : wrong)
  }
  joinAgain(turn, event, there)
}

function joinNew(turn: ClassicTurn, event: Join): void {
  const { state: group, world } = turn
  const { request, ticket, version, client } = event
  const { groupInstanceId: instanceId } = request
  const memberId = `${instanceId ?? client.id}-${world.newId()}`
  if (instanceId !== null) {
    const before = group.members.get(group.statics.get(instanceId) ?? '')
    return before === undefined
      ? admit(turn, event, memberId)
      : replace(turn, event, before, memberId)
  }
  if (version < knownIdsFrom) return admit(turn, event, memberId)
  const untilMs = world.monotonicMs + request.sessionTimeoutMs
  turn.become({ kind: 'promised', memberId, untilMs })
  turn.wake(untilMs)
  turn.answer(ticket, refusedJoin(KafkaError.MEMBER_ID_REQUIRED, memberId))
}

/** A known member: whether it joins for the same as before, or a rebalance is called for. */
function joinAgain(turn: ClassicTurn, event: Join, there: ClassicMember): void {
  const { state: group } = turn
  const { request, ticket } = event
  const same = sameProtocols(there, request)
  const informed =
    group.phase === 'CompletingRebalance'
      ? same
      : group.phase === 'Stable' && same && group.leader !== there.memberId
  if (!informed) return update(turn, event, there)
  // Its answer was lost, or it wants to know where the group is.
  heard(turn, there.memberId)
  turn.answer(ticket, generationAnswer(group, there.memberId))
}

/** A new member is in the group. */
function admit(turn: ClassicTurn, event: Join, memberId: string): void {
  const { request, ticket } = event
  const { state: group } = turn
  // The first member says what the group speaks.
  if (group.phase === 'Empty') {
    turn.become({ ...groupFact(group), protocolType: request.protocolType })
  }
  turn.become({ kind: 'member', member: memberOf(event, memberId, noBytes) })
  turn.become({ kind: 'waits', memberId, fresh: true })
  awaitOthers(turn, memberId, ticket)
}

function update(turn: ClassicTurn, event: Join, there: ClassicMember): void {
  const { memberId, joining, syncing } = there
  // Who it is stays as it was when it came.
  const { sessionTimeoutMs, rebalanceTimeoutMs, protocols } = memberOf(event, memberId, noBytes)
  const member = { ...there, sessionTimeoutMs, rebalanceTimeoutMs, protocols }
  turn.become({ kind: 'member', member })
  // The request before is answered to nobody: its client gave it up. But every ticket gets its answer.
  if (joining !== null)
    turn.answer(joining, refusedJoin(KafkaError.REBALANCE_IN_PROGRESS, memberId))
  if (syncing !== null) turn.answer(syncing, refusedSync(KafkaError.REBALANCE_IN_PROGRESS))
  turn.become({ kind: 'waits', memberId, joining: null, syncing: null })
  awaitOthers(turn, memberId, event.ticket)
}

/** The member's JoinGroup waits for those of the others. */
function awaitOthers(turn: ClassicTurn, memberId: string, joining: Ticket): void {
  const { state: group } = turn
  if (group.phase !== 'PreparingRebalance') prepare(turn)
  else if (group.joinBy?.initial) {
    const { atMs, initial } = group.joinBy
    turn.become({ kind: 'joinBy', joinBy: { atMs, initial: { ...initial, more: true } } })
  }
  turn.become({ kind: 'waits', memberId, joining })
  heard(turn, memberId)
  completeIfJoined(turn)
}

/** A static member came back under a new id: in a stable group it just takes its place. */
function replace(turn: ClassicTurn, event: Join, before: ClassicMember, memberId: string): void {
  const { state: group } = turn
  const { version, ticket } = event
  const { leader, protocol } = group
  failWaiting(turn, before, KafkaError.FENCED_INSTANCE_ID)
  turn.become({ kind: 'gone', memberId: before.memberId })
  turn.become({ kind: 'member', member: memberOf(event, memberId, before.assignment) })
  const led = leader === before.memberId
  if (led) turn.become({ ...groupFact(group), leader: memberId })
  if (group.phase !== 'Stable' || selectProtocol(group) !== protocol) {
    return awaitOthers(turn, memberId, ticket)
  }
  heard(turn, memberId)
  const answer = generationAnswer(group, memberId)
  if (!led) turn.answer(ticket, answer)
  else if (version >= skipsFrom) turn.answer(ticket, { ...answer, skipAssignment: true })
  // It must not think that it leads: it would make an assignment that nobody asked for.
  else turn.answer(ticket, { ...answer, leader: before.memberId, members: [] })
}

function memberOf(
  { request, client }: Join,
  memberId: string,
  assignment: Buffer
): ClassicMemberFact {
  const { sessionTimeoutMs, rebalanceTimeoutMs, groupInstanceId: instanceId, protocols } = request
  return {
    memberId,
    instanceId,
    clientId: client.id,
    clientHost: client.host,
    sessionTimeoutMs,
    // Before version 1 there was one timeout for both.
    rebalanceTimeoutMs: rebalanceTimeoutMs < 0 ? sessionTimeoutMs : rebalanceTimeoutMs,
    protocols,
    assignment
  }
}

function sameProtocols(there: ClassicMember, { protocols }: Join['request']): boolean {
  return (
    there.protocols.length === protocols.length &&
    there.protocols.every(({ name, metadata }, index) => {
      const other = protocols[index]
      return other?.name === name && other.metadata.equals(metadata)
    })
  )
}

/** Whether it speaks what all members speak, itself included as it was: so it can't change all it speaks at once. */
function speaks({ phase, protocolType, members }: ClassicGroup, request: Join['request']): boolean {
  if (request.protocolType === '' || request.protocols.length === 0) return false
  if (phase === 'Empty') return true
  if (protocolType !== request.protocolType) return false
  const all = [...members.values()]
  return request.protocols.some(({ name }) =>
    all.every(member => member.protocols.some(protocol => protocol.name === name))
  )
}

export function sync(turn: ClassicTurn, { request, ticket }: Sync): void {
  const { state: group } = turn
  const { memberId, groupInstanceId, generationId, protocolType, protocolName } = request
  const refuse = (code: number) => turn.answer(ticket, refusedSync(code))
  const wrong = memberFault(group, memberId, groupInstanceId)
  const member = group.members.get(memberId)
  if (wrong !== KafkaError.NONE || member === undefined) return refuse(wrong)
  if (generationId !== group.generation) return refuse(KafkaError.ILLEGAL_GENERATION)
  if (
    (protocolType !== null && protocolType !== group.protocolType) ||
    (protocolName !== null && group.protocol !== null && protocolName !== group.protocol)
  ) {
    return refuse(KafkaError.INCONSISTENT_GROUP_PROTOCOL)
  }
  if (group.phase === 'PreparingRebalance') return refuse(KafkaError.REBALANCE_IN_PROGRESS)
  if (member.syncing !== null) {
    turn.answer(member.syncing, refusedSync(KafkaError.REBALANCE_IN_PROGRESS))
  }
  turn.become({ kind: 'waits', memberId, syncing: ticket, unsynced: false })
  if (group.phase === 'CompletingRebalance' && memberId === group.leader) {
    const assigned = new Map(request.assignments.map(one => [one.memberId, one.assignment]))
    for (const one of group.members.values()) {
      const assignment = assigned.get(one.memberId) ?? noBytes
      turn.become({ kind: 'member', member: { ...one, assignment } })
    }
    turn.become({ ...groupFact(group), phase: 'Stable', sinceMs: turn.world.wallMs })
  }
  if (group.phase === 'Stable') handOut(turn)
}

export function beat(turn: ClassicTurn, { request, ticket }: Beat): void {
  const { state: group } = turn
  const { memberId, groupInstanceId, generationId } = request
  const answer = (errorCode: number) => turn.answer(ticket, { throttleTimeMs: 0, errorCode })
  const wrong = memberFault(group, memberId, groupInstanceId)
  if (wrong !== KafkaError.NONE) return answer(wrong)
  if (generationId !== group.generation) return answer(KafkaError.ILLEGAL_GENERATION)
  heard(turn, memberId)
  answer(group.phase === 'PreparingRebalance' ? KafkaError.REBALANCE_IN_PROGRESS : KafkaError.NONE)
}

export function leave(turn: ClassicTurn, { request, ticket, version }: Leave): void {
  const { state: group } = turn
  const asked =
    version >= severalFrom
      ? request.members
      : [{ memberId: request.memberId, groupInstanceId: null }]
  let left = false
  const members = asked.map(({ memberId, groupInstanceId }) => {
    const answer = { memberId, groupInstanceId, errorCode: KafkaError.NONE as number }
    if (group.promised.has(memberId)) {
      turn.become({ kind: 'promised', memberId, untilMs: null })
      // Nobody else notices, but Kafka's groups rebalance on it.
      left = true
      return answer
    }
    // An operator removes a static member by its instance id alone.
    const id =
      memberId === '' && groupInstanceId !== null
        ? (group.statics.get(groupInstanceId) ?? '')
        : memberId
    const errorCode = memberFault(group, id, groupInstanceId)
    const member = group.members.get(id)
    if (errorCode !== KafkaError.NONE || member === undefined) return { ...answer, errorCode }
    remove(turn, member)
    left = true
    return answer
  })
  if (left) prepareIfFormed(turn)
  completeIfJoined(turn)
  const errorCode = members[0]?.errorCode ?? KafkaError.NONE
  const each = { throttleTimeMs: 0, errorCode: KafkaError.NONE, members }
  turn.answer(ticket, version >= severalFrom ? each : { throttleTimeMs: 0, errorCode })
}
