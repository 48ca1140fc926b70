/**
 * How to get into a cluster that doesn't let everybody in: TLS and SASL. A password never stands on the command line, where
 * other users and the shell's history see it: it comes from PLAYHEAD_PASSWORD.
 */
import { readFileSync } from 'node:fs'
import { type Command, Option } from 'commander'
import { PlayheadError } from '../base/error.ts'
import { Secret } from '../base/secret.ts'
import type { PlayheadOptions, SaslOptions, TlsOptions } from '../index.ts'

const mechanisms = ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'] as const

export interface AccessOptions {
  readonly tls?: boolean
  readonly tlsCa?: string
  readonly tlsCert?: string
  readonly tlsKey?: string
  readonly sasl?: (typeof mechanisms)[number]
  readonly username?: string
  readonly allowPlaintext?: boolean
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
        'authenticate; the password is in PLAYHEAD_PASSWORD'
      ).choices(mechanisms)
    )
    .option('--username <name>', 'who authenticates')
    .option('--allow-plaintext', 'let PLAIN show the password to the network, without TLS')
}

/** What of it a client takes. Throws INVALID_ARGUMENT for what is missing or can't be read. */
export function accessOf(
  options: AccessOptions,
  password = process.env.PLAYHEAD_PASSWORD
): Pick<PlayheadOptions, 'tls' | 'sasl'> {
  const tls = tlsOf(options)
  const sasl = saslOf(options, password)
  return { ...(tls !== undefined && { tls }), ...(sasl !== undefined && { sasl }) }
}

function tlsOf({ tls, tlsCa, tlsCert, tlsKey }: AccessOptions): TlsOptions | undefined {
  if (!tls && tlsCa === undefined && tlsCert === undefined && tlsKey === undefined) return undefined
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    throw wrong('--tls-cert and --tls-key go together')
  }
  return {
    ...(tlsCa !== undefined && { ca: contentOf('--tls-ca', tlsCa) }),
    ...(tlsCert !== undefined && { cert: contentOf('--tls-cert', tlsCert) }),
    ...(tlsKey !== undefined && { key: contentOf('--tls-key', tlsKey) })
  }
}

function saslOf(options: AccessOptions, password: string | undefined): SaslOptions | undefined {
  const { sasl: mechanism, username, allowPlaintext = false } = options
  if (mechanism === undefined) {
    if (username === undefined) return undefined
    throw wrong(`--username wants --sasl, one of ${mechanisms.join(', ')}`)
  }
  if (username === undefined) throw wrong('--sasl wants --username')
  if (password === undefined) throw wrong('--sasl wants the password in PLAYHEAD_PASSWORD')
  const who = { username, password: new Secret(password) }
  return mechanism === 'PLAIN' ? { mechanism, ...who, allowPlaintext } : { mechanism, ...who }
}

function contentOf(option: string, file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new PlayheadError('INVALID_ARGUMENT', `${option} ${file} can't be read: ${code}`, {
      cause
    })
  }
}

function wrong(message: string): PlayheadError {
  return new PlayheadError('INVALID_ARGUMENT', message)
}
