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

/** Values shorter than this are copied: a piece of its own costs the system's call more. */
const byReferenceBytes = 1024

/** A transaction's frame. Large values are pieces by themselves, all that is small lies in one buffer between them. */
export function frameOf(changes: readonly Change[], cpu: Pick<Cpu, 'crc32c'>): Uint8Array[] {
  const sum = new Sum(cpu)
  const small = Buffer.allocUnsafe(frameHeadBytes + smallBytesOf(changes))
  const pieces: Uint8Array[] = []
  let cut = 0
  let summed = frameHeadBytes
  let at = frameHeadBytes
  for (const change of changes) {
    at = encodeStart(change, small, at)
    if (!('put' in change)) continue
    const { value, known } = change
    if (value.length < byReferenceBytes) {
      small.set(value, at)
      at += value.length
      continue
    }
    sum.add(small.subarray(summed, at))
    sum.add(value, known)
    pieces.push(small.subarray(cut, at), value)
    summed = cut = at
  }
  if (at > cut) {
    sum.add(small.subarray(summed, at))
    pieces.push(small.subarray(cut, at))
  }
  sum.head().copy(small)
  return pieces
}

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
  const sum = start.readUInt32BE(4)
  if (length > file.size - position - frameHeadBytes) return 'cut'
  const payload = file.read(position + frameHeadBytes, length)
  if (payload.length < length) return 'cut'
  return cpu.crc32c(payload) === sum ? payload : 'damaged'
}

/** Read at once by who reads a file from one end to the other. */
const windowBytes = 1024 * 1024

/** The file, for reading on and on: small frames are cut out of larger pieces. What was read is only valid until the next. */
export function windowOn(file: Pick<File, 'size' | 'read'>): Pick<File, 'size' | 'read'> {
  let from = 0
  let bytes: Buffer = Buffer.alloc(0)
  // The same for every piece: new memory would be most of what reading costs.
  let memory = Buffer.allocUnsafeSlow(0)
  const into = (size: number): Buffer => {
    if (size > memory.length) memory = Buffer.allocUnsafeSlow(Math.max(size, windowBytes))
    return memory.subarray(0, size)
  }
  return {
    get size() {
      return file.size
    },
    read(position, length) {
      if (position < from || position + length > from + bytes.length) {
        from = position
        bytes = file.read(position, Math.max(length, windowBytes), into)
      }
      return bytes.subarray(position - from, position - from + length)
    }
  }
}

const operation = { put: 1, delete: 2, deleteRange: 3 } as const

/** Of a change without a large value. */
function smallBytesOf(changes: readonly Change[]): number {
  let bytes = 0
  for (const change of changes) {
    if ('put' in change) {
      bytes += 7 + change.put.length
      if (change.value.length < byReferenceBytes) bytes += change.value.length
    } else if ('delete' in change) bytes += 5 + change.delete.length
    else bytes += 5 + change.deleteFrom.length + change.to.length
  }
  return bytes
}

/** Writes one change as it lies in a frame, at `at`; a put is followed by its value. Returns where it ends. */
function encodeStart(change: Change, bytes: Buffer, at: number): number {
  if ('put' in change) {
    bytes[at] = operation.put
    bytes.writeUInt16BE(change.put.length, at + 1)
    bytes.writeUInt32BE(change.value.length, at + 3)
    bytes.set(change.put, at + 7)
    return at + 7 + change.put.length
  }
  const first = 'delete' in change ? change.delete : change.deleteFrom
  const second = 'delete' in change ? undefined : change.to
  bytes[at] = second === undefined ? operation.delete : operation.deleteRange
  bytes.writeUInt16BE(first.length, at + 1)
  bytes.writeUInt16BE(second?.length ?? 0, at + 3)
  bytes.set(first, at + 5)
  if (second !== undefined) bytes.set(second, at + 5 + first.length)
  return at + 5 + first.length + (second?.length ?? 0)
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
