/** AlterUserScramCredentials (51): changes users' SCRAM credentials (KIP-554). */
import { api, array, bytes, int16, int32, int8, string } from '../schema.ts'

export const AlterUserScramCredentials = api({
  key: 51,
  name: 'AlterUserScramCredentials',
  versions: [0, 0],
  flexible: 0,
  to: 'controller',
  request: {
    deletions: array({
      name: string(),
      mechanism: int8()
    }),
    upsertions: array({
      name: string(),
      mechanism: int8(),
      iterations: int32(),
      salt: bytes(),
      saltedPassword: bytes()
    })
  },
  response: {
    throttleTimeMs: int32(),
    results: array({
      user: string(),
      errorCode: int16(),
      errorMessage: string({ nullable: 0 })
    })
  }
})
