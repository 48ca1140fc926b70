/** What a member of a led group asks, by what it knows. Values from values. */
import type { LedMember, LedRequest } from './controller-state.ts'
import { byTopicId, type Leases } from './protocol.ts'

export function registration(member: LedMember, kept: Leases): LedRequest {
  const { config, subscription, memberId, epoch: generationId } = member
  const { topics, regex: topicPattern } = subscription
  const body = { ...config, memberId, generationId, topics, topicPattern, kept: byTopicId(kept) }
  return { kind: 'register', body }
}

export function heartbeat(member: LedMember): LedRequest {
  const { memberId, epoch: generationId, heartbeatIntervalMs: maxWaitMs } = member
  return { kind: 'heartbeat', body: { memberId, generationId, maxWaitMs } }
}

export function leave({ memberId, phase }: LedMember): LedRequest {
  const reason = phase === 'overdue' ? 'a handler was too slow' : null
  return { kind: 'leave', body: { memberId, generationId: -1, reason } }
}
