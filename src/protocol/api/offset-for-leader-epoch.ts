/** OffsetForLeaderEpoch (23): asks where a leader epoch ended, to find a truncated log (KIP-320). */
import { api, array, int16, int32, int64, string } from '../schema.ts'

export const OffsetForLeaderEpoch = api({
  key: 23,
  name: 'OffsetForLeaderEpoch',
  versions: [2, 4],
  flexible: 4,
  to: 'leader',
  request: {
    replicaId: int32({ since: 3, default: -2, ignorable: true }),
    topics: array({
      topic: string(),
      partitions: array({
        partition: int32(),
        currentLeaderEpoch: int32({ default: -1, ignorable: true }),
        leaderEpoch: int32()
      })
    })
  },
  response: {
    throttleTimeMs: int32({ ignorable: true }),
    topics: array({
      topic: string(),
      partitions: array({
        errorCode: int16(),
        partition: int32(),
        leaderEpoch: int32({ default: -1, ignorable: true }),
        endOffset: int64({ default: -1 })
      })
    })
  }
})
