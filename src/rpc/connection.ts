/**
 * One connection to a broker. It opens (connect, ApiVersions, SASL), then writes requests without waiting for
 * answers, and matches answers by correlation id. Kafka answers the requests of one connection in order, so an
 * answer must be that to the oldest unanswered request; anything else means that the two sides no longer
 * agree on where they are, and the connection ends (invariant P6).
 *
 * A request whose call was given up stays in line until it is answered: its answer is checked and dropped.
 * When a deadline passes and no answer has come for three seconds although one was due, the peer is taken for
 * gone and the connection ends; otherwise it is slow, and stays. Bytes alone are no sign of life: they may all
 * belong to a frame that a peer gone wrong has announced and that never ends.
 *
 * Writes need no gathering here: the network sends what one turn wrote in one go (see net/tcp.ts).
 */
import { assert } from '../base/assert.ts'
import type { Address, Env, Socket, Timer } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import { Fifo } from '../base/fifo.ts'
import { ApiVersions } from '../protocol/api/api-versions.ts'
import { Produce } from '../protocol/api/produce.ts'
import { KafkaError } from '../protocol/errors.ts'
import {
  FrameSplitter,
  decodeResponse,
  encodeRequest,
  peekCorrelationId
} from '../protocol/frame.ts'
import { malformed } from '../protocol/reader.ts'
import type { Api, RequestOf, ResponseOf } from '../protocol/schema.ts'
import { type Carrier, Exchange } from './exchange.ts'
import { open, reauthenticate } from './opening.ts'
import type { Sasl } from './sasl/sasl.ts'
import { type VersionTable, chooseVersion } from './versions.ts'

/** A broker's claim to be left alone for longer than this is cut to it (security.md S6). */
const longestThrottleMs = 30_000

/** A frame before authentication has at most this (security.md P2, S1). */
const openingFrameBytes = 512 * 1024

/** Of a frame, this much memory is taken on the peer's word; the rest as it arrives. */
const eagerFrameBytes = 4 * 1024 * 1024

/** An orderly end may take this long. */
const closingMs = 500

/** A shorter silence than this says nothing about the peer: a caller's deadline may be shorter. */
const silenceMs = 3_000

export interface ConnectionOptions {
  readonly clientId: string
  readonly sasl: Sasl | null
  /** To open: connect, versions, authentication. */
  readonly connectTimeoutMs: number
  /** A connection without a request for this long ends. */
  readonly connectionsMaxIdleMs: number
  /** Requests written and not answered. */
  readonly maxInFlight: number
  readonly maxResponseBytes: number
}

/** What the owner is told. `onClosed` comes once and is the last. */
export interface ConnectionOwner {
  /** Whether the broker ever answered something beyond an opening, on any connection. */
  readonly answeredBefore: boolean
  onReady(): void
  /** There is room for another request again. */
  onRoom(): void
  /** A deadline passed, and no answer has come for long: the connection ends. */
  onSilence(): void
  /** `error` is null when it ended because it was idle, or was told to. */
  onClosed(error: PlayheadError | null): void
}

type State = 'opening' | 'ready' | 'ending' | 'closed'

/** Never two alike within a process: an answer says by which connection it came. */
let incarnations = 0

export class Connection implements Carrier {
  readonly incarnation = ++incarnations
  node: number
  readonly place: string
  readonly address: Address
  versions: VersionTable = new Map()
  /** Whether it ever got ready. */
  opened = false
  /** Whether it ever answered anything beyond its opening. */
  proven = false
  readonly #env: Env
  readonly #options: ConnectionOptions
  readonly #owner: ConnectionOwner
  readonly #socket: Socket
  readonly #splitter: FrameSplitter
  readonly #inFlight: Fifo<Exchange>
  /** Resolves when the socket is closed. */
  readonly gone: Promise<void>
  #resolveGone: () => void = () => {}
  #state: State = 'opening'
  #correlationId = 0
  #answeredAt = -1
  #usedAt: number
  #blocked = false
  /** The session must be renewed: new requests wait until what is on its way is answered, and it is. */
  #renewing: 'no' | 'due' | 'asking' = 'no'
  #throttledUntil = 0
  /** The opening's or a renewed authentication's end; then the idle check. */
  #timer: Timer | null = null
  #throttle: Timer | null = null
  #renewal: Timer | null = null

  constructor(
    env: Env,
    node: number,
    address: Address,
    options: ConnectionOptions,
    owner: ConnectionOwner
  ) {
    this.#env = env
    this.node = node
    this.address = address
    this.place = `${node < 0 ? 'the broker' : `broker ${node}`} at ${address.host}:${address.port}`
    this.#options = options
    this.#owner = owner
    this.#usedAt = env.clock.monotonic()
    this.gone = new Promise(resolve => {
      this.#resolveGone = resolve
    })
    // One more: a renewed authentication must find room in a full line.
    this.#inFlight = new Fifo(`requests in flight to ${this.place}`, options.maxInFlight + 4)
    this.#splitter = new FrameSplitter(
      frame => this.#answered(frame),
      openingFrameBytes,
      eagerFrameBytes
    )
    this.#timer = env.clock.after(options.connectTimeoutMs, () => this.#tooSlow())
    this.#socket = env.net.connect(address, {
      onOpen: () => void this.#open(),
      onData: chunk => this.#received(chunk),
      onDrain: () => this.#drained(),
      onClose: error => this.#closed(error)
    })
  }

  get ready(): boolean {
    return this.#state === 'ready'
  }

  /** Ready, or finishing what is on its way. */
  get live(): boolean {
    return this.#state === 'ready' || this.#state === 'ending'
  }

  /** Nothing is on its way. */
  get idle(): boolean {
    return this.#inFlight.length === 0
  }

  /** Whether another request may be written now; else `onRoom` follows. */
  get hasRoom(): boolean {
    return (
      this.#state === 'ready' &&
      !this.#blocked &&
      this.#renewing === 'no' &&
      this.#throttle === null &&
      this.#inFlight.length < this.#options.maxInFlight
    )
  }

  /** Writes a request at once. What is wrong with the request itself fails its call alone. */
  write(exchange: Exchange): void {
    assert(this.#state === 'ready' || this.#state === 'opening', 'requests go to a live connection')
    const { api, minVersion, maxVersion } = exchange
    const correlationId = this.#correlationId
    let version: number
    let segments: Uint8Array[]
    let unanswered: boolean
    try {
      version = this.#version(api, minVersion, maxVersion)
      const body = typeof exchange.body === 'function' ? exchange.body(version) : exchange.body
      segments = encodeRequest(api, version, { correlationId, clientId: this.#clientId }, body)
      unanswered = api.key === Produce.key && body.acks === 0
    } catch (error) {
      exchange.fail(error instanceof Error ? error : new TypeError(String(error)))
      return
    }
    const now = this.#env.clock.monotonic()
    this.#correlationId = (correlationId + 1) & 0x7fff_ffff
    this.#usedAt = now
    exchange.handedOver(this, version, correlationId, now)
    if (!unanswered) this.#inFlight.push(exchange)
    this.#blocked = !this.#socket.write(segments)
    if (unanswered) this.#succeed(exchange, unansweredProduce)
  }

  get #clientId(): string {
    return this.#options.clientId
  }

  /** A request of the opening: it goes before all others. */
  ask<A extends Api>(api: A, body: RequestOf<A>, version: number): Promise<ResponseOf<A>> {
    const exchange = new Exchange(api, body, {
      deadline: Infinity,
      timeoutMs: Infinity,
      minVersion: version,
      maxVersion: version
    })
    if (this.#state === 'closed' || this.#state === 'ending') {
      exchange.fail(new PlayheadError('CONNECTION_LOST', `${this.place} is gone`))
    } else this.write(exchange)
    return exchange.response.then(answer => answer.body as ResponseOf<A>)
  }

  /** Ends once everything on its way is answered; takes no more. */
  end(): void {
    if (this.#state !== 'ready') return
    this.#state = 'ending'
    this.#next()
  }

  /** Ends now: every call on its way fails within this turn. */
  destroy(why: PlayheadError): void {
    if (this.#state === 'closed') return
    const opening = this.#state === 'opening'
    this.#stop()
    this.#socket.destroy()
    for (let next = this.#inFlight.shift(); next; next = this.#inFlight.shift()) next.lost(why)
    this.#owner.onClosed(opening ? this.#neverOpened(why) : why)
  }

  /**
   * Ends for good: what is on its way fails with `why`. An orderly end, as a reset would also take back bytes
   * that are still in the kernel (produced with acks=0); a peer that does not end too is left after a while.
   */
  close(why: PlayheadError): Promise<void> {
    if (this.#state === 'closed') return this.gone
    const opening = this.#state === 'opening'
    this.#stop()
    for (let next = this.#inFlight.shift(); next; next = this.#inFlight.shift()) next.fail(why)
    if (opening) this.#socket.destroy()
    else {
      this.#socket.end()
      this.#timer = this.#env.clock.after(closingMs, () => this.#socket.destroy())
    }
    this.#owner.onClosed(null)
    return this.gone
  }

  #stop(): void {
    this.#state = 'closed'
    this.#timer?.cancel()
    this.#throttle?.cancel()
    this.#renewal?.cancel()
  }

  expired(exchange: Exchange): void {
    const waitedSince = this.#inFlight.peek()?.writtenAt ?? exchange.writtenAt
    const since = Math.max(waitedSince, this.#answeredAt)
    const silentMs = this.#env.clock.monotonic() - since
    if (silentMs < silenceMs || this.#state === 'closed') return
    this.#owner.onSilence()
    const what = `${this.place} answered nothing for ${Math.round(silentMs)} ms`
    this.destroy(new PlayheadError('TIMED_OUT', what))
  }

  #version(api: Api, minVersion: number, maxVersion: number): number {
    // Before its opening nothing is known of it, and the opening knows what it asks in which version.
    if (this.#state === 'opening') return maxVersion
    return chooseVersion(api, this.versions, this.place, minVersion, maxVersion)
  }

  async #open(): Promise<void> {
    try {
      const opened = await open(this, this.#env, this.#options.sasl)
      if (this.#state !== 'opening') return
      this.#state = 'ready'
      this.opened = true
      this.#splitter.limitBytes = this.#options.maxResponseBytes
      this.#renewAfter(opened.sessionLifetimeMs)
      this.#timer?.cancel()
      this.#checkIdleIn(this.#options.connectionsMaxIdleMs)
      this.#env.log.debug('connection ready', { place: this.place })
      this.#owner.onReady()
    } catch (error) {
      this.destroy(asPlayheadError(error, this.place))
    }
  }

  /** A session's lifetime is known (KIP-368): authenticate again before it ends, between other requests. */
  #renewAfter(sessionLifetimeMs: number): void {
    if (sessionLifetimeMs <= 0) return
    const delayMs = sessionLifetimeMs * (0.85 + 0.1 * this.#env.random.next())
    this.#renewal = this.#env.clock.after(delayMs, () => {
      this.#renewing = 'due'
      this.#next()
    })
  }

  async #renew(): Promise<void> {
    this.#renewing = 'asking'
    this.#timer?.cancel()
    this.#timer = this.#env.clock.after(this.#options.connectTimeoutMs, () => this.#tooSlow())
    try {
      const { sessionLifetimeMs } = await reauthenticate(this, this.#env, this.#options.sasl)
      if (!this.live) return
      this.#timer.cancel()
      this.#checkIdleIn(this.#options.connectionsMaxIdleMs)
      this.#renewAfter(sessionLifetimeMs)
      this.#renewing = 'no'
      this.#env.log.debug('authenticated again', { place: this.place })
      this.#next()
    } catch (error) {
      this.destroy(asPlayheadError(error, this.place))
    }
  }

  #received(chunk: Buffer): void {
    if (this.#state === 'closed') return
    try {
      this.#splitter.push(chunk)
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
      this.destroy(new PlayheadError(error.code, `${this.place}: ${error.message}`))
    }
  }

  #answered(frame: Buffer): void {
    if (this.#state === 'closed') return
    const correlationId = peekCorrelationId(frame)
    const exchange = this.#inFlight.peek()
    if (!exchange) throw malformed(`an answer (correlation id ${correlationId}) to no request`)
    if (exchange.correlationId !== correlationId) {
      const expected = `${exchange.correlationId} (${exchange.api.name})`
      throw malformed(`an answer with correlation id ${correlationId} where ${expected} is next`)
    }
    this.#inFlight.shift()
    this.#answeredAt = this.#env.clock.monotonic()
    if (exchange.settled) {
      this.#env.log.debug('late answer dropped', { api: exchange.api.name, place: this.place })
    } else {
      let body: unknown
      try {
        body = decode(exchange, frame)
      } catch (error) {
        exchange.fail(this.#nonsense(error, exchange.api))
        throw error
      }
      this.#obeyThrottle(body as { readonly throttleTimeMs?: unknown })
      this.#succeed(exchange, body)
    }
    this.#next()
  }

  #nonsense(error: unknown, { name }: Api): PlayheadError {
    const known = asPlayheadError(error, this.place)
    const message = `${this.place}, answer to ${name}: ${known.message}`
    return new PlayheadError(known.code, message, { cause: error })
  }

  #succeed(exchange: Exchange, body: unknown): void {
    if (this.#state === 'ready') this.proven = true
    const { node, incarnation: connection } = this
    exchange.succeed({ body: body as ResponseOf<Api>, version: exchange.version, node, connection })
  }

  /** A broker that throttles answers at once and says how long to stay quiet (KIP-219). */
  #obeyThrottle({ throttleTimeMs }: { readonly throttleTimeMs?: unknown }): void {
    if (typeof throttleTimeMs !== 'number' || throttleTimeMs <= 0) return
    const now = this.#env.clock.monotonic()
    const until = now + Math.min(throttleTimeMs, longestThrottleMs)
    if (until <= this.#throttledUntil) return
    this.#throttledUntil = until
    this.#throttle?.cancel()
    this.#throttle = this.#env.clock.after(until - now, () => {
      this.#throttle = null
      this.#next()
    })
    this.#env.log.debug('throttled', { place: this.place, throttleTimeMs })
  }

  #drained(): void {
    this.#blocked = false
    this.#next()
  }

  /** Something has changed: what is next? */
  #next(): void {
    if (this.#state === 'ending' && this.idle) {
      void this.close(new PlayheadError('CONNECTION_LOST', `${this.place}: was idle`))
    } else if (this.#renewing === 'due' && this.idle && this.live) void this.#renew()
    else if (this.hasRoom) this.#owner.onRoom()
  }

  #checkIdleIn(ms: number): void {
    this.#timer = this.#env.clock.after(ms, () => {
      const now = this.#env.clock.monotonic()
      const leftMs = this.#usedAt + this.#options.connectionsMaxIdleMs - now
      if (!this.idle) this.#checkIdleIn(this.#options.connectionsMaxIdleMs)
      else if (leftMs > 0) this.#checkIdleIn(leftMs)
      else this.end()
    })
  }

  #tooSlow(): void {
    const message = `${this.place} did not get ready within ${this.#options.connectTimeoutMs} ms`
    this.destroy(new PlayheadError('TIMED_OUT', message))
  }

  #closed(error: Error | undefined): void {
    this.#resolveGone()
    if (this.#state === 'closed') return this.#timer?.cancel()
    const cause = error ?? new Error('the broker ended it')
    const known = cause instanceof PlayheadError
    if (known && cause.code !== 'CONNECTION_LOST') return this.destroy(cause)
    const cut = this.#splitter.withinFrame
    const hint = cut ? ' within an answer' : this.#hint()
    if (known && hint === '') return this.destroy(cause)
    const retriable = known && !cut && cause.retriable
    const message = `${this.place}: ${cause.message}${hint}`
    this.destroy(new PlayheadError('CONNECTION_LOST', message, { cause, retriable }))
  }

  /** Brokers say nothing to who speaks plain text where TLS is spoken, or asks before saying who it is. */
  #hint(): string {
    const { sasl } = this.#options
    if (this.#state === 'opening' && this.#answeredAt < 0 && this.address.tls === undefined) {
      return '. It answered nothing: is this port for TLS (`tls`)?'
    }
    if (this.#state === 'opening' && this.#answeredAt < 0 && this.address.tls?.insecure !== true) {
      return '. It answered nothing: does it take the certificate of this side (`cert`, `key`)?'
    }
    if (this.#state === 'ready' && !this.proven && !this.#owner.answeredBefore && sasl === null) {
      return '. It answered nothing but ApiVersions: does it want to know who you are (`sasl`)?'
    }
    return ''
  }

  /** Nothing but the opening was written: so whoever waits for this connection may safely try again. */
  #neverOpened(why: PlayheadError): PlayheadError {
    if (why.code === 'CONNECTION_FAILED' || finalCodes.has(why.code)) return why
    return new PlayheadError('CONNECTION_FAILED', `cannot use ${this.place}: ${why.message}`, {
      retriable: true,
      cause: why
    })
  }
}

/** Trying again changes nothing about these. */
const finalCodes: ReadonlySet<string> = new Set([
  'AUTHENTICATION_FAILED',
  'INVALID_ARGUMENT',
  'UNSUPPORTED_VERSION',
  'CLOSED'
])

/** acks=0: the broker sends no response at all. */
const unansweredProduce: ResponseOf<typeof Produce> = {
  responses: [],
  throttleTimeMs: 0,
  nodeEndpoints: []
}

function decode(exchange: Exchange, frame: Buffer): unknown {
  const { api, version } = exchange
  // A broker that doesn't know our version of ApiVersions answers in version 0, saying so (KIP-511).
  const refused = api.key === ApiVersions.key && frame.length >= 6 && frame.readInt16BE(4)
  const spoken = refused === KafkaError.UNSUPPORTED_VERSION ? 0 : version
  return decodeResponse(api, spoken, frame)
}

function asPlayheadError(error: unknown, place: string): PlayheadError {
  if (error instanceof PlayheadError) return error
  // A bug, or a token provider of the user's that threw: told, with the original as its cause.
  const message = error instanceof Error ? error.message : String(error)
  return new PlayheadError('CONNECTION_LOST', `${place}: ${message}`, { cause: error })
}
