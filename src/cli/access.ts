/**
 * How to get into a cluster that doesn't let everybody in: TLS and SASL. A password or token never stands on the command
 * line, where other users and the shell's history see it: it comes from PLAYHEAD_PASSWORD or PLAYHEAD_TOKEN. The same
 * options tell `playhead broker` what to ask of its clients (broker-access.ts).
 */
import { readFileSync } from 'node:fs'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { PlayheadError } from '../base/error.ts'
import { Secret } from '../base/secret.ts'
import {
  clientCredentials,
  type OauthToken,
  type PlayheadOptions,
  type SaslOptions,
  type TlsOptions
} from '../index.ts'

const mechanisms = ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512', 'OAUTHBEARER'] as const
export type MechanismName = (typeof mechanisms)[number]

export interface AccessOptions {
  readonly tls?: boolean
  readonly tlsCa?: string
  readonly tlsCert?: string
  readonly tlsKey?: string
  readonly sasl?: readonly MechanismName[]
  readonly username?: string
  readonly tokenEndpoint?: string
  readonly scope?: string
  readonly allowPlaintext?: boolean
}

/** What never stands on the command line. */
export interface Environment {
  readonly PLAYHEAD_PASSWORD?: string | undefined
  readonly PLAYHEAD_TOKEN?: string | undefined
}

export function addAccessOptions(root: Command): Command {
  return root
    .option(
      '--tls',
      "speak TLS, and trust the authorities that Node comes with; each 'tls-' option implies it"
    )
    .option('--tls-ca <file>', 'trust these authorities instead (PEM)')
    .option('--tls-cert <file>', 'show this certificate (PEM); with --tls-key')
    .option('--tls-key <file>', "the certificate's private key (PEM)")
    .addOption(
      new Option(
        '--sasl <mechanism>',
        `authenticate: ${mechanisms.join(', ')}; the password is in PLAYHEAD_PASSWORD`
      ).argParser(readMechanisms)
    )
    .option('--username <name>', 'who authenticates; with --token-endpoint the id of a client')
    .option(
      '--token-endpoint <url>',
      'get tokens for OAUTHBEARER there; else PLAYHEAD_TOKEN is one'
    )
    .option('--scope <text>', 'what to ask the token endpoint for')
    .option('--allow-plaintext', 'let PLAIN and OAUTHBEARER show their secret, without TLS')
}

/** What of it a client takes. Throws INVALID_ARGUMENT for what is missing or can't be read. */
export function accessOf(
  options: AccessOptions,
  environment: Environment = process.env
): Pick<PlayheadOptions, 'tls' | 'sasl'> {
  const tls = tlsOf(options)
  const sasl = saslOf(options, environment)
  return { ...(tls !== undefined && { tls }), ...(sasl !== undefined && { sasl }) }
}

function readMechanisms(text: string): MechanismName[] {
  return text.split(',').map(name => {
    const found = mechanisms.find(mechanism => mechanism === name.trim().toUpperCase())
    if (found === undefined)
      throw new InvalidArgumentError(`Allowed choices are ${mechanisms.join(', ')}.`)
    return found
  })
}

/** Files, not what is in them: a long-running command takes up renewed certificates. */
export function tlsOf({ tls, tlsCa, tlsCert, tlsKey }: AccessOptions): TlsOptions | undefined {
  if (!tls && tlsCa === undefined && tlsCert === undefined && tlsKey === undefined) return undefined
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    throw wrong('--tls-cert and --tls-key go together')
  }
  return {
    ...(tlsCa !== undefined && { caFile: readable('--tls-ca', tlsCa) }),
    ...(tlsCert !== undefined && { certFile: readable('--tls-cert', tlsCert) }),
    ...(tlsKey !== undefined && { keyFile: readable('--tls-key', tlsKey) })
  }
}

function saslOf(options: AccessOptions, environment: Environment): SaslOptions | undefined {
  const { sasl, username, allowPlaintext = false, tokenEndpoint } = options
  if (sasl === undefined) {
    if (username === undefined && tokenEndpoint === undefined) return undefined
    const odd = username === undefined ? '--token-endpoint' : '--username'
    throw wrong(`${odd} wants --sasl, one of ${mechanisms.join(', ')}`)
  }
  const [mechanism, ...more] = sasl
  if (mechanism === undefined || more.length > 0) throw wrong('--sasl wants one mechanism here')
  if (mechanism === 'OAUTHBEARER') {
    return { mechanism, token: tokenProvider(options, environment), allowPlaintext }
  }
  const who = whoOf(username, environment)
  return mechanism === 'PLAIN' ? { mechanism, ...who, allowPlaintext } : { mechanism, ...who }
}

function whoOf(username: string | undefined, { PLAYHEAD_PASSWORD: password }: Environment) {
  if (username === undefined) throw wrong('--sasl wants --username')
  if (password === undefined) throw wrong('--sasl wants the password in PLAYHEAD_PASSWORD')
  return { username, password: new Secret(password) }
}

function tokenProvider(
  { tokenEndpoint, username, scope }: AccessOptions,
  environment: Environment
): () => Promise<OauthToken> | OauthToken {
  if (tokenEndpoint !== undefined) {
    const { username: clientId, password: clientSecret } = whoOf(username, environment)
    return clientCredentials({ tokenEndpoint, clientId, clientSecret, scope })
  }
  const { PLAYHEAD_TOKEN: text } = environment
  if (text === undefined) {
    throw wrong('--sasl OAUTHBEARER wants --token-endpoint, or the token in PLAYHEAD_TOKEN')
  }
  const token = new Secret(text)
  return () => ({ token })
}

function readable(option: string, file: string): string {
  contentOf(option, file)
  return file
}

export function contentOf(option: string, file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new PlayheadError('INVALID_ARGUMENT', `${option} ${file} can't be read: ${code}`, {
      cause
    })
  }
}

export function wrong(message: string): PlayheadError {
  return new PlayheadError('INVALID_ARGUMENT', message)
}
