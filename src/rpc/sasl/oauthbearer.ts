/** OAUTHBEARER (RFC 7628, KIP-255): a token from somewhere else, handed over as it is. */
import { PlayheadError } from '../../base/error.ts'
import { printable } from '../../base/printable.ts'
import { Secret } from '../../base/secret.ts'
import type { Sasl } from './sasl.ts'

/** What OAUTHBEARER sends (KIP-255). */
export interface OauthToken {
  /** The bearer token itself. */
  readonly token: string | Secret
  /** SASL extensions, as `logicalCluster` at Confluent. Names are letters only. */
  readonly extensions?: Readonly<Record<string, string>> | undefined
}

const separator = '\x01'
const longestQuote = 300

export function oauthbearer(provide: () => Promise<OauthToken> | OauthToken): Sasl {
  let shown = new Secret('')
  return {
    mechanism: 'OAUTHBEARER',
    redact: words => shown.hideIn(words),
    async authenticate(_env, say) {
      const given = await ask(provide)
      shown = typeof given.token === 'string' ? new Secret(given.token) : given.token
      const answer = await say(Buffer.from(message(given)))
      if (answer.length === 0) return
      // A refusal comes as JSON, is acknowledged with one byte, and then the exchange fails (RFC 7628, 3.2.3).
      const reason = printable(shown.hideIn(answer.toString('utf8'))).slice(0, longestQuote)
      const told = `OAUTHBEARER: the token is refused: ${reason}`
      let cause: unknown
      try {
        await say(Buffer.from(separator))
      } catch (error) {
        cause = error
      }
      throw new PlayheadError('AUTHENTICATION_FAILED', told, { cause })
    }
  }
}

async function ask(provide: () => Promise<OauthToken> | OauthToken): Promise<OauthToken> {
  try {
    return await provide()
  } catch (cause) {
    // Its words are not repeated: they may hold what they should not.
    throw new PlayheadError('AUTHENTICATION_FAILED', 'sasl.token() failed: see `cause`', { cause })
  }
}

function message({ token, extensions = {} }: OauthToken): string {
  const secret = token instanceof Secret ? token.reveal() : token
  if (!/^[\x21-\x7e]+$/.test(secret)) {
    throw new PlayheadError(
      'INVALID_ARGUMENT',
      'sasl.token() gave no token: visible ASCII, not empty'
    )
  }
  let text = `n,,${separator}auth=Bearer ${secret}${separator}`
  for (const [name, value] of Object.entries(extensions)) {
    if (!/^[A-Za-z]+$/.test(name) || name === 'auth' || !/^[\x20-\x7e\t\r\n]*$/.test(value)) {
      throw new PlayheadError('INVALID_ARGUMENT', `sasl.token(): '${name}' is no SASL extension`)
    }
    text += `${name}=${value}${separator}`
  }
  return text + separator
}
