/**
 * The bytes of the journal's files.
 *
 * A file begins with a head: 'PHJ1', its number (uint32). Then come frames: length (uint32) and CRC-32C (uint32) of
 * what follows. In a segment a frame is one transaction: operations one after the other. In a checkpoint it is a
 * few hundred entries, and the last frame is the end mark.
 */
import type { Cpu } from '../base/env.ts'
import type { File } from '../base/files.ts'
import type { Change, KnownChecksum } from '../base/store.ts'
import { combined } from './crc-combine.ts'

export const headBytes = 8
export const frameHeadBytes = 8
const magic = Buffer.from('PHJ1')

export function head(number: number): Buffer {
  const bytes = Buffer.alloc(headBytes)
  magic.copy(bytes)
  bytes.writeUInt32BE(number, 4)
  return bytes
}

/** 'newer': another version of Playhead wrote it; 'none': it is none of ours, or cut short. */
export function readHead(bytes: Buffer): number | 'newer' | 'none' {
  if (bytes.length < headBytes || bytes.toString('latin1', 0, 3) !== 'PHJ') return 'none'
  return bytes[3] === magic[3] ? bytes.readUInt32BE(4) : 'newer'
}

/** A frame around `pieces`. */
export function frame(pieces: readonly Uint8Array[], cpu: Pick<Cpu, 'crc32c'>): Uint8Array[] {
  const sum = new Sum(cpu)
  for (const piece of pieces) sum.add(piece)
  return [sum.head(), ...pieces]
}

/** A transaction's frame. */
export function frameOf(changes: readonly Change[], cpu: Pick<Cpu, 'crc32c'>): Uint8Array[] {
  const sum = new Sum(cpu)
  const pieces: Uint8Array[] = [emptyPiece]
  for (const change of changes) {
    const start = encodeStart(change)
    pieces.push(start)
    sum.add(start)
    if (!('put' in change)) continue
    pieces.push(change.value)
    sum.add(change.value, change.known)
  }
  pieces[0] = sum.head()
  return pieces
}

const emptyPiece = new Uint8Array(0)

/** Length and checksum of a frame's payload, piece by piece. */
class Sum {
  readonly #cpu: Pick<Cpu, 'crc32c'>
  #length = 0
  #crc = 0

  constructor(cpu: Pick<Cpu, 'crc32c'>) {
    this.#cpu = cpu
  }

  add(piece: Uint8Array, known?: KnownChecksum): void {
    this.#length += piece.length
    if (known === undefined) {
      this.#crc = this.#cpu.crc32c(piece, this.#crc)
      return
    }
    const { from, crc32c } = known
    const before = this.#cpu.crc32c(piece.subarray(0, from), this.#crc)
    this.#crc = combined(before, crc32c, piece.length - from)
  }

  head(): Buffer {
    const head = Buffer.allocUnsafe(frameHeadBytes)
    head.writeUInt32BE(this.#length, 0)
    head.writeUInt32BE(this.#crc, 4)
    return head
  }
}

/** The payload of the frame at `position`; 'cut' when it is not all there, 'damaged' when it is another. */
export function readFrame(
  file: Pick<File, 'size' | 'read'>,
  position: number,
  cpu: Pick<Cpu, 'crc32c'>
): Buffer | 'cut' | 'damaged' {
  const start = file.read(position, frameHeadBytes)
  if (start.length < frameHeadBytes) return 'cut'
  const length = start.readUInt32BE(0)
  if (length > file.size - position - frameHeadBytes) return 'cut'
  const payload = file.read(position + frameHeadBytes, length)
  if (payload.length < length) return 'cut'
  return cpu.crc32c(payload) === start.readUInt32BE(4) ? payload : 'damaged'
}

/** Read at once by who reads a file from one end to the other. */
const windowBytes = 1024 * 1024

/** The file, for reading on and on: small frames are cut out of larger pieces. What was read is only valid until the next. */
export function windowOn(file: Pick<File, 'size' | 'read'>): Pick<File, 'size' | 'read'> {
  let from = 0
  let bytes: Buffer = Buffer.alloc(0)
  return {
    get size() {
      return file.size
    },
    read(position, length) {
      if (position < from || position + length > from + bytes.length) {
        from = position
        bytes = file.read(position, Math.max(length, windowBytes))
      }
      return bytes.subarray(position - from, position - from + length)
    }
  }
}

const operation = { put: 1, delete: 2, deleteRange: 3 } as const

/** One change as it lies in a frame; a put is followed by its value. */
function encodeStart(change: Change): Uint8Array {
  if ('put' in change) {
    const start = Buffer.allocUnsafe(7 + change.put.length)
    start[0] = operation.put
    start.writeUInt16BE(change.put.length, 1)
    start.writeUInt32BE(change.value.length, 3)
    start.set(change.put, 7)
    return start
  }
  const first = 'delete' in change ? change.delete : change.deleteFrom
  const second = 'delete' in change ? undefined : change.to
  const bytes = Buffer.allocUnsafe(5 + first.length + (second?.length ?? 0))
  bytes[0] = second === undefined ? operation.delete : operation.deleteRange
  bytes.writeUInt16BE(first.length, 1)
  bytes.writeUInt16BE(second?.length ?? 0, 3)
  bytes.set(first, 5)
  if (second !== undefined) bytes.set(second, 5 + first.length)
  return bytes
}

export interface ChangeReader {
  put(key: Buffer, value: Buffer, valueAt: number): void
  delete(key: Buffer): void
  deleteRange(from: Buffer, to: Buffer): void
}

/** Tells every change of a frame's payload; `valueAt` counts from the payload's start. */
export function readChanges(payload: Buffer, reader: ChangeReader): void {
  let at = 0
  while (at < payload.length) {
    const code = payload[at]
    const first = payload.readUInt16BE(at + 1)
    if (code === operation.put) {
      const length = payload.readUInt32BE(at + 3)
      const valueAt = at + 7 + first
      reader.put(
        payload.subarray(at + 7, valueAt),
        payload.subarray(valueAt, valueAt + length),
        valueAt
      )
      at = valueAt + length
      continue
    }
    const second = payload.readUInt16BE(at + 3)
    const middle = at + 5 + first
    const key = payload.subarray(at + 5, middle)
    if (code === operation.delete) reader.delete(key)
    else reader.deleteRange(key, payload.subarray(middle, middle + second))
    at = middle + second
  }
}
