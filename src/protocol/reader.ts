/**
 * Reads Kafka's wire types from one frame. Every length and count is checked against the bytes that
 * remain before anything is allocated or looped over (invariant P3), so a lying frame costs nothing.
 * Byte strings are slices of the frame, never copies.
 */
import { PlayheadError } from '../base/error.ts'

/** The frame ends before a value does: what a cut-off frame fails with. */
export function shortFrame(what: string, at: number, end: number): PlayheadError {
  return malformed(`short frame: it ends at byte ${end}, within ${what} at byte ${at}`)
}

export function malformed(message: string): PlayheadError {
  return new PlayheadError('MALFORMED_FRAME', message)
}

const UUID_BYTES = 16

export class Reader {
  readonly bytes: Buffer
  at: number
  end: number

  constructor(bytes: Buffer, at = 0, end = bytes.length) {
    this.bytes = bytes
    this.at = at
    this.end = end
  }

  get remaining(): number {
    return this.end - this.at
  }

  /** Moves past `length` bytes and returns where they start. */
  private take(length: number, what: string): number {
    const at = this.at
    if (length > this.end - at) throw shortFrame(what, at, this.end)
    this.at = at + length
    return at
  }

  int8(): number {
    return this.bytes.readInt8(this.take(1, 'int8'))
  }

  bool(): boolean {
    return this.bytes[this.take(1, 'bool')] !== 0
  }

  int16(): number {
    return this.bytes.readInt16BE(this.take(2, 'int16'))
  }

  uint16(): number {
    return this.bytes.readUInt16BE(this.take(2, 'uint16'))
  }

  int32(): number {
    return this.bytes.readInt32BE(this.take(4, 'int32'))
  }

  /** An int64 that Playhead uses as a number: an offset, a time, a size. Beyond ±(2^53 - 1): an error. */
  int64(): number {
    const at = this.take(8, 'int64')
    const value = this.bytes.readInt32BE(at) * 0x1_0000_0000 + this.bytes.readUInt32BE(at + 4)
    if (!Number.isSafeInteger(value)) {
      const exact = this.bytes.readBigInt64BE(at)
      throw malformed(`the int64 ${exact} at byte ${at} is not within ±(2^53 - 1)`)
    }
    return value
  }

  /** An int64 that is an identity or a mark: kept exact, never computed with. */
  opaque64(): bigint {
    return this.bytes.readBigInt64BE(this.take(8, 'int64'))
  }

  float64(): number {
    return this.bytes.readDoubleBE(this.take(8, 'float64'))
  }

  /** 16 bytes as Kafka prints them: URL-safe base64 without padding, 22 characters. */
  uuid(): string {
    const at = this.take(UUID_BYTES, 'uuid')
    return this.bytes.toString('base64url', at, at + UUID_BYTES)
  }

  /** An unsigned varint of at most 5 bytes and 32 bits. */
  uvarint(): number {
    let value = 0
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.bytes[this.take(1, 'varint')] as number
      value += (byte & 0x7f) * 2 ** shift // not `<<`, which would make the 32nd bit a sign
      if (byte < 0x80) {
        if (value > 0xffff_ffff) break
        return value
      }
    }
    throw malformed(`the varint before byte ${this.at} is longer than 32 bits`)
  }

  /** A length: -1 for null, or 0 … what remains. */
  private length(compact: boolean, wide: boolean, what: string): number {
    const length = compact ? this.uvarint() - 1 : wide ? this.int32() : this.int16()
    if (length < -1) throw malformed(`${what} of ${length} bytes before byte ${this.at}`)
    if (length > this.end - this.at)
      throw shortFrame(`${what} of ${length} bytes`, this.at, this.end)
    return length
  }

  string(compact: boolean): string | null {
    const length = this.length(compact, false, 'a string')
    if (length < 0) return null
    const at = this.at
    this.at = at + length
    return this.bytes.toString('utf8', at, this.at)
  }

  /** A slice of the frame: valid as long as the frame is. */
  buffer(compact: boolean): Buffer | null {
    const length = this.length(compact, true, 'bytes')
    if (length < 0) return null
    const at = this.at
    this.at = at + length
    return this.bytes.subarray(at, this.at)
  }

  /** The count of an array whose elements take at least `elementBytes` each; -1 for null. */
  count(compact: boolean, elementBytes: number): number {
    const at = this.at
    const count = compact ? this.uvarint() - 1 : this.int32()
    if (count < -1) throw malformed(`an array of ${count} elements at byte ${at}`)
    if (count * elementBytes > this.end - this.at) {
      throw shortFrame(`an array of ${count} elements`, at, this.end)
    }
    return count
  }

  /** How many tagged fields follow; each takes a tag and a size at least. */
  tagCount(): number {
    const at = this.at
    const count = this.uvarint()
    if (count * 2 > this.end - this.at) throw shortFrame(`${count} tagged fields`, at, this.end)
    return count
  }

  /** Passes over `length` bytes. */
  skip(length: number, what: string): void {
    this.take(length, what)
  }

  /** Throws when bytes are left over: a peer that writes more than it says can't be trusted further. */
  finish(what: string): void {
    if (this.at !== this.end) throw malformed(`${this.end - this.at} bytes left over after ${what}`)
  }
}
