/**
 * What `playhead broker` asks of its clients, by the options that tell a client what to show (access.ts): `--tls-cert` and
 * `--tls-key` are the broker's own, `--tls-ca` signs its clients' certificates, `--sasl` are the mechanisms it offers.
 */
import { statSync } from 'node:fs'
import type { PlayheadError } from '../base/error.ts'
import { Secret } from '../base/secret.ts'
import type { BrokerSaslOptions, StartOptions, UserOptions, UserSecret } from '../broker.ts'
import {
  type AccessOptions,
  type Environment,
  type MechanismName,
  contentOf,
  tlsOf,
  wrong
} from './access.ts'
import type { Terminal } from './terminal.ts'

export interface BrokerAccessOptions extends AccessOptions {
  readonly users?: string
  readonly sessionLifetime?: number
}

/** Throws INVALID_ARGUMENT for what is missing or can't be read. */
export function brokerAccessOf(
  options: BrokerAccessOptions,
  terminal: Terminal,
  environment: Environment = process.env
): Pick<StartOptions, 'tls' | 'sasl'> {
  const tls = tlsOf(options)
  if (tls !== undefined && tls.certFile === undefined) {
    throw wrong('a broker that speaks TLS wants --tls-cert and --tls-key')
  }
  const sasl = saslOf(options, terminal, environment)
  return { ...(tls !== undefined && { tls }), ...(sasl !== undefined && { sasl }) }
}

function saslOf(
  options: BrokerAccessOptions,
  terminal: Terminal,
  environment: Environment
): BrokerSaslOptions | undefined {
  const { sasl: mechanisms, username, users: file, sessionLifetime } = options
  if (mechanisms === undefined) {
    const odd = username !== undefined ? '--username' : file !== undefined ? '--users' : undefined
    if (odd === undefined) return undefined
    throw wrong(`${odd} wants --sasl, as SCRAM-SHA-512 or SCRAM-SHA-256,SCRAM-SHA-512,PLAIN`)
  }
  if (mechanisms.includes('OAUTHBEARER')) {
    throw wrong(
      'OAUTHBEARER wants a function that looks at tokens: see `sasl.oauthbearer` of Broker.start()'
    )
  }
  const users = {
    ...(file !== undefined && usersIn(file, terminal)),
    ...ownUser(username, environment)
  }
  if (Object.keys(users).length === 0) {
    throw wrong('--sasl wants --username, with the password in PLAYHEAD_PASSWORD, or --users FILE')
  }
  return {
    users,
    mechanisms: mechanisms.filter(
      (name): name is Exclude<MechanismName, 'OAUTHBEARER'> => name !== 'OAUTHBEARER'
    ),
    allowPlaintext: options.allowPlaintext,
    ...(sessionLifetime !== undefined && { sessionLifetimeMs: sessionLifetime * 1_000 })
  }
}

function ownUser(
  username: string | undefined,
  { PLAYHEAD_PASSWORD: password }: Environment
): UserOptions {
  if (username === undefined) return {}
  if (password === undefined) throw wrong('--username wants the password in PLAYHEAD_PASSWORD')
  return Object.fromEntries([[username, new Secret(password)]])
}

/** `{ "alice": "her password", "bob": { "SCRAM-SHA-512": "salt=…" } }`. Nothing of it is ever shown. */
function usersIn(file: string, terminal: Terminal): UserOptions {
  const text = contentOf('--users', file)
  if ((statSync(file).mode & 0o077) !== 0) {
    terminal.note(`warning: ${file} holds passwords and can be read by others: chmod 600 it`)
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // What JSON.parse says may quote a password.
    throw notUsers(file)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw notUsers(file)
  const users = Object.entries(value).map(([name, secret]: [string, unknown]) => {
    return [name, userSecret(secret) ?? fail(notUsers(file))] as const
  })
  return Object.fromEntries(users)
}

function userSecret(secret: unknown): UserSecret | undefined {
  if (typeof secret === 'string') return new Secret(secret)
  if (typeof secret !== 'object' || secret === null) return undefined
  return Object.values(secret).every(text => typeof text === 'string') ? secret : undefined
}

function fail(error: PlayheadError): never {
  throw error
}

function notUsers(file: string): PlayheadError {
  return wrong(
    `--users ${file} is not {"alice": "password", "bob": {"SCRAM-SHA-512": "salt=…"}} in JSON`
  )
}
