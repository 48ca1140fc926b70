/**
 * Who may come in by a password. A user is given by the password, or by what SCRAM keeps of one, written as Kafka
 * writes it; in either case nothing here can be printed.
 */
import { equalInConstantTime } from '../../base/constant-time.ts'
import type { Cpu } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { Secret } from '../../base/secret.ts'
import {
  type ScramMechanism,
  fewestIterations,
  hashOf,
  mostIterations,
  scramKeys
} from '../../rpc/sasl/scram-keys.ts'

/** What a broker keeps of a password for SCRAM, as text: 'salt=…,stored_key=…,server_key=…,iterations=4096'. */
export type ScramCredential = string

/** A password, or for each mechanism what `scramCredential` makes of one. */
export type UserSecret =
  | string
  | Secret
  | { readonly [mechanism in ScramMechanism]?: ScramCredential | undefined }

/** By name. */
export type UserOptions = { readonly [name: string]: UserSecret }

/** What the broker's half of SCRAM works with. */
export interface StoredKeys {
  readonly salt: Buffer
  readonly iterations: number
  readonly storedKey: Buffer
  readonly serverKey: Buffer
}

const saltBytes = 24

/**
 * What a broker has to keep of a password for SCRAM: for `users`, so that the password itself need not lie anywhere.
 * It is also what Kafka stores, and what `kafka-storage format --add-scram` takes in its brackets.
 */
export async function credentialText(
  cpu: Cpu,
  mechanism: ScramMechanism,
  password: Secret,
  iterations = fewestIterations
): Promise<ScramCredential> {
  if (!Number.isInteger(iterations) || !areIterations(iterations)) {
    const range = `${fewestIterations} to ${mostIterations}`
    throw new PlayheadError('INVALID_ARGUMENT', `iterations is ${iterations}: ${range} are taken`)
  }
  const { salt, storedKey, serverKey } = await derive(cpu, mechanism, password, iterations)
  const base64 = (bytes: Buffer) => bytes.toString('base64')
  return `salt=${base64(salt)},stored_key=${base64(storedKey)},server_key=${base64(serverKey)},iterations=${iterations}`
}

export class Users {
  readonly #cpu: Cpu
  readonly #users = new Map<string, User>()
  /** Makes salts for users that there are not: the same for each, as for those that there are. */
  readonly #decoy: Buffer

  /** Throws INVALID_ARGUMENT. */
  constructor(cpu: Cpu, options: UserOptions) {
    this.#cpu = cpu
    this.#decoy = cpu.randomBytes(32)
    for (const [name, secret] of Object.entries(options)) {
      if (name === '') throw new PlayheadError('INVALID_ARGUMENT', 'sasl.users: a name is empty')
      this.#users.set(name, new User(cpu, name, secret))
    }
  }

  get size(): number {
    return this.#users.size
  }

  /** Whether somebody can use it: users that are given by a credential have one mechanism only. */
  offer(mechanism: ScramMechanism): boolean {
    for (const user of this.#users.values()) if (user.has(mechanism)) return true
    return false
  }

  /** `known` false: keys that no password fits, so that the exchange goes on as for a user that there is. */
  async keys(
    name: string,
    mechanism: ScramMechanism
  ): Promise<{ readonly keys: StoredKeys; readonly known: boolean }> {
    const keys = await this.#users.get(name)?.keys(mechanism)
    if (keys !== undefined) return { keys, known: true }
    const hash = hashOf(mechanism)
    const salt = this.#cpu.hmac(hash, this.#decoy, Buffer.from(name)).subarray(0, saltBytes)
    const key = this.#cpu.randomBytes(hash === 'sha256' ? 32 : 64)
    const decoy = { salt, iterations: fewestIterations, storedKey: key, serverKey: key }
    return { keys: decoy, known: false }
  }

  /** Takes as long for a wrong name as for a wrong password. */
  async accepts(name: string, password: Secret): Promise<boolean> {
    const mechanism = this.#users.get(name)?.mechanism ?? 'SCRAM-SHA-256'
    const { keys, known } = await this.keys(name, mechanism)
    const made = await scramKeys(this.#cpu, mechanism, password, keys.salt, keys.iterations)
    return equalInConstantTime(made.storedKey, keys.storedKey) && known
  }
}

class User {
  readonly #cpu: Cpu
  readonly #password: Secret | undefined
  readonly #keys = new Map<ScramMechanism, Promise<StoredKeys>>()

  constructor(cpu: Cpu, name: string, secret: UserSecret) {
    this.#cpu = cpu
    if (typeof secret === 'string' || secret instanceof Secret) {
      this.#password = typeof secret === 'string' ? new Secret(secret) : secret
      if (this.#password.reveal() === '') throw wrong(name, 'the password is empty')
      return
    }
    for (const mechanism of ['SCRAM-SHA-256', 'SCRAM-SHA-512'] as const) {
      const text = secret[mechanism]
      if (text !== undefined) {
        this.#keys.set(mechanism, Promise.resolve(readCredential(name, mechanism, text)))
      }
    }
    if (this.#keys.size === 0) throw wrong(name, 'give a password, or a credential for SCRAM')
  }

  has(mechanism: ScramMechanism): boolean {
    return this.#password !== undefined || this.#keys.has(mechanism)
  }

  /** By which a password that is shown can be checked. */
  get mechanism(): ScramMechanism {
    return this.has('SCRAM-SHA-256') ? 'SCRAM-SHA-256' : 'SCRAM-SHA-512'
  }

  /** Derived when first asked for: it takes milliseconds, and most users of a test never log in. */
  keys(mechanism: ScramMechanism): Promise<StoredKeys> | undefined {
    let keys = this.#keys.get(mechanism)
    if (keys === undefined && this.#password !== undefined) {
      keys = derive(this.#cpu, mechanism, this.#password, fewestIterations)
      this.#keys.set(mechanism, keys)
    }
    return keys
  }
}

async function derive(
  cpu: Cpu,
  mechanism: ScramMechanism,
  password: Secret,
  iterations: number
): Promise<StoredKeys> {
  const salt = cpu.randomBytes(saltBytes)
  const { storedKey, serverKey } = await scramKeys(cpu, mechanism, password, salt, iterations)
  return { salt, iterations, storedKey, serverKey }
}

function readCredential(
  name: string,
  mechanism: ScramMechanism,
  text: ScramCredential
): StoredKeys {
  const fields = new Map(
    text
      .replace(/^\[(.*)\]$/, '$1')
      .split(',')
      .map(part => {
        const at = part.indexOf('=')
        return [part.slice(0, at).trim(), part.slice(at + 1).trim()] as const
      })
  )
  const bytes = (field: string) => Buffer.from(fields.get(field) ?? '', 'base64')
  const iterations = Number(fields.get('iterations'))
  const keys = {
    salt: bytes('salt'),
    iterations,
    storedKey: bytes('stored_key'),
    serverKey: bytes('server_key')
  }
  const keyBytes = hashOf(mechanism) === 'sha256' ? 32 : 64
  const fits =
    keys.salt.length > 0 &&
    keys.storedKey.length === keyBytes &&
    keys.serverKey.length === keyBytes &&
    areIterations(iterations)
  // The text itself is not repeated: who has it can play the broker, and try passwords at leisure.
  if (!fits) throw wrong(name, `that is no credential for ${mechanism}: see scramCredential()`)
  return keys
}

function areIterations(count: number): boolean {
  return count >= fewestIterations && count <= mostIterations
}

function wrong(name: string, what: string): PlayheadError {
  return new PlayheadError('INVALID_ARGUMENT', `sasl.users: ${JSON.stringify(name)}: ${what}`)
}
