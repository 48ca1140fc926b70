/** ShareGroupDescribe (77): describes share groups (KIP-932). */
import { api, array, bool, int16, int32, string, struct, uuid } from '../schema.ts'

export const ShareGroupDescribe = api({
  key: 77,
  name: 'ShareGroupDescribe',
  versions: [1, 1],
  flexible: 0,
  to: 'group',
  request: {
    groupIds: array(string()),
    includeAuthorizedOperations: bool()
  },
  response: {
    throttleTimeMs: int32(),
    groups: array({
      errorCode: int16(),
      errorMessage: string({ nullable: 1, default: null }),
      groupId: string(),
      groupState: string(),
      groupEpoch: int32(),
      assignmentEpoch: int32(),
      assignorName: string(),
      members: array({
        memberId: string(),
        rackId: string({ nullable: 1, default: null }),
        memberEpoch: int32(),
        clientId: string(),
        clientHost: string(),
        subscribedTopicNames: array(string()),
        assignment: struct({
          topicPartitions: array({
            topicId: uuid(),
            topicName: string(),
            partitions: array(int32())
          })
        })
      }),
      authorizedOperations: int32({ default: -2147483648 })
    })
  }
})
