/**
 * SCRAM (RFC 5802, RFC 7677), the broker's half. A user that there is not is led through the same exchange with keys
 * that no password fits. The nonce is new each time and checked in the last message: a recorded exchange is worth
 * nothing (security.md S7).
 */
import { equalInConstantTime } from '../../base/constant-time.ts'
import type { Cpu } from '../../base/env.ts'
import { type ScramMechanism, exclusiveOr, hashOf } from '../../rpc/sasl/scram-keys.ts'
import { type Exchange, Refused, type Step, known } from './exchange.ts'
import type { StoredKeys, Users } from './users.ts'

const nonceBytes = 24

/** What the first round has settled. */
interface Challenge {
  readonly name: string
  readonly known: boolean
  readonly keys: StoredKeys
  readonly gs2Header: string
  readonly nonce: string
  /** Of the signatures: what both said before the last message. */
  readonly transcript: string
}

export function scramExchange(cpu: Cpu, mechanism: ScramMechanism, users: Users): Exchange {
  let challenge: Challenge | undefined
  return async said => {
    const message = said.toString('utf8')
    if (challenge !== undefined) return finish(cpu, mechanism, challenge, message)
    const { gs2Header, bare, name, clientNonce } = readFirst(message)
    const { keys, known } = await users.keys(name, mechanism)
    const nonce = clientNonce + cpu.randomBytes(nonceBytes).toString('base64')
    const answer = `r=${nonce},s=${keys.salt.toString('base64')},i=${keys.iterations}`
    challenge = { name, known, keys, gs2Header, nonce, transcript: `${bare},${answer}` }
    return { answer: Buffer.from(answer), identity: null }
  }
}

/** Channel binding is not offered; a mandatory extension (`m=`) is none that is known. */
function readFirst(message: string) {
  const [, gs2Header, actsAs, bare, saslName, clientNonce] =
    /^([ny],(?:a=([^,]+))?,)(n=([^,]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?)$/.exec(message) ?? []
  if (!gs2Header || !bare || !saslName || !clientNonce) {
    throw new Refused('that is no first message of SCRAM')
  }
  if (actsAs !== undefined && actsAs !== saslName) {
    throw new Refused('nobody may act as somebody else')
  }
  if (/=(?!2C|3D)/.test(saslName)) throw new Refused('that is no name in SCRAM')
  const name = saslName.replaceAll('=2C', ',').replaceAll('=3D', '=')
  return { gs2Header, bare, name, clientNonce }
}

function finish(cpu: Cpu, mechanism: ScramMechanism, challenge: Challenge, message: string): Step {
  const { keys, transcript } = challenge
  const [, unproved, binding, nonce, proof] =
    /^(c=([A-Za-z0-9+/=]+),r=([^,]+)(?:,.*)?),p=([A-Za-z0-9+/]+={0,2})$/.exec(message) ?? []
  if (unproved === undefined || binding === undefined || proof === undefined) {
    throw new Refused('that is no last message of SCRAM')
  }
  if (binding !== Buffer.from(challenge.gs2Header).toString('base64')) {
    throw new Refused('the channel binding is not that of the first message')
  }
  if (nonce !== challenge.nonce) throw new Refused('the nonce is not ours: a replay')
  const hash = hashOf(mechanism)
  const signed = Buffer.from(`${transcript},${unproved}`)
  const signature = cpu.hmac(hash, keys.storedKey, signed)
  const clientKey = exclusiveOr(Buffer.from(proof, 'base64'), signature)
  if (!equalInConstantTime(cpu.hash(hash, clientKey), keys.storedKey) || !challenge.known) {
    throw new Refused('wrong name or password')
  }
  const answer = `v=${cpu.hmac(hash, keys.serverKey, signed).toString('base64')}`
  return { answer: Buffer.from(answer), identity: known(challenge.name) }
}
