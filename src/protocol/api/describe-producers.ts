/** DescribeProducers (61): lists the producers active on partitions (KIP-664). */
import { api, array, int16, int32, int64, opaque64, string } from '../schema.ts'

export const DescribeProducers = api({
  key: 61,
  name: 'DescribeProducers',
  versions: [0, 0],
  flexible: 0,
  to: 'leader',
  request: {
    topics: array({
      name: string(),
      partitionIndexes: array(int32())
    })
  },
  response: {
    throttleTimeMs: int32(),
    topics: array({
      name: string(),
      partitions: array({
        partitionIndex: int32(),
        errorCode: int16(),
        errorMessage: string({ nullable: 0, default: null }),
        activeProducers: array({
          producerId: opaque64(),
          producerEpoch: int32(),
          lastSequence: int32({ default: -1 }),
          lastTimestamp: int64({ default: -1 }),
          coordinatorEpoch: int32(),
          currentTxnStartOffset: int64({ default: -1 })
        })
      })
    })
  }
})
