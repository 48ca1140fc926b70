/**
 * gzip (RFC 1952) that compresses nothing: blocks stored as they are (RFC 1951, 3.2.4), the same bytes on every version
 * of Node, and a hundredth of the cost of making a stream of zlib for each batch.
 */
import { crc32 } from '@node-rs/crc32'

const header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255] as const
const trailerBytes = 8
const blockHeaderBytes = 5
const blockBytes = 0xffff

export function gzipStored(bytes: Uint8Array): Buffer {
  const blocks = Math.max(1, Math.ceil(bytes.length / blockBytes))
  const out = Buffer.alloc(header.length + blocks * blockHeaderBytes + bytes.length + trailerBytes)
  out.set(header)
  let at: number = header.length
  for (let block = 0; block < blocks; block++) {
    const part = bytes.subarray(block * blockBytes, (block + 1) * blockBytes)
    at = out.writeUInt8(block === blocks - 1 ? 1 : 0, at)
    at = out.writeUInt16LE(part.length, at)
    at = out.writeUInt16LE(~part.length & 0xffff, at)
    out.set(part, at)
    at += part.length
  }
  at = out.writeUInt32LE(crc32(bytes), at)
  out.writeUInt32LE(bytes.length, at)
  return out
}

/** Throws when `bytes` are not what `gzipStored` makes, damaged, or more than `maxBytes`. */
export function gunzipStored(bytes: Uint8Array, maxBytes: number): Buffer {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (all.compare(Buffer.from(header), 0, header.length, 0, header.length) !== 0) {
    throw new Error('no header of gzip without compression')
  }
  const parts: Buffer[] = []
  let at: number = header.length
  for (let last = false; !last; ) {
    const kind = all.readUInt8(at)
    const length = all.readUInt16LE(at + 1)
    if (kind > 1 || all.readUInt16LE(at + 3) !== (~length & 0xffff)) throw new Error('no block')
    last = kind === 1
    parts.push(all.subarray(at + blockHeaderBytes, at + blockHeaderBytes + length))
    at += blockHeaderBytes + length
  }
  const out = Buffer.concat(parts)
  const damaged = at + trailerBytes !== all.length || crc32(out) !== all.readUInt32LE(at)
  if (damaged || out.length > maxBytes) throw new Error('damaged, or too many bytes')
  return out
}
