/** ExpireDelegationToken (40): ends a delegation token. */
import { api, bytes, int16, int32, int64 } from '../schema.ts'

export const ExpireDelegationToken = api({
  key: 40,
  name: 'ExpireDelegationToken',
  versions: [1, 2],
  flexible: 2,
  to: 'controller',
  request: {
    hmac: bytes(),
    expiryTimePeriodMs: int64()
  },
  response: {
    errorCode: int16(),
    expiryTimestampMs: int64(),
    throttleTimeMs: int32()
  }
})
