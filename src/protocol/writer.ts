/**
 * Writes Kafka's wire types into segments: one growing buffer for what is small, and byte strings of
 * some size by reference, so that a produced batch is never copied. `segments()` is what a socket takes.
 */
import { assert } from '../base/assert.ts'
import { PlayheadError } from '../base/error.ts'

/** A byte string at least this long is passed on by reference; below it a copy is cheaper than a segment. */
const BY_REFERENCE_BYTES = 4096
const FIRST_BUFFER_BYTES = 256
const MAX_STRING_BYTES = 32_767

/** What may be written where bytes are asked for: one piece, or several that stand for their join. */
export type Bytes = Uint8Array | readonly Uint8Array[]

export function byteLength(bytes: Bytes): number {
  if (bytes instanceof Uint8Array) return bytes.length
  let length = 0
  for (const piece of bytes) length += piece.length
  return length
}

export class Writer {
  private readonly done: Uint8Array[] = []
  private doneBytes = 0
  private buffer: Buffer
  /** Where the current segment starts in `buffer`. */
  private start = 0
  private at = 0

  constructor(firstBufferBytes = FIRST_BUFFER_BYTES) {
    this.buffer = Buffer.allocUnsafe(firstBufferBytes)
  }

  /** How many bytes were written so far. */
  get length(): number {
    return this.doneBytes + this.at - this.start
  }

  /** Makes room for `length` bytes and returns where they go. */
  private room(length: number): number {
    const at = this.at
    const end = at + length
    if (end > this.buffer.length) return this.grow(length)
    this.at = end
    return at
  }

  private grow(length: number): number {
    const used = this.at - this.start
    const bigger = Buffer.allocUnsafe(Math.max(FIRST_BUFFER_BYTES, (used + length) * 2))
    this.buffer.copy(bigger, 0, this.start, this.at)
    this.buffer = bigger
    this.start = 0
    this.at = used + length
    return used
  }

  // `room` may replace the buffer: it is called before `this.buffer` is read.

  int8(value: number): void {
    const at = this.room(1)
    this.buffer.writeInt8(value, at)
  }

  bool(value: boolean): void {
    const at = this.room(1)
    this.buffer[at] = value ? 1 : 0
  }

  int16(value: number): void {
    const at = this.room(2)
    this.buffer.writeInt16BE(value, at)
  }

  uint16(value: number): void {
    const at = this.room(2)
    this.buffer.writeUInt16BE(value, at)
  }

  int32(value: number): void {
    const at = this.room(4)
    this.buffer.writeInt32BE(value, at)
  }

  int64(value: number): void {
    if (!Number.isSafeInteger(value)) {
      throw new PlayheadError('INVALID_ARGUMENT', `${value} is no whole number within ±(2^53 - 1)`)
    }
    const at = this.room(8)
    this.buffer.writeInt32BE(Math.floor(value / 0x1_0000_0000), at)
    this.buffer.writeUInt32BE(value >>> 0, at + 4)
  }

  opaque64(value: bigint): void {
    const at = this.room(8)
    this.buffer.writeBigInt64BE(value, at)
  }

  float64(value: number): void {
    const at = this.room(8)
    this.buffer.writeDoubleBE(value, at)
  }

  uuid(value: string): void {
    const at = this.room(16)
    if (value.length !== 22 || this.buffer.write(value, at, 16, 'base64url') !== 16) {
      throw new PlayheadError('INVALID_ARGUMENT', `${JSON.stringify(value)} is no base64url uuid`)
    }
  }

  uvarint(value: number): void {
    let rest = value
    while (rest > 0x7f) {
      const at = this.room(1)
      this.buffer[at] = (rest & 0x7f) | 0x80
      rest = Math.floor(rest / 128)
    }
    const at = this.room(1)
    this.buffer[at] = rest
  }

  string(value: string | null, compact: boolean): void {
    if (value === null) return compact ? this.uvarint(0) : this.int16(-1)
    const length = Buffer.byteLength(value)
    if (length > MAX_STRING_BYTES) {
      throw new PlayheadError(
        'INVALID_ARGUMENT',
        `a string of ${length} bytes; Kafka takes at most ${MAX_STRING_BYTES}`
      )
    }
    if (compact) this.uvarint(length + 1)
    else this.int16(length)
    const at = this.room(length)
    this.buffer.write(value, at, length, 'utf8')
  }

  /** Bytes with their length before them. Large ones are kept by reference: don't touch them again. */
  bytes(value: Bytes | null, compact: boolean): void {
    if (value === null) return compact ? this.uvarint(0) : this.int32(-1)
    const length = byteLength(value)
    if (compact) this.uvarint(length + 1)
    else this.int32(length)
    this.raw(value)
  }

  /** Bytes as they are. Large ones are kept by reference: don't touch them again. */
  raw(value: Bytes): void {
    if (!(value instanceof Uint8Array)) {
      for (const piece of value) this.raw(piece)
    } else if (value.length < BY_REFERENCE_BYTES) {
      const at = this.room(value.length)
      this.buffer.set(value, at)
    } else {
      this.cut()
      this.done.push(value)
      this.doneBytes += value.length
    }
  }

  count(count: number, compact: boolean): void {
    if (compact) this.uvarint(count + 1)
    else this.int32(count)
  }

  /** Writes an int32 over four bytes at the frame's beginning, where its size belongs. */
  patchInt32(at: number, value: number): void {
    const first = this.done[0] ?? this.buffer
    assert(
      at + 4 <= (this.done.length > 0 ? first.length : this.at),
      'a patch is within one segment'
    )
    new DataView(first.buffer, first.byteOffset + at, 4).setInt32(0, value)
  }

  /** Ends the current segment. */
  private cut(): void {
    if (this.at > this.start) {
      this.done.push(this.buffer.subarray(this.start, this.at))
      this.doneBytes += this.at - this.start
      this.start = this.at
    }
  }

  /** Everything written, in order. The writer is not used again. */
  segments(): Uint8Array[] {
    this.cut()
    return this.done
  }

  /** Everything written, as one buffer. Copies when there are several segments. */
  join(): Buffer {
    const segments = this.segments()
    const [only] = segments
    if (segments.length === 1 && only) return Buffer.from(only.buffer, only.byteOffset, only.length)
    return Buffer.concat(segments)
  }
}
