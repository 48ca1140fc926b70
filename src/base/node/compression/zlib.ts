/**
 * gzip, and zstd where Node has it (22.15 and later), both from node:zlib: streaming decoders with a limit on
 * the output, on a thread of the pool. What is small is done at once: the way to the pool and back costs
 * 60 to 100 µs, of which 40 µs are the event loop's, and leaves more garbage.
 */
import type { Compression } from '../../env.ts'
import { type Codec, damaged, tooLarge } from './codec.ts'

/** Up to here at once: compressing this much with gzip takes 80 µs, a bomb of this much at most 10 ms. */
const AT_ONCE_BYTES = 4096
/** What says that it becomes no more than this is decompressed at once: 0.1 ms for zstd, 0.3 ms for gzip. */
const AT_ONCE_OUTPUT_BYTES = 128 * 1024
/** Output that fills its chunk to the end makes zlib take another. */
const SPARE_BYTES = 64
const MIN_CHUNK_BYTES = 16 * 1024
const MAX_CHUNK_BYTES = 1024 * 1024

type Options = { chunkSize: number; maxOutputLength?: number; level?: number; params?: object }
type Done = (error: Error | null, result: Buffer) => void
interface Pair {
  readonly atOnce: (bytes: Uint8Array, options: Options) => Buffer
  readonly onPool: (bytes: Uint8Array, options: Options, done: Done) => void
}
interface Pairs {
  readonly compress: Pair
  readonly decompress: Pair
}

/** What node:zlib has of zstd; absent before Node 22.15. */
interface ZlibWithZstd {
  readonly zstdCompress?: Pair['onPool']
  readonly zstdCompressSync?: Pair['atOnce']
  readonly zstdDecompress?: Pair['onPool']
  readonly zstdDecompressSync?: Pair['atOnce']
}
/** ZSTD_c_compressionLevel of zstd.h. */
const ZSTD_LEVEL = 100
const ZSTD_MAGIC = 0xfd2fb528

/** Loaded when something is first compressed. Not by `import`: see net/tcp.ts. */
function zlib() {
  return process.getBuiltinModule('node:zlib')
}

export const gzip: Codec = codec(
  'gzip',
  () => ({
    compress: { atOnce: zlib().gzipSync, onPool: zlib().gzip },
    decompress: { atOnce: zlib().gunzipSync, onPool: zlib().gunzip }
  }),
  level => ({ level }),
  // ISIZE, at the end of the last member (RFC 1952).
  bytes => (bytes.length < 18 ? 0 : bytes.readUInt32LE(bytes.length - 4))
)

/** Null where Node's zlib has no zstd. */
export function nativeZstd(): Codec | null {
  const { zstdCompress, zstdCompressSync, zstdDecompress, zstdDecompressSync } =
    zlib() as ZlibWithZstd
  if (!zstdCompress || !zstdCompressSync || !zstdDecompress || !zstdDecompressSync) return null
  return codec(
    'zstd',
    () => ({
      compress: { atOnce: zstdCompressSync, onPool: zstdCompress },
      decompress: { atOnce: zstdDecompressSync, onPool: zstdDecompress }
    }),
    level => ({ params: { [ZSTD_LEVEL]: level } }),
    zstdContentSize
  )
}

function codec(
  name: Compression,
  pairs: () => Pairs,
  withLevel: (level: number) => Partial<Options>,
  /** How large the bytes say that they become, honest or not; 0: they don't. */
  saidSize: (bytes: Buffer) => number
): Codec {
  return {
    compress(bytes, level) {
      const options = {
        chunkSize: chunkSize(bytes.length),
        ...(level === undefined ? {} : withLevel(level))
      }
      return run(pairs().compress, bytes, options)
    },
    async decompress(input, maxBytes) {
      const bytes = Buffer.from(input.buffer, input.byteOffset, input.byteLength)
      const said = saidSize(bytes)
      const { decompress } = pairs()
      try {
        if (said > 0 && said <= Math.min(AT_ONCE_OUTPUT_BYTES, maxBytes)) {
          const done = asSaid(decompress, bytes, said)
          if (done !== null) return done
        }
        const size = said > 0 ? said + SPARE_BYTES : bytes.length * 4
        return await run(decompress, bytes, {
          chunkSize: chunkSize(size),
          maxOutputLength: maxBytes
        })
      } catch (error) {
        if (isTooLarge(error)) throw tooLarge(name, maxBytes, error)
        throw damaged(name, error instanceof Error ? error.message : String(error), error)
      }
    }
  }
}

/** Null: they become more than they say. */
function asSaid({ atOnce }: Pair, bytes: Buffer, said: number): Buffer | null {
  const chunk = said + SPARE_BYTES
  try {
    return atOnce(bytes, { chunkSize: chunk, maxOutputLength: chunk })
  } catch (error) {
    if (isTooLarge(error)) return null
    throw error
  }
}

function isTooLarge(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE'
}

/** Of its first frame (RFC 8878, 3.1.1.1): Java's and librdkafka's writers say it or leave it out, as they like. */
function zstdContentSize(bytes: Buffer): number {
  if (bytes.length < 18 || bytes.readUInt32LE(0) !== ZSTD_MAGIC) return 0
  const descriptor = bytes[4] ?? 0
  const single = (descriptor & 0x20) !== 0
  const at = 5 + (single ? 0 : 1) + ([0, 1, 2, 4][descriptor & 3] ?? 0)
  switch (descriptor >> 6) {
    case 0:
      return single ? (bytes[at] ?? 0) : 0
    case 1:
      return bytes.readUInt16LE(at) + 256
    case 2:
      return bytes.readUInt32LE(at)
    default:
      // 4 GiB and more: no batch.
      return 0
  }
}

/** zlib gives its output in chunks of this size and joins them: one that fits saves the joining. */
function chunkSize(expectedBytes: number): number {
  return Math.min(MAX_CHUNK_BYTES, Math.max(MIN_CHUNK_BYTES, expectedBytes))
}

function run(pair: Pair, bytes: Uint8Array, options: Options): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (bytes.length <= AT_ONCE_BYTES) resolve(pair.atOnce(bytes, options))
    else {
      pair.onPool(bytes, options, (error, result) => {
        if (error === null) resolve(result)
        else reject(error)
      })
    }
  })
}
