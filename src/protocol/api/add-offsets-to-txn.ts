/** AddOffsetsToTxn (25): adds a group's offsets to a transaction. */
import { api, int16, int32, opaque64, string } from '../schema.ts'

export const AddOffsetsToTxn = api({
  key: 25,
  name: 'AddOffsetsToTxn',
  versions: [0, 4],
  flexible: 3,
  to: 'transaction',
  request: {
    transactionalId: string(),
    producerId: opaque64(),
    producerEpoch: int16(),
    groupId: string()
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16()
  }
})
