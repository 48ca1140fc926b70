/** ConsumerGroupHeartbeat (68): joins, keeps alive and leaves a KIP-848 group, and reconciles the member's assignment. */
import { api, array, int16, int32, string, struct, uuid } from '../schema.ts'

export const ConsumerGroupHeartbeat = api({
  key: 68,
  name: 'ConsumerGroupHeartbeat',
  versions: [0, 1],
  flexible: 0,
  to: 'group',
  lane: 'group',
  request: {
    groupId: string(),
    memberId: string(),
    memberEpoch: int32(),
    instanceId: string({ nullable: 0, default: null }),
    rackId: string({ nullable: 0, default: null }),
    rebalanceTimeoutMs: int32({ default: -1 }),
    subscribedTopicNames: array(string(), { nullable: 0, default: null }),
    subscribedTopicRegex: string({ since: 1, nullable: 1, default: null }),
    serverAssignor: string({ nullable: 0, default: null }),
    topicPartitions: array(
      {
        topicId: uuid(),
        partitions: array(int32())
      },
      { nullable: 0, default: null }
    )
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0, default: null }),
    memberId: string({ nullable: 0, default: null }),
    memberEpoch: int32(),
    heartbeatIntervalMs: int32(),
    assignment: struct(
      {
        topicPartitions: array({
          topicId: uuid(),
          partitions: array(int32())
        })
      },
      { nullable: 0, default: null }
    )
  }
})
