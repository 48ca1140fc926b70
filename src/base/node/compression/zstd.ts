/**
 * zstd for a Node whose zlib has none (before 22.15): zstd compiled to WebAssembly, on the event loop. It writes
 * into a buffer whose size it is told, so the frames are walked first for a size that they cannot exceed: the
 * memory taken is no more than that, nor than the limit, and what does not fit is refused. (RFC 8878)
 */
import { type Codec, damaged, joined, lazily, MAX_PARTS, tooLarge } from './codec.ts'
import { nativeZstd } from './zlib.ts'

const library = lazily('zstd', async () => {
  const zstd = await import('@bokuweb/zstd-wasm')
  await zstd.init()
  return zstd
})

const MAGIC = 0xfd2fb528
const SKIPPABLE = 0x184d2a50
const MAX_BLOCK_BYTES = 128 * 1024
/** Types of blocks: raw is 0, 3 is none. */
const RUN_LENGTH = 1
const COMPRESSED = 2
/** More than this its memory may not grow to, and that it would not notice. */
const MAX_WASM_BYTES = 256 * 1024 * 1024

export const wasmZstd: Codec = {
  async compress(bytes, level) {
    return (await library()).compress(bytes, level)
  },

  async decompress(input, maxBytes) {
    const bytes = Buffer.from(input.buffer, input.byteOffset, input.byteLength)
    const limit = Math.min(maxBytes, MAX_WASM_BYTES)
    const frames = framesOf(bytes)
    const { decompress } = await library()
    const parts: Uint8Array[] = []
    let left = limit
    for (const { frame, bound, contentSize } of frames) {
      if (contentSize > left) throw tooLarge('zstd', limit)
      let part: Uint8Array
      try {
        part = decompress(frame, { defaultHeapSize: Math.max(1, Math.min(bound, left)) })
      } catch (error) {
        if (bound > left) throw tooLarge('zstd', limit, error)
        throw damaged('zstd', error instanceof Error ? error.message : String(error), error)
      }
      left -= part.length
      parts.push(part)
    }
    return joined(parts)
  }
}

let chosen: Codec | undefined

function best(): Codec {
  chosen ??= nativeZstd() ?? wasmZstd
  return chosen
}

export const zstd: Codec = {
  compress: (bytes, level) => best().compress(bytes, level),
  decompress: (bytes, maxBytes) => best().decompress(bytes, maxBytes)
}

interface Frame {
  readonly frame: Buffer
  /** Its content is not larger. */
  readonly bound: number
  /** What the header says, never more than `bound`; 0 when it says nothing. */
  readonly contentSize: number
}

function framesOf(bytes: Buffer): Frame[] {
  const frames: Frame[] = []
  let at = 0
  while (at < bytes.length) {
    const magic = little(bytes, at, 4)
    if ((magic & 0xfffffff0) >>> 0 === SKIPPABLE) {
      at += 8 + little(bytes, at + 4, 4)
      if (at > bytes.length) throw cutOff()
      continue
    }
    if (magic !== MAGIC) throw damaged('zstd', `no frame begins with 0x${magic.toString(16)}`)
    const frame = frameAt(bytes, at)
    frames.push(frame)
    if (frames.length > MAX_PARTS) throw damaged('zstd', `more than ${MAX_PARTS} frames`)
    at += frame.frame.length
  }
  return frames
}

function frameAt(bytes: Buffer, start: number): Frame {
  const descriptor = little(bytes, start + 4, 1)
  const isSingleSegment = (descriptor & 0x20) !== 0
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0
  const sizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0
  const sizeAt = start + 5 + (isSingleSegment ? 0 : 1) + dictionaryBytes
  const contentSize = little(bytes, sizeAt, sizeBytes) + (sizeBytes === 2 ? 256 : 0)
  let bound = 0
  let at = sizeAt + sizeBytes
  for (let isLast = false; !isLast; ) {
    const header = little(bytes, at, 3)
    const type = (header >> 1) & 3
    const length = header >>> 3
    isLast = (header & 1) !== 0
    at += 3 + (type === RUN_LENGTH ? 1 : length)
    bound += type === COMPRESSED ? MAX_BLOCK_BYTES : length
    if (at > bytes.length) throw cutOff()
  }
  if ((descriptor & 4) !== 0) at += 4
  if (at > bytes.length) throw cutOff()
  if (contentSize > bound)
    throw damaged('zstd', `a size of ${contentSize} that its blocks do not have`)
  return { frame: bytes.subarray(start, at), bound, contentSize }
}

/** A number of up to eight bytes, the lowest first; not exact beyond 2^53, where no limit is either. */
function little(bytes: Buffer, at: number, length: number): number {
  if (at + length > bytes.length) throw cutOff()
  let value = 0
  for (let index = length - 1; index >= 0; index -= 1)
    value = value * 256 + (bytes[at + index] ?? 0)
  return value
}

const cutOff = (): Error => damaged('zstd', 'it is cut off')
