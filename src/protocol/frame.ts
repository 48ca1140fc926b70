/**
 * Frames: what Kafka puts around a message. Four bytes of size, then a header (the request's names API,
 * version, correlation id and client; the response's only the correlation id), then the body.
 */
import { assert } from '../base/assert.ts'
import { codec } from './codec.ts'
import { Reader, malformed } from './reader.ts'
import {
  type Api,
  type Fields,
  type Read,
  type Written,
  int16,
  int32,
  message,
  string
} from './schema.ts'
import { Writer } from './writer.ts'

export const RequestHeader = message({
  name: 'RequestHeader',
  versions: [1, 2],
  flexible: 2,
  fields: {
    requestApiKey: int16(),
    requestApiVersion: int16(),
    correlationId: int32(),
    // Not compact in any version, so that a broker can read it before it knows the version.
    clientId: string({ nullable: 1, flexible: false })
  }
})

export const ResponseHeader = message({
  name: 'ResponseHeader',
  versions: [0, 1],
  flexible: 1,
  fields: { correlationId: int32() }
})

const API_VERSIONS_KEY = 18
/** Size and correlation id come first in every frame, whatever its versions. */
const SIZE_BYTES = 4

/** A flexible request has header version 2, others 1. */
export function requestHeaderVersion(api: Api, version: number): number {
  return api.flexible !== null && version >= api.flexible ? 2 : 1
}

/**
 * A flexible response has header version 1, others 0; but ApiVersions always 0, as the asker doesn't
 * know yet what the broker speaks (KIP-511).
 */
export function responseHeaderVersion(api: Api, version: number): number {
  if (api.key === API_VERSIONS_KEY) return 0
  return api.flexible !== null && version >= api.flexible ? 1 : 0
}

function sized(writer: Writer): Uint8Array[] {
  writer.patchInt32(0, writer.length - SIZE_BYTES)
  return writer.segments()
}

/** A request's frame, as segments for a socket. Large byte strings in `body` are not copied. */
export function encodeRequest<Req extends Fields>(
  api: Api<Req, Fields>,
  version: number,
  header: { readonly correlationId: number; readonly clientId: string | null },
  body: Written<Req>
): Uint8Array[] {
  const writer = new Writer()
  writer.int32(0)
  codec(RequestHeader, requestHeaderVersion(api, version)).write(writer, {
    requestApiKey: api.key,
    requestApiVersion: version,
    correlationId: header.correlationId,
    clientId: header.clientId
  })
  codec(api.request, version).write(writer, body)
  return sized(writer)
}

/** The correlation id of a response's frame (without its size): what finds the request it answers. */
export function peekCorrelationId(frame: Buffer): number {
  return new Reader(frame).int32()
}

/** Reads a response's frame (without its size). What is read may be slices of `frame`. */
export function decodeResponse<Res extends Fields>(
  api: Api<Fields, Res>,
  version: number,
  frame: Buffer
): Read<Res> {
  const reader = new Reader(frame)
  codec(ResponseHeader, responseHeaderVersion(api, version)).read(reader)
  const body = codec(api.response, version).read(reader)
  reader.finish(`${api.name} response v${version}`)
  return body
}

export interface RequestStart {
  readonly apiKey: number
  readonly apiVersion: number
  readonly correlationId: number
  readonly clientId: string | null
}

/** What a broker reads first of a request's frame (without its size), knowing nothing of its API. */
export function readRequestStart(frame: Buffer): RequestStart {
  const header = codec(RequestHeader, 1).read(new Reader(frame))
  return {
    apiKey: header.requestApiKey,
    apiVersion: header.requestApiVersion,
    correlationId: header.correlationId,
    clientId: header.clientId
  }
}

/** Reads a request's body, once its start has told which API and version it is. */
export function decodeRequest<Req extends Fields>(
  api: Api<Req, Fields>,
  version: number,
  frame: Buffer
): Read<Req> {
  const reader = new Reader(frame)
  codec(RequestHeader, requestHeaderVersion(api, version)).read(reader)
  const body = codec(api.request, version).read(reader)
  reader.finish(`${api.name} request v${version}`)
  return body
}

/** A response's frame, as segments for a socket. */
export function encodeResponse<Res extends Fields>(
  api: Api<Fields, Res>,
  version: number,
  correlationId: number,
  body: Written<Res>
): Uint8Array[] {
  const writer = new Writer()
  writer.int32(0)
  codec(ResponseHeader, responseHeaderVersion(api, version)).write(writer, { correlationId })
  codec(api.response, version).write(writer, body)
  return sized(writer)
}

/** Where the bytes of frames go. Frames themselves are not given back: that is for who got them. */
export interface FrameRoom {
  /** Memory for so many bytes. */
  take(bytes: number): Buffer
  /** What was taken, and is too small now. */
  give(buffer: Buffer): void
}

const newMemory: FrameRoom = { take: bytes => Buffer.allocUnsafe(bytes), give() {} }

/** The least a frame can hold: a response to nothing, a correlation id. */
const LEAST_BYTES = 4

/**
 * Cuts a byte stream into frames. Each frame is copied once, into a buffer of its own, whose size is known
 * from its first four bytes. Up to `eagerBytes` are taken at once; for a larger frame the buffer grows with
 * what really arrives, so that a peer pays for the memory that it claims (security.md S1).
 */
export class FrameSplitter {
  private readonly size = Buffer.alloc(SIZE_BYTES)
  private sizeAt = 0
  private frame: Buffer | null = null
  private frameBytes = 0
  private at = 0
  private readonly onFrame: (frame: Buffer) => void
  private readonly eagerBytes: number
  private readonly memory: FrameRoom
  /** The largest frame taken. May be raised, as after authentication. */
  limitBytes: number

  constructor(
    onFrame: (frame: Buffer) => void,
    limitBytes: number,
    eagerBytes: number,
    memory = newMemory
  ) {
    this.onFrame = onFrame
    this.memory = memory
    this.limitBytes = limitBytes
    this.eagerBytes = eagerBytes
  }

  /** Whether the stream stands within a frame: an end here is a cut-off frame. */
  get withinFrame(): boolean {
    return this.sizeAt > 0
  }

  /** Takes the next bytes; calls `onFrame` for each frame that they complete. Throws MALFORMED_FRAME. */
  push(chunk: Buffer): void {
    let from = 0
    while (from < chunk.length) {
      if (!this.frame) {
        from = this.pushSize(chunk, from)
        if (!this.frame) return
      }
      from = this.pushBody(chunk, from)
    }
  }

  private pushSize(chunk: Buffer, from: number): number {
    let at = from
    while (this.sizeAt < SIZE_BYTES && at < chunk.length) {
      this.size[this.sizeAt++] = chunk[at++] as number
    }
    if (this.sizeAt === SIZE_BYTES) {
      const bytes = this.size.readInt32BE()
      if (bytes < LEAST_BYTES || bytes > this.limitBytes) throw this.refuse(bytes)
      this.frameBytes = bytes
      this.frame = this.memory.take(Math.min(bytes, this.eagerBytes))
      this.at = 0
    }
    return at
  }

  private pushBody(chunk: Buffer, from: number): number {
    const taken = Math.min(chunk.length - from, this.frameBytes - this.at)
    const frame = this.room(this.at + taken)
    chunk.copy(frame, this.at, from, from + taken)
    this.at += taken
    if (this.at === this.frameBytes) {
      assert(frame.length === this.frameBytes, 'a full frame fills its buffer')
      this.frame = null
      this.sizeAt = 0
      this.onFrame(frame)
    }
    return from + taken
  }

  private room(bytes: number): Buffer {
    const frame = this.frame as Buffer
    if (bytes <= frame.length) return frame
    const bigger = this.memory.take(Math.min(this.frameBytes, Math.max(bytes, frame.length * 4)))
    frame.copy(bigger, 0, 0, this.at)
    this.memory.give(frame)
    this.frame = bigger
    return bigger
  }

  private refuse(bytes: number): Error {
    const looks = looksLike(this.size)
    const limit = `Kafka frames here have ${LEAST_BYTES} to ${this.limitBytes} bytes`
    return malformed(
      `a frame of ${bytes} bytes; ${limit}${looks ? `. This looks like ${looks}` : ''}`
    )
  }
}

/** What the first bytes of a stream that isn't Kafka's may be: for a message that helps. */
function looksLike(start: Buffer): string | null {
  const text = start.toString('latin1')
  if (/^(HTTP|GET |POST|PUT |HEAD|OPTI|PRI |DELE)/.test(text)) return 'HTTP: is the port right?'
  if (text.startsWith('SSH-')) return 'SSH: is the port right?'
  if (start[0] === 0x16 && start[1] === 0x03)
    return 'a TLS handshake: does this port speak plain text?'
  if (start[0] === 0x15 && start[1] === 0x03) return 'a TLS alert: does this port want TLS?'
  return null
}
