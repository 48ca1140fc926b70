/**
 * The world, as ports. Everything below the package's entries gets time, chance, sockets, thread-pool
 * work, storage and logging through one `Env` value, so that the real client and the real broker run
 * together under a virtual clock, and a failing run is a seed.
 *
 * Callbacks, not promises, where an event comes from outside: an event is one call into one node.
 */

import type { PlayheadError } from './error.ts'

/** Everything a part of Playhead may ask of the world outside. */
export interface Env {
  /** Time and timers. */
  readonly clock: Clock
  /** Chance: back-offs, choice of a partition. */
  readonly random: Random
  /** Connections. */
  readonly net: Net
  /** Checksums, compression, cryptography. */
  readonly cpu: Cpu
  /** Where messages for a person go. */
  readonly log: Log
}

/** Time. `now` may jump (NTP, an operator); `monotonic` never goes back and is what durations use. */
export interface Clock {
  /** Wall-clock time: whole milliseconds since 1970, UTC. */
  now(): number
  /** Milliseconds, with fractions, since some fixed moment. */
  monotonic(): number
  /** Calls `fire` once, `delayMs` from now, never before this call returned. Keeps the process alive. */
  after(delayMs: number, fire: () => void): Timer
  /** Calls `fire` once, when what is running now and its promise jobs are done; before any timer that is not due yet. */
  soon(fire: () => void): Timer
}

/** Something that will be called. */
export interface Timer {
  /** After this, the callback is never called. Harmless when it already was. */
  cancel(): void
}

/** Chance. Not for secrets: those come from `Cpu.randomBytes`. */
export interface Random {
  /** Uniform in [0, 1). */
  next(): number
}

/** A byte-stream network: TCP, TLS over it, or a simulated one. */
export interface Net {
  /** Begins to connect; `handler` is told how it goes. It does not throw. */
  connect(to: Address, handler: SocketHandler): Socket
  /** Resolves once listening (port 0: a free port is chosen); rejects when the address is not to be had. */
  listen(at: ListenAddress, accept: (socket: Socket) => SocketHandler): Promise<Listener>
}

/** Where to connect. */
export interface Address {
  /** Name or IP address. */
  readonly host: string
  /** From 1 to 65,535. */
  readonly port: number
  /** TLS when present. `servername` defaults to `host`. */
  readonly tls?: TlsOptions | undefined
}

/** Where to listen. */
export interface ListenAddress {
  /** Name or IP address of an interface. */
  readonly host: string
  /** 0: a free one. */
  readonly port: number
  /** TLS when present. */
  readonly tls?: TlsOptions | undefined
}

/** What Node's TLS takes, by its own names; verification is only ever off by `insecure`. */
export interface TlsOptions {
  /**
   * Certificates of authorities to trust, PEM. Default: those that come with Node. A broker that has some wants each
   * client to show a certificate that they signed.
   */
  readonly ca?: string | Uint8Array | readonly (string | Uint8Array)[]
  /** This side's certificate chain, PEM. */
  readonly cert?: string | Uint8Array
  /** The certificate's private key, PEM. */
  readonly key?: string | Uint8Array
  /** The same as files. They may change: new connections use what is in them then. */
  readonly caFile?: string | readonly string[]
  /** File of this side's certificate chain. */
  readonly certFile?: string
  /** File of the certificate's private key. */
  readonly keyFile?: string
  /**
   * Told when changed files were read: null, they are in use; an error, they cannot be used and those from before stay
   * in use. Said in the log too.
   */
  readonly onReload?: (error: PlayheadError | null) => void
  /** Of the key, when it is encrypted. */
  readonly passphrase?: string
  /** The name that the certificate must be for. Default: the host that is dialled. */
  readonly servername?: string
  /** Accept any certificate. Said aloud in the log at each connection's start. */
  readonly insecure?: boolean
}

/**
 * What the owner of a socket is told. Order: `onOpen` (for an accepted socket: never, it is open), any number
 * of `onData` and `onDrain`, then `onClose` exactly once, after which nothing more comes.
 */
export interface SocketHandler {
  /** It is connected: writing may begin. */
  onOpen?(): void
  /** Bytes arrived. `chunk` is only valid during the call: it is a view of a buffer that is used again. */
  onData(chunk: Buffer): void
  /** What `write` had to queue has gone out: writing may go on. */
  onDrain?(): void
  /** The socket is gone, by either side. `error` when it was not an orderly end. */
  onClose(error?: Error): void
}

/** A connection. */
export interface Socket {
  /** The peer's end. */
  readonly remote: { readonly host: string; readonly port: number }
  /** This side's end. */
  readonly local: { readonly host: string; readonly port: number }
  /**
   * Queues the buffers, in order; the network keeps them until they are written, so the caller must
   * not touch them again. False: more is queued than the network likes; wait for `onDrain`.
   * After the close it does nothing and returns true. `written` is called when the network needs none of them any more;
   * never, if it can't tell or the socket ends before.
   */
  write(buffers: readonly Uint8Array[], written?: () => void): boolean
  /** Bytes taken by `write` and not yet handed to the network. */
  readonly queuedBytes: number
  /** No more `onData` until `resume`: back-pressure on the peer. */
  pause(): void
  /** `onData` goes on. */
  resume(): void
  /** Sends what is queued, then ends. `onClose` follows. */
  end(): void
  /** Ends at once; what is queued is lost. `onClose(error)` follows. */
  destroy(error?: Error): void
}

/** A port that is open. */
export interface Listener {
  /** Where it listens. */
  readonly host: string
  /** The one that was chosen, when 0 was asked for. */
  readonly port: number
  /** Stops listening. Sockets already accepted live on. */
  close(): Promise<void>
}

/** Names of the compressions of a record batch, as Kafka's configuration spells them. */
export type Compression = 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd'

/** Work that belongs on a processor: checksums, compression, hashing, key derivation. */
export interface Cpu {
  /** CRC-32C (Castagnoli) of `bytes`, unsigned; `seed` is the CRC of what came before. */
  crc32c(bytes: Uint8Array, seed?: number): number
  /** As the codec of a record batch; `level` is the codec's own. Default: its default. */
  compress(codec: Compression, bytes: Uint8Array, level?: number): Promise<Uint8Array>
  /**
   * Rejects with code `DECOMPRESSION_FAILED`: the bytes are damaged, or would grow beyond `maxBytes`, or
   * beyond 1,000 : 1 above 1 MiB (security.md S4). Never takes more memory than `maxBytes` plus a block.
   */
  decompress(codec: Compression, bytes: Uint8Array, maxBytes: number): Promise<Uint8Array>
  /** Cryptographically strong. */
  randomBytes(length: number): Buffer
  /** A digest. */
  hash(algorithm: 'sha256' | 'sha512', bytes: Uint8Array): Buffer
  /** A keyed digest. */
  hmac(algorithm: 'sha256' | 'sha512', key: Uint8Array, bytes: Uint8Array): Buffer
  /** Runs off the event loop. */
  pbkdf2(
    algorithm: 'sha256' | 'sha512',
    password: Uint8Array,
    salt: Uint8Array,
    iterations: number
  ): Promise<Buffer>
}

/** Where messages for a person go. `fields` never hold secrets or payloads. */
export interface Log {
  /** What a developer of Playhead wants to see. */
  debug(message: string, fields?: LogFields): void
  /** What happened, as it should. */
  info(message: string, fields?: LogFields): void
  /** What somebody should look at, though it goes on. */
  warn(message: string, fields?: LogFields): void
  /** What went wrong and is not mended by itself. */
  error(message: string, fields?: LogFields): void
}

/** What a message is about, by name: topic, partition, group, broker, … */
export type LogFields = Readonly<Record<string, unknown>>
