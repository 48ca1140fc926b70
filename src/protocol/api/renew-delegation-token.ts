/** RenewDelegationToken (39): renews a delegation token. */
import { api, bytes, int16, int32, int64 } from '../schema.ts'

export const RenewDelegationToken = api({
  key: 39,
  name: 'RenewDelegationToken',
  versions: [1, 2],
  flexible: 2,
  to: 'controller',
  request: {
    hmac: bytes(),
    renewPeriodMs: int64()
  },
  response: {
    errorCode: int16(),
    expiryTimestampMs: int64(),
    throttleTimeMs: int32()
  }
})
