/**
 * snappy, raw and in the framing of xerial's snappy-java, which is what Java clients write and read: a header
 * of 16 bytes, then blocks of at most 32 KiB, each behind its compressed length. A stream may begin again in
 * the middle (SnappyInputStream.java). Every raw block says how large it becomes, so that is added up before
 * anything is decompressed.
 */
import { type Codec, damaged, joined, lazily, MAX_PARTS, tooLarge } from './codec.ts'

const library = lazily('snappy', () => import('snappy'))

const XERIAL_MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00])
/** The magic, then version 1, compatible with 1. */
const XERIAL_HEADER = Buffer.concat([XERIAL_MAGIC, Buffer.from([0, 0, 0, 1, 0, 0, 0, 1])])
const BLOCK_BYTES = 32 * 1024
/** Up to here at once: 0.3 ms of compressing, and a block at a time is too little for the pool. */
const AT_ONCE_BYTES = 256 * 1024
/** Buffers of Node rather than the library's own memory, which Node frees late: measured twice as fast. */
const COPY = { asBuffer: true, copyOutputData: true } as const

export const snappy: Codec = {
  async compress(bytes) {
    const { compress, compressSync } = await library()
    const atOnce = bytes.length <= AT_ONCE_BYTES
    const blocks: (Buffer | Promise<Buffer>)[] = []
    for (let start = 0; start < bytes.length || start === 0; start += BLOCK_BYTES) {
      const block = bytes.subarray(start, start + BLOCK_BYTES)
      blocks.push(atOnce ? compressSync(block, COPY) : compress(block, COPY))
    }
    const parts: Buffer[] = [XERIAL_HEADER]
    for (const block of await Promise.all(blocks)) {
      const length = Buffer.alloc(4)
      length.writeInt32BE(block.length)
      parts.push(length, block)
    }
    return Buffer.concat(parts)
  },

  async decompress(input, maxBytes) {
    const bytes = Buffer.from(input.buffer, input.byteOffset, input.byteLength)
    const blocks = blocksOf(bytes)
    let size = 0
    for (const block of blocks) {
      size += uncompressedSize(block)
      if (size > maxBytes) throw tooLarge('snappy', maxBytes)
    }
    const { uncompress, uncompressSync } = await library()
    const atOnce = size <= AT_ONCE_BYTES
    try {
      const parts = blocks.map(block =>
        atOnce ? uncompressSync(block, COPY) : uncompress(block, COPY)
      )
      return joined((await Promise.all(parts)) as Buffer[])
    } catch (error) {
      throw damaged('snappy', error instanceof Error ? error.message : String(error), error)
    }
  }
}

/** The raw blocks in `bytes`. */
function blocksOf(bytes: Buffer): Buffer[] {
  if (!isXerial(bytes, 0)) return [bytes]
  const blocks: Buffer[] = []
  let at = 0
  while (at < bytes.length) {
    if (isXerial(bytes, at)) {
      at += XERIAL_HEADER.length
      continue
    }
    if (bytes.length - at < 4) throw damaged('snappy', 'it is cut off in the length of a block')
    const length = bytes.readInt32BE(at)
    at += 4
    if (length < 0 || length > bytes.length - at) {
      throw damaged('snappy', `a block of ${length} bytes where ${bytes.length - at} are left`)
    }
    blocks.push(bytes.subarray(at, at + length))
    if (blocks.length > MAX_PARTS) throw damaged('snappy', `more than ${MAX_PARTS} blocks`)
    at += length
  }
  return blocks
}

function isXerial(bytes: Buffer, at: number): boolean {
  return (
    bytes.length - at >= XERIAL_HEADER.length &&
    bytes.compare(XERIAL_MAGIC, 0, XERIAL_MAGIC.length, at, at + XERIAL_MAGIC.length) === 0
  )
}

/** The varint at the head of a raw block. */
function uncompressedSize(block: Buffer): number {
  let size = 0
  for (let index = 0; index < 5; index += 1) {
    const byte = block[index]
    if (byte === undefined) break
    size += (byte & 0x7f) * 2 ** (index * 7)
    if (byte < 0x80) return size
  }
  throw damaged('snappy', 'a block without a size')
}
