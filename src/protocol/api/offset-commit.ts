/** OffsetCommit (8): stores a group's offsets. */
import { api, array, int16, int32, int64, string, uuid } from '../schema.ts'

export const OffsetCommit = api({
  key: 8,
  name: 'OffsetCommit',
  versions: [2, 10],
  flexible: 8,
  to: 'group',
  request: {
    groupId: string(),
    generationIdOrMemberEpoch: int32({ default: -1, ignorable: true }),
    memberId: string({ ignorable: true }),
    groupInstanceId: string({ since: 7, nullable: 7, default: null }),
    retentionTimeMs: int64({ until: 4, default: -1, ignorable: true }),
    topics: array({
      name: string({ until: 9, ignorable: true }),
      topicId: uuid({ since: 10, ignorable: true }),
      partitions: array({
        partitionIndex: int32(),
        committedOffset: int64(),
        committedLeaderEpoch: int32({ since: 6, default: -1, ignorable: true }),
        committedMetadata: string({ nullable: 2 })
      })
    })
  },
  response: {
    throttleTimeMs: int32({ since: 3, ignorable: true }),
    topics: array({
      name: string({ until: 9, ignorable: true }),
      topicId: uuid({ since: 10, ignorable: true }),
      partitions: array({
        partitionIndex: int32(),
        errorCode: int16()
      })
    })
  }
})
