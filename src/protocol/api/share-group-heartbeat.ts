/** ShareGroupHeartbeat (76): joins, keeps alive and leaves a share group (KIP-932). */
import { api, array, int16, int32, string, struct, uuid } from '../schema.ts'

export const ShareGroupHeartbeat = api({
  key: 76,
  name: 'ShareGroupHeartbeat',
  versions: [1, 1],
  flexible: 0,
  to: 'group',
  request: {
    groupId: string(),
    memberId: string(),
    memberEpoch: int32(),
    rackId: string({ nullable: 1, default: null }),
    subscribedTopicNames: array(string(), { nullable: 1, default: null })
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 1, default: null }),
    memberId: string({ nullable: 1, default: null }),
    memberEpoch: int32(),
    heartbeatIntervalMs: int32(),
    assignment: struct(
      {
        topicPartitions: array({
          topicId: uuid(),
          partitions: array(int32())
        })
      },
      { nullable: 1, default: null }
    )
  }
})
