/** OffsetFetch (9): reads a group's committed offsets; several groups from version 8 on. */
import { api, array, bool, int16, int32, int64, string, uuid } from '../schema.ts'

export const OffsetFetch = api({
  key: 9,
  name: 'OffsetFetch',
  versions: [1, 10],
  flexible: 6,
  to: 'group',
  request: {
    groupId: string({ until: 7 }),
    topics: array(
      {
        name: string(),
        partitionIndexes: array(int32())
      },
      { until: 7, nullable: 2 }
    ),
    groups: array(
      {
        groupId: string(),
        memberId: string({ since: 9, nullable: 9, default: null, ignorable: true }),
        memberEpoch: int32({ since: 9, default: -1, ignorable: true }),
        topics: array(
          {
            name: string({ until: 9, ignorable: true }),
            topicId: uuid({ since: 10, ignorable: true }),
            partitionIndexes: array(int32())
          },
          { nullable: 8 }
        )
      },
      { since: 8 }
    ),
    requireStable: bool({ since: 7, default: false })
  },
  response: {
    throttleTimeMs: int32({ since: 3, ignorable: true }),
    topics: array(
      {
        name: string(),
        partitions: array({
          partitionIndex: int32(),
          committedOffset: int64(),
          committedLeaderEpoch: int32({ since: 5, default: -1, ignorable: true }),
          metadata: string({ nullable: 1 }),
          errorCode: int16()
        })
      },
      { until: 7 }
    ),
    errorCode: int16({ since: 2, until: 7, default: 0, ignorable: true }),
    groups: array(
      {
        groupId: string(),
        topics: array({
          name: string({ until: 9, ignorable: true }),
          topicId: uuid({ since: 10, ignorable: true }),
          partitions: array({
            partitionIndex: int32(),
            committedOffset: int64(),
            committedLeaderEpoch: int32({ default: -1, ignorable: true }),
            metadata: string({ nullable: 8 }),
            errorCode: int16()
          })
        }),
        errorCode: int16({ default: 0 })
      },
      { since: 8 }
    )
  }
})
