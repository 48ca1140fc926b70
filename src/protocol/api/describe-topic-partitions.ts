/** DescribeTopicPartitions (75): describes topics page by page (KIP-966). */
import { api, array, bool, int16, int32, string, struct, uuid } from '../schema.ts'

export const DescribeTopicPartitions = api({
  key: 75,
  name: 'DescribeTopicPartitions',
  versions: [0, 0],
  flexible: 0,
  to: 'any',
  request: {
    topics: array({
      name: string()
    }),
    responsePartitionLimit: int32({ default: 2000 }),
    cursor: struct(
      {
        topicName: string(),
        partitionIndex: int32()
      },
      { nullable: 0, default: null }
    )
  },
  response: {
    throttleTimeMs: int32({ ignorable: true }),
    topics: array({
      errorCode: int16(),
      name: string({ nullable: 0 }),
      topicId: uuid({ ignorable: true }),
      isInternal: bool({ default: false, ignorable: true }),
      partitions: array({
        errorCode: int16(),
        partitionIndex: int32(),
        leaderId: int32(),
        leaderEpoch: int32({ default: -1, ignorable: true }),
        replicaNodes: array(int32()),
        isrNodes: array(int32()),
        eligibleLeaderReplicas: array(int32(), { nullable: 0, default: null }),
        lastKnownElr: array(int32(), { nullable: 0, default: null }),
        offlineReplicas: array(int32(), { ignorable: true })
      }),
      topicAuthorizedOperations: int32({ default: -2147483648 })
    }),
    nextCursor: struct(
      {
        topicName: string(),
        partitionIndex: int32()
      },
      { nullable: 0, default: null }
    )
  }
})
