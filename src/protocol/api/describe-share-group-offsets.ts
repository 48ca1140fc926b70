/** DescribeShareGroupOffsets (90): reads share groups' start offsets (KIP-932). */
import { api, array, int16, int32, int64, string, uuid } from '../schema.ts'

export const DescribeShareGroupOffsets = api({
  key: 90,
  name: 'DescribeShareGroupOffsets',
  versions: [0, 1],
  flexible: 0,
  to: 'group',
  request: {
    groups: array({
      groupId: string(),
      topics: array(
        {
          topicName: string(),
          partitions: array(int32())
        },
        { nullable: 0 }
      )
    })
  },
  response: {
    throttleTimeMs: int32(),
    groups: array({
      groupId: string(),
      topics: array({
        topicName: string(),
        topicId: uuid(),
        partitions: array({
          partitionIndex: int32(),
          startOffset: int64(),
          leaderEpoch: int32(),
          lag: int64({ since: 1, default: -1, ignorable: true }),
          errorCode: int16(),
          errorMessage: string({ nullable: 0, default: null })
        })
      }),
      errorCode: int16(),
      errorMessage: string({ nullable: 0, default: null })
    })
  }
})
