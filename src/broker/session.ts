/**
 * One connection of a client: bytes into requests, requests to their handlers, answers back in order.
 *
 * Handlers are called as requests arrive and may answer later; the answers leave in the order of the requests,
 * so a ready one waits for those before it. Too many unanswered requests, or answers that the client doesn't
 * read, and the socket is not read until that is better. Bytes that make no sense end the connection.
 */
import type { Socket, SocketHandler } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import { Fifo } from '../base/fifo.ts'
import { ApiVersions } from '../protocol/api/api-versions.ts'
import { KafkaError } from '../protocol/errors.ts'
import {
  FrameSplitter,
  type RequestStart,
  decodeRequest,
  encodeResponse,
  readRequestStart
} from '../protocol/frame.ts'
import type { Api } from '../protocol/schema.ts'
import type { BrokerCluster } from './cluster.ts'
import type { Connection, Context, Reply, Spoken } from './handler.ts'
import { spoken } from './handlers/18-api-versions.ts'
import type { Arrivals } from './request-memory.ts'
import {
  authenticationMs,
  eagerFrameBytes,
  frameBytes,
  frameMs,
  idleMs,
  pendingRequests,
  pressedFrameMs,
  queuedAnswerBytes,
  strangerFrameBytes
} from './limits.ts'
import { Authentication } from './sasl/authentication.ts'

/** A request's place in the row of answers. `segments` null: nothing is sent. */
interface Slot {
  done: boolean
  segments: readonly Uint8Array[] | null
  /** Memory of the segments that is free again once they are written. */
  readonly lent: Buffer[]
}

export class Session implements SocketHandler, Connection {
  readonly id: number
  readonly remoteHost: string
  readonly authentication: Authentication | null
  readonly #socket: Socket
  readonly #cluster: BrokerCluster
  readonly #node: number
  readonly #ended: () => void
  readonly #arrivals: Arrivals
  readonly #splitter: FrameSplitter
  // Bounded by the chunk that was being read when `pendingRequests` was reached.
  readonly #slots = new Fifo<Slot>('answers of a connection', 100_000)
  readonly #closing = new Set<() => void>()
  #closed = false
  #paused = false
  readonly #openedAt: number
  #heardAt: number
  /** When the frame that is arriving began. */
  #frameAt: number | undefined

  constructor(id: number, socket: Socket, cluster: BrokerCluster, node: number, ended: () => void) {
    this.id = id
    this.remoteHost = socket.remote.host
    this.#socket = socket
    this.#cluster = cluster
    this.#node = node
    this.#ended = ended
    this.#openedAt = cluster.env.clock.monotonic()
    this.#heardAt = this.#openedAt
    const { authenticator } = cluster
    this.authentication = authenticator && new Authentication(authenticator, this)
    const limit = this.authentication === null ? frameBytes : strangerFrameBytes
    this.#arrivals = cluster.requests.arrivals(() => this.#throttle())
    const received = (frame: Buffer) => this.#received(frame)
    this.#splitter = new FrameSplitter(received, limit, eagerFrameBytes, this.#arrivals)
  }

  get closed(): boolean {
    return this.#closed
  }

  whenClosed(then: () => void): () => void {
    this.#closing.add(then)
    return () => this.#closing.delete(then)
  }

  end(reset = false): void {
    if (reset) this.#socket.destroy()
    else this.#socket.end()
  }

  onData(chunk: Buffer): void {
    this.#heardAt = this.#cluster.env.clock.monotonic()
    try {
      this.#splitter.push(chunk)
    } catch (error) {
      this.#refuse(error)
    }
    if (!this.#splitter.withinFrame) this.#frameAt = undefined
    else this.#frameAt ??= this.#heardAt
    if (!this.#arrivals.mayRead) this.#throttle()
  }

  onDrain(): void {
    this.#throttle()
  }

  onClose(): void {
    this.#closed = true
    this.#arrivals.complete()
    this.#slots.clear()
    const waiting = [...this.#closing]
    this.#closing.clear()
    for (const then of waiting) then()
    this.#ended()
  }

  /** Ends the connection when it has been silent, or in the middle of a frame, for too long. */
  sweep(now: number): void {
    const patienceMs = this.#cluster.requests.isFull ? pressedFrameMs : frameMs
    if (this.#frameAt !== undefined && now - this.#frameAt > patienceMs && !this.#paused) {
      this.#refuse(malformed(`a frame that did not end within ${patienceMs} ms`))
    } else if (this.authentication?.known === false && now - this.#openedAt > authenticationMs) {
      this.#refuse(malformed(`no authentication within ${authenticationMs} ms`))
    } else if (this.#slots.length === 0 && now - this.#heardAt > idleMs) {
      this.#socket.end()
    }
  }

  #received(frame: Buffer): void {
    this.#frameAt = undefined
    if (this.#closed) return
    const start = readRequestStart(frame)
    const refusal = this.authentication?.refusal(start.apiKey)
    if (refusal !== undefined) throw malformed(refusal)
    const found = this.#cluster.dispatch.get(start.apiKey)
    if (found !== undefined && this.#cluster.letsGo(found.handler)) {
      return this.#handle(frame, start, found, this.#arrivals.completeAndHeld(frame))
    }
    this.#arrivals.complete()
    this.#handle(frame, start, found)
  }

  /** `letGo`: is to be called when nobody needs the frame's memory any more. Else what is read of it may be kept. */
  #handle(frame: Buffer, start: RequestStart, found: Spoken | undefined, letGo?: () => void): void {
    if (found === undefined || start.apiVersion < found.first || start.apiVersion > found.last) {
      letGo?.()
      return this.#notSpoken(start)
    }
    const { api } = found.handler
    const slot = this.#waiting()
    const context = this.#context(start, slot.lent)
    let reply: ReturnType<BrokerCluster['answer']>
    try {
      const request = decodeRequest(api, start.apiVersion, frame)
      reply = this.#cluster.answer(found.handler, request, context)
    } catch (error) {
      letGo?.()
      throw error
    }
    if (!(reply instanceof Promise)) {
      letGo?.()
      return this.#answered(slot, api, start, reply)
    }
    this.#throttle()
    reply.then(
      value => {
        letGo?.()
        this.#answered(slot, api, start, value)
      },
      error => {
        letGo?.()
        this.#failed(api, error)
      }
    )
  }

  #context(start: RequestStart, lent: Buffer[]): Context {
    const cluster = this.#cluster
    return {
      node: this.#node,
      version: start.apiVersion,
      clientId: start.clientId ?? '',
      clientHost: `/${this.remoteHost}`,
      connection: this,
      lend(bytes) {
        const buffer = cluster.answers.take(bytes)
        lent.push(buffer)
        return buffer
      },
      cluster,
      env: cluster.env
    }
  }

  /** Kafka closes the connection too, but answers an ApiVersions so that older and newer clients can agree. */
  #notSpoken(start: RequestStart): void {
    const { apiKey, apiVersion } = start
    if (apiKey !== ApiVersions.key) {
      throw malformed(`API ${apiKey} in version ${apiVersion} is not spoken here`)
    }
    const answer = { ...spoken(this.#cluster.dispatch), errorCode: KafkaError.UNSUPPORTED_VERSION }
    this.#answered(this.#waiting(), ApiVersions, { ...start, apiVersion: 0 }, answer)
  }

  #waiting(): Slot {
    const slot: Slot = { done: false, segments: null, lent: [] }
    this.#slots.push(slot)
    return slot
  }

  #answered(slot: Slot, api: Api, start: RequestStart, reply: Reply<Api>): void {
    if (this.#closed) return
    try {
      if (reply !== null) {
        slot.segments = encodeResponse(api, start.apiVersion, start.correlationId, reply)
      }
    } catch (error) {
      return this.#failed(api, error)
    }
    slot.done = true
    this.#flush()
    if (this.authentication !== null) this.#authenticated(this.authentication)
  }

  /** Something may have been learned of who is there. */
  #authenticated({ known, over }: Authentication): void {
    if (known) this.#splitter.limitBytes = frameBytes
    if (over && this.#slots.length === 0) this.#socket.end()
  }

  #flush(): void {
    for (let first = this.#slots.peek(); first?.done; first = this.#slots.peek()) {
      this.#slots.shift()
      if (first.segments !== null) this.#send(first.segments, first.lent)
    }
    this.#throttle()
  }

  #send(segments: readonly Uint8Array[], lent: readonly Buffer[]): void {
    if (lent.length === 0) return void this.#socket.write(segments)
    this.#socket.write(segments, () => {
      for (const buffer of lent) this.#cluster.answers.give(buffer)
    })
  }

  /** The one place that decides whether the socket is read. */
  #throttle(): void {
    const tooMuch =
      this.#slots.length >= pendingRequests ||
      this.#socket.queuedBytes > queuedAnswerBytes ||
      !this.#arrivals.mayRead
    if (tooMuch === this.#paused || this.#closed) return
    this.#paused = tooMuch
    // What it could not send in the meantime is not held against it.
    if (this.#frameAt !== undefined) this.#frameAt = this.#cluster.env.clock.monotonic()
    if (tooMuch) this.#socket.pause()
    else this.#socket.resume()
  }

  #failed(api: Api, error: unknown): void {
    if (this.#closed) return
    this.#cluster.env.log.error('a request could not be answered: its connection is closed', {
      api: api.name,
      host: this.remoteHost,
      error
    })
    this.#socket.destroy()
  }

  #refuse(error: unknown): void {
    const fault = error instanceof PlayheadError && error.code === 'MALFORMED_FRAME'
    const fields = { host: this.remoteHost, node: this.#node, error }
    if (fault) this.#cluster.env.log.warn('a connection was closed for its bytes', fields)
    else this.#cluster.env.log.error('a connection was closed for our error', fields)
    this.#socket.destroy()
  }
}

function malformed(message: string): PlayheadError {
  return new PlayheadError('MALFORMED_FRAME', message)
}
