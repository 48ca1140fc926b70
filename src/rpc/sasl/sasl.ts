/**
 * SASL: how a connection proves who it is. A mechanism is one async function: it says bytes and gets the
 * broker's answer, until it is content. Everything secret is a `Secret` from the moment the options are read.
 */
import type { Env } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { Secret } from '../../base/secret.ts'
import { type SaslBroker, type SaslMechanism, custom } from './custom.ts'
import { type OauthToken, oauthbearer } from './oauthbearer.ts'
import { plain } from './plain.ts'
import { scram } from './scram.ts'

/** Says bytes to the broker; resolves to its answer, rejects with AUTHENTICATION_FAILED. */
export type Say = (bytes: Buffer) => Promise<Buffer>

export interface Sasl {
  /** By its registered name. */
  readonly mechanism: string
  /** A broker's words, without a secret that it was told and repeats. */
  redact?(words: string): string
  /** Resolves once both sides are content. */
  authenticate(env: Env, say: Say, broker: SaslBroker): Promise<void>
}

/** Who authenticates by a password. */
export interface PasswordOptions {
  /** As it is. */
  readonly username: string
  /** As it is; a `Secret` is not shown when the options are printed. */
  readonly password: string | Secret
}

/** How to authenticate. No mechanism is ever replaced by another. */
export type SaslOptions =
  | (PasswordOptions & {
      readonly mechanism: 'PLAIN'
      /** PLAIN sends the password as it is. Without TLS only when this says so. Default false. */
      readonly allowPlaintext?: boolean | undefined
    })
  | (PasswordOptions & { readonly mechanism: 'SCRAM-SHA-256' | 'SCRAM-SHA-512' })
  | {
      readonly mechanism: 'OAUTHBEARER'
      /** Asked for each authentication: give the same token until it is about to expire. */
      readonly token: () => Promise<OauthToken> | OauthToken
      /** The token is sent as it is. Without TLS only when this says so. Default false. */
      readonly allowPlaintext?: boolean | undefined
    }
  | {
      /** One of your own. */
      readonly mechanism: SaslMechanism
    }

/** Reads the options. Throws INVALID_ARGUMENT, among others when a secret would go over a plain connection. */
export function saslFrom(options: SaslOptions, encrypted: boolean): Sasl {
  if (typeof options.mechanism === 'object') return custom(options.mechanism)
  switch (options.mechanism) {
    case 'PLAIN':
      refuseInTheOpen(options.mechanism, encrypted, options.allowPlaintext)
      return plain(options.username, secret(options.password))
    case 'SCRAM-SHA-256':
    case 'SCRAM-SHA-512':
      return scram(options.mechanism, options.username, secret(options.password))
    case 'OAUTHBEARER':
      refuseInTheOpen(options.mechanism, encrypted, options.allowPlaintext)
      return oauthbearer(options.token)
    default: {
      const { mechanism }: { mechanism: unknown } = options
      throw new PlayheadError(
        'INVALID_ARGUMENT',
        `sasl.mechanism is ${JSON.stringify(mechanism)}: there are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, or one of your own: { name, authenticate }`
      )
    }
  }
}

function secret(password: string | Secret): Secret {
  return typeof password === 'string' ? new Secret(password) : password
}

function refuseInTheOpen(mechanism: string, encrypted: boolean, allowed = false): void {
  if (encrypted || allowed) return
  throw new PlayheadError(
    'INVALID_ARGUMENT',
    `SASL ${mechanism} without TLS shows the secret to the network: set \`tls\`, or \`sasl.allowPlaintext: true\``
  )
}
