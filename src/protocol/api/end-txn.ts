/** EndTxn (26): commits or aborts a transaction; raises the epoch from version 5 on (KIP-890). */
import { api, bool, int16, int32, opaque64, string } from '../schema.ts'

export const EndTxn = api({
  key: 26,
  name: 'EndTxn',
  versions: [0, 5],
  flexible: 3,
  to: 'transaction',
  request: {
    transactionalId: string(),
    producerId: opaque64(),
    producerEpoch: int16(),
    committed: bool()
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    producerId: opaque64({ since: 5, default: -1n, ignorable: true }),
    producerEpoch: int16({ since: 5, default: -1, ignorable: true })
  }
})
