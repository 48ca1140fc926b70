/**
 * gzip, and zstd where Node has it (22.15 and later), both from node:zlib: streaming decoders with a limit on
 * the output, on a thread of the pool. Small inputs are done at once: the way to the pool and back costs
 * 60 to 100 µs, of which 40 µs are the event loop's.
 */
import type { Compression } from '../../env.ts'
import { type Codec, damaged, tooLarge } from './codec.ts'

/** Up to here at once: compressing this much with gzip takes 80 µs, a bomb of this much at most 10 ms. */
const AT_ONCE_BYTES = 4096
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
  level => ({ level })
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
    level => ({ params: { [ZSTD_LEVEL]: level } })
  )
}

function codec(
  name: Compression,
  pairs: () => Pairs,
  withLevel: (level: number) => Partial<Options>
): Codec {
  return {
    compress(bytes, level) {
      const options = {
        chunkSize: chunkSize(bytes.length),
        ...(level === undefined ? {} : withLevel(level))
      }
      return run(pairs().compress, bytes, options)
    },
    async decompress(bytes, maxBytes) {
      const options = { chunkSize: chunkSize(bytes.length * 4), maxOutputLength: maxBytes }
      try {
        return await run(pairs().decompress, bytes, options)
      } catch (error) {
        const code = error instanceof Error && 'code' in error ? error.code : undefined
        if (code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(name, maxBytes, error)
        throw damaged(name, error instanceof Error ? error.message : String(error), error)
      }
    }
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
