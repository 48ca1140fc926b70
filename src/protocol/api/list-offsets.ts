/** ListOffsets (2): looks up offsets by time, or the earliest (-2), latest (-1) and other marks (-3 … -5) of partitions. */
import { api, array, int16, int32, int64, int8, string } from '../schema.ts'

export const ListOffsets = api({
  key: 2,
  name: 'ListOffsets',
  versions: [1, 11],
  flexible: 6,
  to: 'leader',
  request: {
    replicaId: int32(),
    isolationLevel: int8({ since: 2 }),
    topics: array({
      name: string(),
      partitions: array({
        partitionIndex: int32(),
        currentLeaderEpoch: int32({ since: 4, default: -1, ignorable: true }),
        timestamp: int64()
      })
    }),
    timeoutMs: int32({ since: 10, ignorable: true })
  },
  response: {
    throttleTimeMs: int32({ since: 2, ignorable: true }),
    topics: array({
      name: string(),
      partitions: array({
        partitionIndex: int32(),
        errorCode: int16(),
        timestamp: int64({ default: -1 }),
        offset: int64({ default: -1 }),
        leaderEpoch: int32({ since: 4, default: -1 })
      })
    })
  }
})
