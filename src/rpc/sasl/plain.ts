/** PLAIN (RFC 4616): name and password, as they are. */
import { PlayheadError } from '../../base/error.ts'
import type { Secret } from '../../base/secret.ts'
import type { Sasl } from './sasl.ts'

export function plain(username: string, password: Secret): Sasl {
  return {
    mechanism: 'PLAIN',
    redact: words => password.hideIn(words),
    async authenticate(_env, say) {
      const secret = password.reveal()
      if (username.includes('\0') || secret.includes('\0')) {
        throw new PlayheadError('INVALID_ARGUMENT', 'SASL PLAIN cannot carry a NUL character')
      }
      await say(Buffer.from(`\0${username}\0${secret}`))
    }
  }
}
