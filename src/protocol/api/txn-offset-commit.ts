/** TxnOffsetCommit (28): stores a group's offsets as part of a transaction. */
import { api, array, int16, int32, int64, opaque64, string, uuid } from '../schema.ts'

export const TxnOffsetCommit = api({
  key: 28,
  name: 'TxnOffsetCommit',
  versions: [0, 6],
  flexible: 3,
  to: 'group',
  request: {
    transactionalId: string(),
    groupId: string(),
    producerId: opaque64(),
    producerEpoch: int16(),
    generationIdOrMemberEpoch: int32({ since: 3, default: -1 }),
    memberId: string({ since: 3, default: '' }),
    groupInstanceId: string({ since: 3, nullable: 3, default: null }),
    topics: array({
      name: string({ until: 5, ignorable: true }),
      topicId: uuid({ since: 6, ignorable: true }),
      partitions: array({
        partitionIndex: int32(),
        committedOffset: int64(),
        committedLeaderEpoch: int32({ since: 2, default: -1, ignorable: true }),
        committedMetadata: string({ nullable: 0 })
      })
    })
  },
  response: {
    throttleTimeMs: int32(),
    topics: array({
      name: string({ until: 5, ignorable: true }),
      topicId: uuid({ since: 6, ignorable: true }),
      partitions: array({
        partitionIndex: int32(),
        errorCode: int16()
      })
    })
  }
})
