/**
 * What is said on a fresh connection before anything else: which versions the broker speaks (KIP-35), then
 * who we are (KIP-152). And who we are again, before the session ends (KIP-368).
 */
import type { Env } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import { printable } from '../base/printable.ts'
import { ApiVersions } from '../protocol/api/api-versions.ts'
import { SaslAuthenticate } from '../protocol/api/sasl-authenticate.ts'
import { SaslHandshake } from '../protocol/api/sasl-handshake.ts'
import { KafkaError, kafkaErrorName } from '../protocol/errors.ts'
import type { Connection } from './connection.ts'
import type { Sasl } from './sasl/sasl.ts'
import { type VersionTable, chooseVersion, versionTable } from './versions.ts'

/** How we call ourselves to brokers. Kafka allows letters, digits, dots and dashes. */
export const clientSoftware = {
  clientSoftwareName: 'playhead',
  clientSoftwareVersion: '0.1.0'
} as const

/** The version that the first question of all is asked in: any that knows it answers, others say so in v0. */
const firstVersion = 4

/** How much of a broker's own words an error repeats, in characters. */
const quotedCharacters = 300

export interface Opened {
  /** 0: as long as the connection. */
  readonly sessionLifetimeMs: number
}

export async function open(connection: Connection, env: Env, sasl: Sasl | null): Promise<Opened> {
  connection.versions = await askVersions(connection)
  return sasl ? await authenticate(connection, env, sasl) : { sessionLifetimeMs: 0 }
}

export async function reauthenticate(
  connection: Connection,
  env: Env,
  sasl: Sasl | null
): Promise<Opened> {
  return sasl ? await authenticate(connection, env, sasl) : { sessionLifetimeMs: 0 }
}

async function askVersions(connection: Connection): Promise<VersionTable> {
  let answer = await connection.ask(ApiVersions, clientSoftware, firstVersion)
  if (answer.errorCode === KafkaError.UNSUPPORTED_VERSION) {
    // Brokers from 2.4 on say with it which versions they know; older ones say nothing, and know 0.
    const range = versionTable(answer.apiKeys).get(ApiVersions.key)
    const version = Math.max(0, Math.min(firstVersion - 1, range?.[1] ?? 0))
    answer = await connection.ask(ApiVersions, clientSoftware, version)
  }
  if (answer.errorCode !== KafkaError.NONE) {
    const kafkaError = kafkaErrorName(answer.errorCode)
    const message = `${connection.place} refused ApiVersions: ${kafkaError}`
    throw new PlayheadError('BROKER_ERROR', message, { kafkaError, retriable: true })
  }
  return versionTable(answer.apiKeys)
}

async function authenticate(connection: Connection, env: Env, sasl: Sasl): Promise<Opened> {
  const { versions, place } = connection
  await handshake(connection, sasl)
  const version = chooseVersion(SaslAuthenticate, versions, place)
  let sessionLifetimeMs = 0
  const { host, port, tls } = connection.address
  const broker = { host, port, encrypted: tls !== undefined }
  await sasl.authenticate(
    env,
    async bytes => {
      const answer = await connection.ask(SaslAuthenticate, { authBytes: bytes }, version)
      if (answer.errorCode !== KafkaError.NONE) {
        const kafkaError = kafkaErrorName(answer.errorCode)
        const reason = printable(redact(sasl, answer.errorMessage ?? kafkaError)).slice(
          0,
          quotedCharacters
        )
        throw refused(connection, sasl, reason, kafkaError)
      }
      sessionLifetimeMs = answer.sessionLifetimeMs
      return answer.authBytes
    },
    broker
  )
  return { sessionLifetimeMs }
}

/** Version 1: what follows is SaslAuthenticate, not bare SASL bytes. There is no fall-back (security.md S6). */
async function handshake(connection: Connection, sasl: Sasl): Promise<void> {
  const version = chooseVersion(SaslHandshake, connection.versions, connection.place, 1)
  const answer = await connection.ask(SaslHandshake, { mechanism: sasl.mechanism }, version)
  if (answer.errorCode === KafkaError.NONE) return
  const kafkaError = kafkaErrorName(answer.errorCode)
  const offered = printable(answer.mechanisms.join(', ')).slice(0, quotedCharacters)
  const reason =
    answer.errorCode === KafkaError.UNSUPPORTED_SASL_MECHANISM
      ? `it offers ${offered || 'none'}`
      : kafkaError
  throw refused(connection, sasl, reason, kafkaError)
}

function redact(sasl: Sasl, words: string): string {
  return sasl.redact?.(words) ?? words
}

function refused(
  { place }: Connection,
  sasl: Sasl,
  reason: string,
  kafkaError: string
): PlayheadError {
  const message = `${place} refused SASL ${sasl.mechanism}: ${reason}`
  return new PlayheadError('AUTHENTICATION_FAILED', message, { kafkaError })
}
