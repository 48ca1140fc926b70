/** The pieces of a record, written by hand: the hot loop of producing. All give the position behind them. */

/** Bytes to send; a string is sent as UTF-8; null or undefined is null, which is not empty. */
export type Bytes = Uint8Array | string | null | undefined

/**
 * Up to here a loop in JavaScript is as fast as the call that leaves it. Measured with Node 20 and 24: a string of
 * 16 ASCII characters 45 ns either way, of 100: 150 and 45; `set` of 8 bytes 20 ns either way, of 40: 55 and 25.
 */
const SHORT_STRING = 16
const SHORT_BYTES = 8

/** Bytes that `value` takes; -1 for null. */
export function bytesLength(value: Bytes): number {
  if (value === null || value === undefined) return -1
  if (typeof value !== 'string') return value.length
  const length = value.length
  if (length > SHORT_STRING) return Buffer.byteLength(value)
  for (let index = 0; index < length; index += 1) {
    if (value.charCodeAt(index) > 0x7f) return Buffer.byteLength(value)
  }
  return length
}

/** A nullable byte field: its length as `bytesLength` gave it, then the bytes. */
export function putBytes(buffer: Buffer, start: number, value: Bytes, length: number): number {
  const position = putVarint(buffer, start, length)
  if (length <= 0 || value === null || value === undefined) return position
  if (typeof value === 'string') putString(buffer, position, value, length)
  else if (length > SHORT_BYTES) buffer.set(value, position)
  else for (let i = 0; i < length; i += 1) buffer[position + i] = value[i] as number
  return position + length
}

/** As many bytes as characters: all of it is ASCII, which latin1 writes alike and faster. */
function putString(buffer: Buffer, position: number, value: string, length: number): void {
  if (length !== value.length) buffer.write(value, position, length, 'utf8')
  else if (length > SHORT_STRING) buffer.write(value, position, length, 'latin1')
  else for (let i = 0; i < length; i += 1) buffer[position + i] = value.charCodeAt(i)
}

/** Bytes of an int32 in zigzag encoding. */
export function varintSize(value: number): number {
  const zigzag = ((value << 1) ^ (value >> 31)) >>> 0
  if (zigzag < 0x80) return 1
  if (zigzag < 0x4000) return 2
  if (zigzag < 0x20_0000) return 3
  return zigzag < 0x1000_0000 ? 4 : 5
}

export function putVarint(buffer: Buffer, start: number, value: number): number {
  let position = start
  let rest = ((value << 1) ^ (value >> 31)) >>> 0
  while (rest > 0x7f) {
    buffer[position++] = (rest & 0x7f) | 0x80
    rest >>>= 7
  }
  buffer[position++] = rest
  return position
}

/** From here on the zigzag form is not exact in a double. */
const HALF = 2 ** 52
const SCRATCH = Buffer.alloc(10)

/** Bytes of a safe integer in zigzag encoding. */
export function varlongSize(value: number): number {
  if (value === (value | 0)) return varintSize(value)
  if (Math.abs(value) >= HALF) return putBigVarlong(SCRATCH, 0, value)
  let zigzag = value < 0 ? -2 * value - 1 : 2 * value
  let size = 1
  while (zigzag > 0x7f) {
    zigzag = Math.floor(zigzag / 128)
    size += 1
  }
  return size
}

export function putVarlong(buffer: Buffer, start: number, value: number): number {
  if (value === (value | 0)) return putVarint(buffer, start, value)
  if (Math.abs(value) >= HALF) return putBigVarlong(buffer, start, value)
  let position = start
  let zigzag = value < 0 ? -2 * value - 1 : 2 * value
  while (zigzag > 0x7f) {
    const rest = Math.floor(zigzag / 128)
    buffer[position++] = (zigzag - rest * 128) | 0x80
    zigzag = rest
  }
  buffer[position++] = zigzag
  return position
}

/** Timestamps that no clock gives: rare enough for a bigint. */
function putBigVarlong(buffer: Buffer, start: number, value: number): number {
  let position = start
  let zigzag = BigInt.asUintN(64, (BigInt(value) << 1n) ^ (BigInt(value) >> 63n))
  while (zigzag > 0x7fn) {
    buffer[position++] = Number(zigzag & 0x7fn) | 0x80
    zigzag >>= 7n
  }
  buffer[position++] = Number(zigzag)
  return position
}
