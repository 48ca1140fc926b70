/** ConsumerGroupDescribe (69): describes KIP-848 groups and their members. */
import { api, array, bool, int16, int32, int8, string, struct, uuid } from '../schema.ts'

export const ConsumerGroupDescribe = api({
  key: 69,
  name: 'ConsumerGroupDescribe',
  versions: [0, 1],
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
      errorMessage: string({ nullable: 0, default: null }),
      groupId: string(),
      groupState: string(),
      groupEpoch: int32(),
      assignmentEpoch: int32(),
      assignorName: string(),
      members: array({
        memberId: string(),
        instanceId: string({ nullable: 0, default: null }),
        rackId: string({ nullable: 0, default: null }),
        memberEpoch: int32(),
        clientId: string(),
        clientHost: string(),
        subscribedTopicNames: array(string()),
        subscribedTopicRegex: string({ nullable: 0, default: null }),
        assignment: struct({
          topicPartitions: array({
            topicId: uuid(),
            topicName: string(),
            partitions: array(int32())
          })
        }),
        targetAssignment: struct({
          topicPartitions: array({
            topicId: uuid(),
            topicName: string(),
            partitions: array(int32())
          })
        }),
        memberType: int8({ since: 1, default: -1, ignorable: true })
      }),
      authorizedOperations: int32({ default: -2147483648 })
    })
  }
})
