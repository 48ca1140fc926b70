/** Node's processor: checksums and compression from native libraries, cryptography from node:crypto. */

import { crc32c } from '@node-rs/crc32'
import type { Compression, Cpu } from '../env.ts'
import { type Codec, outputLimit } from './compression/codec.ts'
import { lz4 } from './compression/lz4.ts'
import { snappy } from './compression/snappy.ts'
import { gzip } from './compression/zlib.ts'
import { zstd } from './compression/zstd.ts'

/** Not by `import`: see net/tcp.ts. */
const { createHash, createHmac, pbkdf2, randomBytes } = process.getBuiltinModule('node:crypto')

const none: Codec = {
  compress: async bytes => bytes,
  decompress: async bytes => bytes
}

const codecs: Readonly<Record<Compression, Codec>> = { none, gzip, snappy, lz4, zstd }

export function nodeCpu(): Cpu {
  return {
    crc32c: (bytes, seed) => crc32c(bytes, seed),
    compress: (compression, bytes, level) => codecs[compression].compress(bytes, level),
    decompress(compression, bytes, maxBytes) {
      return codecs[compression].decompress(bytes, outputLimit(bytes.length, maxBytes))
    },
    randomBytes: length => randomBytes(length),
    hash: (algorithm, bytes) => createHash(algorithm).update(bytes).digest(),
    hmac: (algorithm, key, bytes) => createHmac(algorithm, key).update(bytes).digest(),
    pbkdf2: (algorithm, password, salt, iterations) =>
      new Promise((resolve, reject) => {
        const length = algorithm === 'sha256' ? 32 : 64
        pbkdf2(password, salt, iterations, length, algorithm, (error, key) => {
          if (error === null) resolve(key)
          else reject(error)
        })
      })
  }
}
