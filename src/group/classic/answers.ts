/** What a classic group answers, and small steps that several requests share. */
import type { Heartbeat } from '../../protocol/api/heartbeat.ts'
import type { JoinGroup } from '../../protocol/api/join-group.ts'
import type { LeaveGroup } from '../../protocol/api/leave-group.ts'
import type { SyncGroup } from '../../protocol/api/sync-group.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { ResponseWritten } from '../../protocol/schema.ts'
import type { Turn } from '../machine.ts'
import type { ClassicFact, ClassicGroup, ClassicMember, ClassicMemberFact } from './state.ts'

/** `protocolName` is null where there is none, as JoinGroup has it since version 7. */
export type JoinAnswer = ResponseWritten<typeof JoinGroup>
export type SyncAnswer = ResponseWritten<typeof SyncGroup>
export type BeatAnswer = ResponseWritten<typeof Heartbeat>
export type LeaveAnswer = ResponseWritten<typeof LeaveGroup>
export type ClassicAnswer = JoinAnswer | SyncAnswer | BeatAnswer | LeaveAnswer
export type ClassicTurn = Turn<ClassicGroup, ClassicFact, ClassicAnswer>

export const noBytes = Buffer.alloc(0)

export function refusedJoin(errorCode: number, memberId: string): JoinAnswer {
  const none = { generationId: -1, protocolName: null, leader: '', members: [] }
  return { throttleTimeMs: 0, errorCode, memberId, ...none }
}

export function refusedSync(errorCode: number): SyncAnswer {
  return { throttleTimeMs: 0, errorCode, assignment: noBytes }
}

/** What a member is told of the present generation; the leader is told of all members too. */
export function generationAnswer(group: ClassicGroup, memberId: string): JoinAnswer {
  const { generation: generationId, protocolType, protocol, leader, members } = group
  const told = memberId === leader ? [...members.values()] : []
  return {
    throttleTimeMs: 0,
    errorCode: KafkaError.NONE,
    generationId,
    protocolType,
    protocolName: protocol,
    leader: leader ?? '',
    memberId,
    members: told.map(member => ({
      memberId: member.memberId,
      groupInstanceId: member.instanceId,
      metadata: metadataOf(member, protocol) ?? noBytes
    }))
  }
}

/** What the member says in a protocol. */
export function metadataOf(member: ClassicMemberFact, protocol: string | null): Buffer | undefined {
  return member.protocols.find(({ name }) => name === protocol)?.metadata
}

/** NONE: it is a member, and if it is static, nobody took its place. */
export function memberFault(
  group: ClassicGroup,
  memberId: string,
  instanceId: string | null
): number {
  if (instanceId !== null) {
    const present = group.statics.get(instanceId)
    if (present === undefined) return KafkaError.UNKNOWN_MEMBER_ID
    if (present !== memberId) return KafkaError.FENCED_INSTANCE_ID
  }
  return group.members.has(memberId) ? KafkaError.NONE : KafkaError.UNKNOWN_MEMBER_ID
}

/** The group as the fact that would leave it as it is. */
export function groupFact(group: ClassicGroup): ClassicFact & { readonly kind: 'group' } {
  const { phase, generation, protocolType, protocol, leader, sinceMs } = group
  return { kind: 'group', phase, generation, protocolType, protocol, leader, sinceMs }
}

/** The member's session begins anew. */
export function heard(turn: ClassicTurn, memberId: string): void {
  const member = turn.state.members.get(memberId)
  if (member === undefined) return
  const sessionEndsMs = turn.world.monotonicMs + member.sessionTimeoutMs
  turn.become({ kind: 'waits', memberId, sessionEndsMs })
  turn.wake(sessionEndsMs)
}

/** What waits of the member is answered with an error. */
export function failWaiting(turn: ClassicTurn, member: ClassicMember, code: number): void {
  const { memberId, joining, syncing } = member
  if (joining !== null) turn.answer(joining, refusedJoin(code, memberId))
  if (syncing !== null) turn.answer(syncing, refusedSync(code))
  turn.become({ kind: 'waits', memberId, joining: null, syncing: null })
}

/** The member is gone. Who calls it looks after the rebalance. */
export function remove(turn: ClassicTurn, member: ClassicMember): void {
  failWaiting(turn, member, KafkaError.UNKNOWN_MEMBER_ID)
  turn.become({ kind: 'gone', memberId: member.memberId })
}
