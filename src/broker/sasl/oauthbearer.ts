/** OAUTHBEARER (RFC 7628, KIP-255), the broker's half: what a token is worth, a function of the user's says. */
import { type Exchange, Refused } from './exchange.ts'

/** Whose a token is. */
export interface TokenIdentity {
  /** Who came in by it. */
  readonly principal: string
  /** When it ends, ms since 1970: the client must show another by then. Default: it doesn't. */
  readonly expiresAt?: number | undefined
}

/**
 * Says whose a token is, or throws: then the client is refused, and what was thrown is told to nobody, as it might
 * quote the token. Check the signature, the issuer, the audience and the time.
 */
export type TokenValidator = (
  token: string,
  extensions: ReadonlyMap<string, string>
) => Promise<TokenIdentity> | TokenIdentity

const separator = '\x01'
const refusal = Buffer.from('{"status":"invalid_token"}')

export function oauthbearerExchange(validate: TokenValidator): Exchange {
  let refused = false
  return async said => {
    // A refusal is answered, acknowledged by one byte, and then the exchange fails (RFC 7628, 3.2.3).
    if (refused) throw new Refused('the token is refused')
    const { token, extensions } = readMessage(said.toString('utf8'))
    const identity = await ask(validate, token, extensions)
    if (identity === undefined) {
      refused = true
      return { answer: refusal, identity: null }
    }
    const { principal, expiresAt = Infinity } = identity
    return { answer: Buffer.alloc(0), identity: { name: principal, expiresAt } }
  }
}

async function ask(
  validate: TokenValidator,
  token: string,
  extensions: ReadonlyMap<string, string>
): Promise<TokenIdentity | undefined> {
  try {
    const identity = await validate(token, extensions)
    return typeof identity?.principal === 'string' && identity.principal !== ''
      ? identity
      : undefined
  } catch {
    return undefined
  }
}

function readMessage(message: string) {
  const [, fields] = /^[ny],(?:a=[^,]*)?,\x01(.*)\x01\x01$/s.exec(message) ?? []
  const extensions = new Map<string, string>()
  for (const field of fields?.split(separator) ?? []) {
    const at = field.indexOf('=')
    extensions.set(field.slice(0, at), field.slice(at + 1))
  }
  const [, token] = /^Bearer +([\x21-\x7e]+)$/i.exec(extensions.get('auth') ?? '') ?? []
  if (token === undefined) throw new Refused('that is no OAUTHBEARER message')
  extensions.delete('auth')
  return { token, extensions }
}
