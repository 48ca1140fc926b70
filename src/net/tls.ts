/**
 * What a TLS connection shows and trusts: PEM given as text, or as files. Files are looked at when a connection
 * begins (three `stat`s, microseconds beside a handshake), so that a new connection has the certificate that is there
 * now, without a watcher or timer. What cannot be used, as when certificate and key are replaced one after the other,
 * is told once and changes nothing: what was read before stays, until the files change again.
 */
import type tls from 'node:tls'
import type { Log, TlsOptions } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import { TlsOptionsError, optionsAdvice } from './tls-failure.ts'

/** Loaded when TLS is first spoken: it would cost every import 4 MB and 15 ms. */
export function nodeTls(): typeof tls {
  return process.getBuiltinModule('node:tls')
}

/** As Node takes them. */
export interface Pems {
  readonly ca?: (string | Buffer)[]
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  readonly passphrase?: string
}

/** What was read, and made of it. */
interface Loaded {
  readonly pems: Pems
  readonly context: tls.SecureContext
}

export class Credentials {
  readonly #options: TlsOptions
  readonly #files: readonly string[]
  /** What the files looked like when they were last read. */
  #stamp: string
  #loaded: Loaded

  /** Throws when it is not to be used. */
  constructor(options: TlsOptions) {
    this.#options = options
    this.#files = [...list(options.caFile), ...list(options.certFile), ...list(options.keyFile)]
    this.#stamp = this.#look()
    this.#loaded = load(options)
  }

  get context(): tls.SecureContext {
    return this.#loaded.context
  }

  get pems(): Pems {
    return this.#loaded.pems
  }

  /** Takes what is in the files now. True: it is something new. */
  refresh(log: Log): boolean {
    if (this.#files.length === 0) return false
    const stamp = this.#look()
    if (stamp === this.#stamp) return false
    // Before reading: what changes while it is read is seen the next time.
    this.#stamp = stamp
    try {
      this.#loaded = load(this.#options)
    } catch (cause) {
      const why = whyNot(cause)
      const message = `changed TLS files cannot be used, those read before stay in use: ${why}`
      const error = new PlayheadError('INVALID_ARGUMENT', message, { cause })
      log.error(message, { files: this.#files })
      this.#tell(error, log)
      return false
    }
    log.info('changed TLS files are in use', { files: this.#files })
    this.#tell(null, log)
    return true
  }

  #tell(error: PlayheadError | null, log: Log): void {
    try {
      this.#options.onReload?.(error)
    } catch (thrown) {
      log.error('tls.onReload threw', { error: thrown })
    }
  }

  #look(): string {
    return this.#files.map(stampOf).join(' ')
  }
}

const known = new WeakMap<TlsOptions, Credentials>()

/** Parsing certificates takes milliseconds: once per options object, not per connection. Throws at first, if ever. */
export function credentialsOf(options: TlsOptions, log: Log): Credentials {
  const found = known.get(options)
  if (found !== undefined) {
    found.refresh(log)
    return found
  }
  const made = new Credentials(options)
  known.set(options, made)
  return made
}

/** Authorities for clients' certificates mean that clients must have one. */
export function asksClients({ ca, caFile, insecure }: TlsOptions): boolean {
  return (ca !== undefined || caFile !== undefined) && insecure !== true
}

function whyNot(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return ('code' in error && optionsAdvice(String(error.code))) || error.message
}

function stampOf(file: string): string {
  try {
    // Through links, as a mounted secret is replaced by turning one.
    const { ino, size, mtimeNs, ctimeNs } = process
      .getBuiltinModule('node:fs')
      .statSync(file, { bigint: true })
    return `${ino}:${size}:${mtimeNs}:${ctimeNs}`
  } catch (error) {
    return String(error)
  }
}

function load(options: TlsOptions): Loaded {
  const pems = read(options)
  for (const authority of pems.ca ?? []) checkAuthority(authority)
  return { pems, context: nodeTls().createSecureContext(pems) }
}

function read(options: TlsOptions): Pems {
  const { passphrase } = options
  const ca = [
    ...list(options.ca).map(pem),
    ...list(options.caFile).map(file => content('caFile', file))
  ]
  const cert = one('cert', options.cert, options.certFile)
  const key = one('key', options.key, options.keyFile)
  if ((cert === undefined) !== (key === undefined)) {
    throw new TlsOptionsError(
      `${cert === undefined ? '`key` without `cert`' : '`cert` without `key`'}: they go together`
    )
  }
  return {
    ...(ca.length > 0 && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
    ...(passphrase !== undefined && { passphrase })
  }
}

/** Node would take anything for an authority, and then trust nobody. */
function checkAuthority(authority: string | Buffer): void {
  try {
    ;new (process.getBuiltinModule('node:crypto').X509Certificate)(authority)
  } catch (cause) {
    throw new TlsOptionsError('`ca` holds no certificate in PEM', { cause })
  }
}

function one(
  name: 'cert' | 'key',
  given: string | Uint8Array | undefined,
  file: string | undefined
): string | Buffer | undefined {
  if (given !== undefined && file !== undefined)
    throw new TlsOptionsError(`\`${name}\` and \`${name}File\`: give one of them`)
  return file === undefined ? given && pem(given) : content(`${name}File`, file)
}

function content(option: string, file: string): Buffer {
  try {
    return process.getBuiltinModule('node:fs').readFileSync(file)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new TlsOptionsError(`\`${option}\` ${file} cannot be read: ${code}`, { cause })
  }
}

function pem(bytes: string | Uint8Array): string | Buffer {
  return typeof bytes === 'string' ? bytes : Buffer.from(bytes)
}

function list<T extends string | Uint8Array>(given: T | readonly T[] | undefined): readonly T[] {
  if (given === undefined) return []
  return Array.isArray(given) ? (given as readonly T[]) : [given as T]
}
