/** WriteTxnMarkers (27): ends a transaction on its partitions; an admin uses it against a hanging one (KIP-664). */
import { api, array, bool, int16, int32, int8, opaque64, string } from '../schema.ts'

export const WriteTxnMarkers = api({
  key: 27,
  name: 'WriteTxnMarkers',
  versions: [1, 2],
  flexible: 1,
  to: 'leader',
  request: {
    markers: array({
      producerId: opaque64(),
      producerEpoch: int16(),
      transactionResult: bool(),
      topics: array({
        name: string(),
        partitionIndexes: array(int32())
      }),
      coordinatorEpoch: int32(),
      transactionVersion: int8({ since: 2, default: 0, ignorable: true })
    })
  },
  response: {
    markers: array({
      producerId: opaque64(),
      topics: array({
        name: string(),
        partitions: array({
          partitionIndex: int32(),
          errorCode: int16()
        })
      })
    })
  }
})
