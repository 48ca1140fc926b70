/** ListTransactions (66): lists the transactions that one broker coordinates (KIP-664). */
import { api, array, int16, int32, int64, opaque64, string } from '../schema.ts'

export const ListTransactions = api({
  key: 66,
  name: 'ListTransactions',
  versions: [0, 2],
  flexible: 0,
  to: 'node',
  request: {
    stateFilters: array(string()),
    producerIdFilters: array(opaque64()),
    durationFilter: int64({ since: 1, default: -1 }),
    transactionalIdPattern: string({ since: 2, nullable: 2, default: null })
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    unknownStateFilters: array(string()),
    transactionStates: array({
      transactionalId: string(),
      producerId: opaque64(),
      transactionState: string()
    })
  }
})
