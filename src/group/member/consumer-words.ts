/** What a member of a KIP-848 group says: one request for everything. */
import type { ConsumerGroupHeartbeat } from '../../protocol/api/consumer-group-heartbeat.ts'
import type { RequestOf, ResponseOf } from '../../protocol/schema.ts'
import type { ConsumerMember, RequestKind } from './consumer.ts'
import { byTopicId } from './protocol.ts'

export type HeartbeatRequest = Omit<RequestOf<typeof ConsumerGroupHeartbeat>, 'groupId'>
export type HeartbeatAnswer = Pick<
  ResponseOf<typeof ConsumerGroupHeartbeat>,
  'errorCode' | 'errorMessage' | 'memberEpoch' | 'heartbeatIntervalMs' | 'assignment'
>

/** The heartbeat that `member` owes at `now`. A join and those after a failure say everything; others what changed. */
export function heartbeatOf(
  member: ConsumerMember,
  kind: RequestKind,
  now: number
): HeartbeatRequest {
  const { config, subscription, mustSay } = member
  const { memberId, instanceId } = config
  if (kind === 'leave') {
    return { memberId, instanceId, memberEpoch: instanceId === null ? -1 : -2 }
  }
  const brief = {
    memberId,
    instanceId,
    memberEpoch: kind === 'join' ? 0 : member.epoch,
    ...(mustSay === 'nothing' ? {} : { topicPartitions: byTopicId(member.owned) })
  }
  if (kind === 'heartbeat' && mustSay !== 'everything' && now >= member.doubtsUntil) return brief
  return {
    ...brief,
    topicPartitions: byTopicId(member.owned),
    rackId: config.rackId,
    rebalanceTimeoutMs: config.rebalanceTimeoutMs,
    serverAssignor: config.serverAssignor,
    subscribedTopicNames: subscription.topics,
    // Version 0 has no patterns: left out, it isn't refused where none is asked for.
    ...(subscription.regex === null ? {} : { subscribedTopicRegex: subscription.regex })
  }
}
