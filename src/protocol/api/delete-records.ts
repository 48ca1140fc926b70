/** DeleteRecords (21): moves the start of partitions' logs forward (KIP-107). */
import { api, array, int16, int32, int64, string } from '../schema.ts'

export const DeleteRecords = api({
  key: 21,
  name: 'DeleteRecords',
  versions: [0, 2],
  flexible: 2,
  to: 'leader',
  lane: 'wait',
  request: {
    topics: array({
      name: string(),
      partitions: array({
        partitionIndex: int32(),
        offset: int64()
      })
    }),
    timeoutMs: int32()
  },
  response: {
    throttleTimeMs: int32(),
    topics: array({
      name: string(),
      partitions: array({
        partitionIndex: int32(),
        lowWatermark: int64(),
        errorCode: int16()
      })
    })
  }
})
