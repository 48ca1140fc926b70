/** DescribeDelegationToken (41): lists delegation tokens. */
import { api, array, bytes, int16, int32, int64, string } from '../schema.ts'

export const DescribeDelegationToken = api({
  key: 41,
  name: 'DescribeDelegationToken',
  versions: [1, 3],
  flexible: 2,
  to: 'any',
  request: {
    owners: array(
      {
        principalType: string(),
        principalName: string()
      },
      { nullable: 1 }
    )
  },
  response: {
    errorCode: int16(),
    tokens: array({
      principalType: string(),
      principalName: string(),
      tokenRequesterPrincipalType: string({ since: 3 }),
      tokenRequesterPrincipalName: string({ since: 3 }),
      issueTimestamp: int64(),
      expiryTimestamp: int64(),
      maxTimestamp: int64(),
      tokenId: string(),
      hmac: bytes(),
      renewers: array({
        principalType: string(),
        principalName: string()
      })
    }),
    throttleTimeMs: int32()
  }
})
