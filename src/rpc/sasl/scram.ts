/**
 * SCRAM (RFC 5802, RFC 7677): proves that both sides know the password without showing it. The broker proves
 * itself too: its signature is checked, so that nobody between can play the broker.
 *
 * A hostile broker chooses the iteration count: too few would let it try passwords cheaply against our proof,
 * too many would keep a thread busy for hours (security.md S6).
 */
import { equalInConstantTime } from '../../base/constant-time.ts'
import type { Cpu } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { printable } from '../../base/printable.ts'
import type { Secret } from '../../base/secret.ts'
import type { Sasl } from './sasl.ts'
import {
  type ScramMechanism,
  exclusiveOr,
  fewestIterations,
  hashOf,
  mostIterations,
  scramKeys
} from './scram-keys.ts'

const nonceBytes = 24
const longestQuote = 200
/** No channel binding, no other identity to act as. */
const gs2Header = 'n,,'

export function scram(mechanism: ScramMechanism, username: string, password: Secret): Sasl {
  return {
    mechanism,
    async authenticate({ cpu }, say) {
      // Base64 has no comma.
      const nonce = cpu.randomBytes(nonceBytes).toString('base64')
      const clientFirst = `n=${saslName(username)},r=${nonce}`
      const serverFirst = text(await say(Buffer.from(gs2Header + clientFirst)))
      const challenge = readChallenge(serverFirst, nonce)
      const binding = Buffer.from(gs2Header).toString('base64')
      const clientFinal = `c=${binding},r=${challenge.nonce}`
      const transcript = Buffer.from(`${clientFirst},${serverFirst},${clientFinal}`)
      const { proof, serverSignature } = await prove(
        cpu,
        mechanism,
        password,
        challenge,
        transcript
      )
      const final = text(await say(Buffer.from(`${clientFinal},p=${proof.toString('base64')}`)))
      checkServer(final, serverSignature)
    }
  }
}

interface Challenge {
  readonly nonce: string
  readonly salt: Buffer
  readonly iterations: number
}

/** Strictly `r=…,s=…,i=…`; extensions may follow, but not a mandatory one (`m=` would stand first). */
function readChallenge(message: string, clientNonce: string): Challenge {
  const parts =
    /^r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/]+={0,2}),i=([1-9][0-9]{0,9})(?:,|$)/.exec(message)
  const [, nonce, salt, count] = parts ?? []
  if (nonce === undefined || salt === undefined || count === undefined) {
    throw refuse(`its first message makes no sense${serverError(message)}`)
  }
  if (!nonce.startsWith(clientNonce) || nonce.length === clientNonce.length) {
    throw refuse('its nonce does not extend ours: the exchange is a replay')
  }
  const iterations = Number(count)
  if (iterations < fewestIterations || iterations > mostIterations) {
    const range = `${fewestIterations} to ${mostIterations}`
    throw refuse(`it asks for ${iterations} iterations, and only ${range} are taken`)
  }
  return { nonce, salt: Buffer.from(salt, 'base64'), iterations }
}

async function prove(
  cpu: Cpu,
  mechanism: ScramMechanism,
  password: Secret,
  { salt, iterations }: Challenge,
  transcript: Buffer
): Promise<{ readonly proof: Buffer; readonly serverSignature: Buffer }> {
  const hash = hashOf(mechanism)
  const keys = await scramKeys(cpu, mechanism, password, salt, iterations)
  const proof = exclusiveOr(keys.clientKey, cpu.hmac(hash, keys.storedKey, transcript))
  return { proof, serverSignature: cpu.hmac(hash, keys.serverKey, transcript) }
}

function checkServer(message: string, expected: Buffer): void {
  const [, signature] = /^v=([A-Za-z0-9+/]+={0,2})(?:,|$)/.exec(message) ?? []
  if (signature === undefined) {
    throw refuse(`its last message makes no sense${serverError(message)}`)
  }
  if (!equalInConstantTime(Buffer.from(signature, 'base64'), expected)) {
    throw refuse('it does not know the password either: it may not be the broker it seems')
  }
}

/** `=` and `,` have a meaning in SCRAM. */
function saslName(username: string): string {
  return username.replaceAll('=', '=3D').replaceAll(',', '=2C')
}

function text(bytes: Buffer): string {
  return bytes.toString('utf8')
}

function serverError(message: string): string {
  const [, error] = /^e=([^,]*)/.exec(message) ?? []
  return error === undefined ? '' : `: ${printable(error).slice(0, longestQuote)}`
}

function refuse(why: string): PlayheadError {
  return new PlayheadError('AUTHENTICATION_FAILED', `SCRAM: the broker is refused: ${why}`)
}
