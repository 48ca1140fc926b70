/** SaslAuthenticate (36): carries the SASL exchange's bytes. */
import { api, bytes, int16, int64, string } from '../schema.ts'

export const SaslAuthenticate = api({
  key: 36,
  name: 'SaslAuthenticate',
  versions: [0, 2],
  flexible: 2,
  to: 'node',
  request: {
    authBytes: bytes()
  },
  response: {
    errorCode: int16(),
    errorMessage: string({ nullable: 0 }),
    authBytes: bytes(),
    sessionLifetimeMs: int64({ since: 1, default: 0, ignorable: true })
  }
})
