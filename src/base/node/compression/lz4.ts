/**
 * lz4 in its frame format. The library has no limit on its output, and a block says how large it is at most, not
 * how large it is. So the frame is walked first: by its blocks, whose greatest sizes are mostly enough to know
 * that the limit holds, and only else by the sequences in them, which say it exactly.
 *
 * Frames without checksums that become no more than a megabyte (nearly all: a batch has a checksum of its own) are read here,
 * into memory of Node's: 0.7 to 1.3 GB/s, as the library, whose results lie where V8 doesn't count them. Consuming batches of
 * 900 KB took 280 MB with it, and takes 150.
 * (lz4_Frame_format.md, lz4_Block_format.md; Java: Lz4BlockInputStream.java, which reads one frame of
 * independent blocks; librdkafka and Python also write linked blocks and checksums.)
 */
import { type Codec, damaged, joined, lazily, MAX_PARTS, tooLarge } from './codec.ts'

const library = lazily('lz4', () => import('lz4-napi'))

/** Up to here at once, which takes a millisecond for so much. */
const READ_HERE_BYTES = 1024 * 1024
/** With the library: up to here at once, which for so much takes 0.2 to 0.5 ms. */
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
    if (frames.every(({ hasChecksum }) => !hasChecksum) && bound <= READ_HERE_BOUND) {
      const exact = exactSize(frames)
      if (exact <= READ_HERE_BYTES) return read(frames, exact)
    }
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

/** Buffers larger than this are not read here, however little they may become: it would take as long to find out. */
const READ_HERE_BOUND = 64 * READ_HERE_BYTES

interface Frame {
  readonly frame: Buffer
  readonly hasChecksum: boolean
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
  const hasChecksum = (flags & (flag.blockChecksum | flag.contentChecksum)) !== 0
  return { frame: { frame: bytes.subarray(start, at), hasChecksum, blocks }, end: at, frameBound }
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

/** What `frames` become, `size` bytes. */
function read(frames: readonly Frame[], size: number): Buffer {
  const out = Buffer.allocUnsafe(size)
  let to = 0
  for (const { blocks } of frames) {
    // Blocks may be linked: a match may begin in those before it, but not in another frame.
    const start = to
    for (const { bytes, isCompressed } of blocks) {
      if (isCompressed) to = readBlock(bytes, out, to, start)
      else to += bytes.copy(out, to)
    }
  }
  if (to !== size) throw cutOff()
  return out
}

/** Longer runs are copied by Node: a call costs as much as so many bytes one by one. */
const LITERALS_BY_CALL = 32
const MATCH_BY_CALL = 64

/** Reads a block into `out` at `to`, and returns what is behind it there. `out` has room for what the block becomes. */
function readBlock(block: Buffer, out: Buffer, to: number, start: number): number {
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
    if (literals > block.length - at || literals > out.length - to) throw cutOff()
    if (literals > LITERALS_BY_CALL) {
      block.copy(out, to, at, at + literals)
      at += literals
      to += literals
    } else for (const end = at + literals; at < end; ) out[to++] = block[at++] ?? 0
    if (at === block.length) return to
    if (block.length - at < 2) throw cutOff()
    const distance = (block[at] ?? 0) | ((block[at + 1] ?? 0) << 8)
    at += 2
    let match = token & 15
    if (match === 15) {
      let more = 255
      while (more === 255) {
        more = block[at++] ?? 0
        match += more
      }
    }
    match += 4
    let from = to - distance
    if (distance === 0 || from < start) throw damaged('lz4', 'a match from before the beginning')
    if (match > out.length - to) throw cutOff()
    if (match > MATCH_BY_CALL && match <= distance) {
      out.copyWithin(to, from, from + match)
      to += match
    } else for (const end = to + match; to < end; ) out[to++] = out[from++] ?? 0
  }
  // The last sequence has no match.
  throw cutOff()
}

function u32(bytes: Buffer, at: number): number {
  if (at > bytes.length - 4) throw cutOff()
  return bytes.readUInt32LE(at)
}

const cutOff = (): Error => damaged('lz4', 'it is cut off')
