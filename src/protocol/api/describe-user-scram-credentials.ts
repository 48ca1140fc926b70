/** DescribeUserScramCredentials (50): lists users' SCRAM credentials (KIP-554). */
import { api, array, int16, int32, int8, string } from '../schema.ts'

export const DescribeUserScramCredentials = api({
  key: 50,
  name: 'DescribeUserScramCredentials',
  versions: [0, 0],
  flexible: 0,
  to: 'controller',
  request: {
    users: array(
      {
        name: string()
      },
      { nullable: 0 }
    )
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0 }),
    results: array({
      user: string(),
      errorCode: int16(),
      errorMessage: string({ nullable: 0 }),
      credentialInfos: array({
        mechanism: int8(),
        iterations: int32()
      })
    })
  }
})
