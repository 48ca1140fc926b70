/** DescribeTransactions (65): describes transactional ids (KIP-664). */
import { api, array, int16, int32, int64, opaque64, string } from '../schema.ts'

export const DescribeTransactions = api({
  key: 65,
  name: 'DescribeTransactions',
  versions: [0, 0],
  flexible: 0,
  to: 'transaction',
  request: {
    transactionalIds: array(string())
  },
  response: {
    throttleTimeMs: int32(),
    transactionStates: array({
      errorCode: int16(),
      transactionalId: string(),
      transactionState: string(),
      transactionTimeoutMs: int32(),
      transactionStartTimeMs: int64(),
      producerId: opaque64(),
      producerEpoch: int16(),
      topics: array({
        topic: string(),
        partitions: array(int32())
      })
    })
  }
})
