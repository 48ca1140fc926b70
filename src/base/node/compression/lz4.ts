/**
 * lz4 in its frame format. The library has no limit on its output, and a block says how large it is at most, not
 * how large it is. So the frame is walked first: by its blocks, whose greatest sizes are mostly enough to know
 * that the limit holds, and only else by the sequences in them, which say it exactly.
 * (lz4_Frame_format.md, lz4_Block_format.md; Java: Lz4BlockInputStream.java, which reads one frame of
 * independent blocks; librdkafka and Python also write linked blocks and checksums.)
 */
import { type Codec, damaged, joined, lazily, MAX_PARTS, tooLarge } from './codec.ts'

const library = lazily('lz4', () => import('lz4-napi'))

/** Up to here at once, which for so much takes 0.2 to 0.5 ms. */
const AT_ONCE_BYTES = 128 * 1024
const MAGIC = 0x184d2204
const SKIPPABLE = 0x184d2a50
const flag = {
  blockChecksum: 0x10,
  contentSize: 0x08,
  contentChecksum: 0x04,
  dictionary: 0x01
} as const
/** Out of one byte of a block no more than this many come. */
const MAX_GROWTH = 255

export const lz4: Codec = {
  async compress(input) {
    const { compressFrame, compressFrameSync } = await library()
    const bytes = Buffer.from(input.buffer, input.byteOffset, input.byteLength)
    return bytes.length <= AT_ONCE_BYTES ? compressFrameSync(bytes) : compressFrame(bytes)
  },

  async decompress(input, maxBytes) {
    const bytes = Buffer.from(input.buffer, input.byteOffset, input.byteLength)
    const { frames, bound } = framesOf(bytes)
    if (bound > maxBytes && exactSize(frames) > maxBytes) throw tooLarge('lz4', maxBytes)
    const { decompressFrame, decompressFrameSync } = await library()
    const parts: Buffer[] = []
    let size = 0
    for (const { frame } of frames) {
      const atOnce = Math.min(bound, maxBytes) <= AT_ONCE_BYTES
      const part = await decode(() =>
        atOnce ? decompressFrameSync(frame) : decompressFrame(frame)
      )
      size += part.length
      if (size > maxBytes) throw tooLarge('lz4', maxBytes)
      parts.push(part)
    }
    return joined(parts)
  }
}

async function decode(call: () => Buffer | Promise<Buffer>): Promise<Buffer> {
  try {
    return await call()
  } catch (error) {
    throw damaged('lz4', error instanceof Error ? error.message : String(error), error)
  }
}

interface Frame {
  readonly frame: Buffer
  /** As they lie in the frame, without their sizes and checksums. */
  readonly blocks: readonly { readonly bytes: Buffer; readonly isCompressed: boolean }[]
}

/** The frames in `bytes`, skippable ones left out, and a size that their content cannot exceed. */
function framesOf(bytes: Buffer): { frames: Frame[]; bound: number } {
  const frames: Frame[] = []
  let bound = 0
  let at = 0
  while (at < bytes.length) {
    const magic = u32(bytes, at)
    if ((magic & 0xfffffff0) >>> 0 === SKIPPABLE) {
      at += 8 + u32(bytes, at + 4)
      if (at > bytes.length) throw cutOff()
      continue
    }
    if (magic !== MAGIC) throw damaged('lz4', `no frame begins with 0x${magic.toString(16)}`)
    const { frame, end, frameBound } = frameAt(bytes, at)
    frames.push(frame)
    if (frames.length > MAX_PARTS) throw damaged('lz4', `more than ${MAX_PARTS} frames`)
    bound += frameBound
    at = end
  }
  return { frames, bound }
}

function frameAt(bytes: Buffer, start: number): { frame: Frame; end: number; frameBound: number } {
  const flags = bytes[start + 4] ?? 0
  const blockCode = ((bytes[start + 5] ?? 0) >> 4) & 7
  if (flags >> 6 !== 1) throw damaged('lz4', `frame version ${flags >> 6}`)
  if (blockCode < 4) throw damaged('lz4', `block size code ${blockCode}`)
  if ((flags & flag.dictionary) !== 0) throw damaged('lz4', 'a frame that needs a dictionary')
  const maxBlockBytes = 2 ** (8 + 2 * blockCode)
  const checksumBytes = (flags & flag.blockChecksum) === 0 ? 0 : 4
  const blocks: { bytes: Buffer; isCompressed: boolean }[] = []
  let frameBound = 0
  let at = start + 7 + ((flags & flag.contentSize) === 0 ? 0 : 8)
  for (let word = u32(bytes, at); word !== 0; word = u32(bytes, at)) {
    const isCompressed = word < 0x8000_0000
    const length = word & 0x7fff_ffff
    at += 4
    if (length > maxBlockBytes)
      throw damaged('lz4', `a block of ${length} bytes, ${maxBlockBytes} at most`)
    if (length > bytes.length - at) throw cutOff()
    blocks.push({ bytes: bytes.subarray(at, at + length), isCompressed })
    if (blocks.length > MAX_PARTS) throw damaged('lz4', `more than ${MAX_PARTS} blocks`)
    frameBound += isCompressed ? Math.min(maxBlockBytes, length * MAX_GROWTH) : length
    at += length + checksumBytes
  }
  at += 4 + ((flags & flag.contentChecksum) === 0 ? 0 : 4)
  if (at > bytes.length) throw cutOff()
  return { frame: { frame: bytes.subarray(start, at), blocks }, end: at, frameBound }
}

function exactSize(frames: readonly Frame[]): number {
  let size = 0
  for (const { blocks } of frames) {
    for (const { bytes, isCompressed } of blocks) {
      size += isCompressed ? blockSize(bytes) : bytes.length
    }
  }
  return size
}

/** What a block becomes: the sum over its sequences of literals and matches, none of which is copied. */
function blockSize(block: Buffer): number {
  let size = 0
  let at = 0
  while (at < block.length) {
    const token = block[at++] ?? 0
    let literals = token >> 4
    if (literals === 15) {
      let more = 255
      while (more === 255) {
        more = block[at++] ?? 0
        literals += more
      }
    }
    at += literals
    size += literals
    if (at >= block.length) return size
    at += 2
    let match = token & 15
    if (match === 15) {
      let more = 255
      while (more === 255) {
        more = block[at++] ?? 0
        match += more
      }
    }
    size += match + 4
  }
  return size
}

function u32(bytes: Buffer, at: number): number {
  if (at > bytes.length - 4) throw cutOff()
  return bytes.readUInt32LE(at)
}

const cutOff = (): Error => damaged('lz4', 'it is cut off')
