/** SaslHandshake (17): names the SASL mechanism that the connection wants. */
import { api, array, int16, string } from '../schema.ts'

export const SaslHandshake = api({
  key: 17,
  name: 'SaslHandshake',
  versions: [0, 1],
  flexible: null,
  to: 'node',
  request: {
    mechanism: string()
  },
  response: {
    errorCode: int16(),
    mechanisms: array(string())
  }
})
