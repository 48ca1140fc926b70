/** CreateDelegationToken (38): creates a delegation token. */
import { api, array, bytes, int16, int32, int64, string } from '../schema.ts'

export const CreateDelegationToken = api({
  key: 38,
  name: 'CreateDelegationToken',
  versions: [1, 3],
  flexible: 2,
  to: 'controller',
  request: {
    ownerPrincipalType: string({ since: 3, nullable: 3 }),
    ownerPrincipalName: string({ since: 3, nullable: 3 }),
    renewers: array({
      principalType: string(),
      principalName: string()
    }),
    maxLifetimeMs: int64()
  },
  response: {
    errorCode: int16(),
    principalType: string(),
    principalName: string(),
    tokenRequesterPrincipalType: string({ since: 3 }),
    tokenRequesterPrincipalName: string({ since: 3 }),
    issueTimestampMs: int64(),
    expiryTimestampMs: int64(),
    maxTimestampMs: int64(),
    tokenId: string(),
    hmac: bytes(),
    throttleTimeMs: int32()
  }
})
