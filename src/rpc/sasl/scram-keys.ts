/**
 * What SCRAM makes of a password (RFC 5802, section 3): the same for the side that proves that it knows it and for
 * the side that keeps no password, only what follows from one.
 */
import type { Cpu } from '../../base/env.ts'
import type { Secret } from '../../base/secret.ts'

/** Its hash is in its name. */
export type ScramMechanism = 'SCRAM-SHA-256' | 'SCRAM-SHA-512'

/** Kafka's bounds are 4,096 and 16,384; a client takes more, but not so much that a thread hangs (security.md S6). */
export const fewestIterations = 4_096
export const mostIterations = 1_000_000

export function hashOf(mechanism: ScramMechanism): 'sha256' | 'sha512' {
  return mechanism === 'SCRAM-SHA-256' ? 'sha256' : 'sha512'
}

export interface ScramKeys {
  /** Proves the client. Never leaves it. */
  readonly clientKey: Buffer
  /** By which the broker knows the client. */
  readonly storedKey: Buffer
  /** By which the client knows the broker. */
  readonly serverKey: Buffer
}

export async function scramKeys(
  cpu: Cpu,
  mechanism: ScramMechanism,
  password: Secret,
  salt: Uint8Array,
  iterations: number
): Promise<ScramKeys> {
  const hash = hashOf(mechanism)
  const salted = await cpu.pbkdf2(hash, Buffer.from(password.reveal()), salt, iterations)
  const clientKey = cpu.hmac(hash, salted, Buffer.from('Client Key'))
  return {
    clientKey,
    storedKey: cpu.hash(hash, clientKey),
    serverKey: cpu.hmac(hash, salted, Buffer.from('Server Key'))
  }
}

/** The proof is the client's key under this; whoever has `storedKey` gets the key back, and sees whether it is right. */
export function exclusiveOr(a: Uint8Array, b: Uint8Array): Buffer {
  return Buffer.from(a.map((byte, i) => byte ^ (b[i] ?? 0)))
}
