/** InitProducerId (22): gets a producer id and epoch, and fences or recovers a transactional id. */
import { api, bool, int16, int32, opaque64, string } from '../schema.ts'

export const InitProducerId = api({
  key: 22,
  name: 'InitProducerId',
  versions: [0, 6],
  flexible: 2,
  to: 'transaction',
  request: {
    transactionalId: string({ nullable: 0 }),
    transactionTimeoutMs: int32(),
    producerId: opaque64({ since: 3, default: -1n }),
    producerEpoch: int16({ since: 3, default: -1 }),
    enable2Pc: bool({ since: 6, default: false }),
    keepPreparedTxn: bool({ since: 6, default: false })
  },
  response: {
    throttleTimeMs: int32({ ignorable: true }),
    errorCode: int16(),
    producerId: opaque64({ default: -1n }),
    producerEpoch: int16(),
    ongoingTxnProducerId: opaque64({ since: 6, default: -1n }),
    ongoingTxnProducerEpoch: int16({ since: 6, default: -1 })
  }
})
