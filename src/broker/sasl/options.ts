/** What the embedded broker is told about who may come in. */
import type { Env } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import type { TokenValidator } from './oauthbearer.ts'
import { oauthbearerExchange } from './oauthbearer.ts'
import type { Exchange } from './exchange.ts'
import { plainExchange } from './plain.ts'
import { scramExchange } from './scram.ts'
import { type UserOptions, Users } from './users.ts'

/** A mechanism that the embedded broker can speak, by its registered name. */
export type BrokerMechanism = 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512' | 'OAUTHBEARER'

const mechanismNames: readonly BrokerMechanism[] = [
  'PLAIN',
  'SCRAM-SHA-256',
  'SCRAM-SHA-512',
  'OAUTHBEARER'
]

/** Who may come in: `users` by a password, or whom `oauthbearer` lets in by a token, or both. */
export interface BrokerSaslOptions {
  /** By name: the password, or what `scramCredential` made of it. */
  readonly users?: UserOptions | undefined
  /** Says whose a token is, or throws. Its clients come in by OAUTHBEARER. */
  readonly oauthbearer?: TokenValidator | undefined
  /**
   * What clients may choose from. Default: all that `users` and `oauthbearer` allow; but PLAIN, which shows the
   * password to the network, only with TLS or on loopback.
   */
  readonly mechanisms?: readonly BrokerMechanism[] | undefined
  /**
   * After so long a client must prove again who it is, or its connection ends (KIP-368, Kafka's
   * `connections.max.reauth.ms`). A token that ends earlier ends the session earlier. Default: never.
   */
  readonly sessionLifetimeMs?: number | undefined
  /** Offers PLAIN and OAUTHBEARER without TLS beyond loopback too. Default false. */
  readonly allowPlaintext?: boolean | undefined
  /** Who may rewind groups, by name; others get GROUP_AUTHORIZATION_FAILED. Default: everyone who came in. */
  readonly rewinders?: readonly string[] | undefined
}

/** The same, read and checked. */
export interface SaslSettings {
  /** How an exchange begins, by the mechanism's name. */
  readonly mechanisms: ReadonlyMap<string, () => Exchange>
  readonly sessionLifetimeMs: number
  readonly rewinders: ReadonlySet<string> | null
}

/** Throws INVALID_ARGUMENT. `sheltered`: what is sent as it is, is seen by nobody, thanks to TLS or loopback. */
export function readSasl(env: Env, options: BrokerSaslOptions, sheltered: boolean): SaslSettings {
  const users = new Users(env.cpu, options.users ?? {})
  const { oauthbearer: validate, sessionLifetimeMs = Infinity, allowPlaintext = false } = options
  if (!(sessionLifetimeMs >= 1_000)) {
    throw wrong(`sessionLifetimeMs is ${sessionLifetimeMs}: at least 1,000`)
  }
  const able: Record<BrokerMechanism, (() => Exchange) | false> = {
    PLAIN: users.size > 0 && (() => plainExchange(users)),
    'SCRAM-SHA-256':
      users.offer('SCRAM-SHA-256') && (() => scramExchange(env.cpu, 'SCRAM-SHA-256', users)),
    'SCRAM-SHA-512':
      users.offer('SCRAM-SHA-512') && (() => scramExchange(env.cpu, 'SCRAM-SHA-512', users)),
    OAUTHBEARER: validate !== undefined && (() => oauthbearerExchange(validate))
  }
  const inTheOpen = (name: BrokerMechanism) =>
    (name === 'PLAIN' || name === 'OAUTHBEARER') && !(sheltered || allowPlaintext)
  const wanted =
    options.mechanisms ??
    mechanismNames.filter(name => able[name] && !(name === 'PLAIN' && inTheOpen(name)))
  const mechanisms = new Map<string, () => Exchange>()
  for (const name of wanted) {
    if (!mechanismNames.includes(name))
      throw wrong(`there is no mechanism ${String(name)}: there are ${mechanismNames.join(', ')}`)
    const begin = able[name]
    if (!begin)
      throw wrong(
        `${name} wants ${name === 'OAUTHBEARER' ? 'the function `oauthbearer`' : '`users` that can use it'}`
      )
    if (inTheOpen(name)) {
      throw wrong(
        `${name} without TLS shows secrets to the network: set \`tls\`, or \`allowPlaintext: true\``
      )
    }
    mechanisms.set(name, begin)
  }
  if (mechanisms.size === 0) throw wrong('nobody could come in: give `users`, or `oauthbearer`')
  const rewinders = options.rewinders === undefined ? null : new Set(options.rewinders)
  return { mechanisms, sessionLifetimeMs, rewinders }
}

function wrong(message: string): PlayheadError {
  return new PlayheadError('INVALID_ARGUMENT', `sasl: ${message}`)
}
