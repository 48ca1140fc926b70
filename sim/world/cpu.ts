/**
 * The Cpu port without a thread pool: the same functions, run at once, whose results come after a virtual while.
 * gzip stores without compressing (stored.ts), as zlib's output differs between versions of Node and a trace must not.
 */
import { createHash, createHmac, pbkdf2Sync } from 'node:crypto'
import { crc32c } from '@node-rs/crc32'
import type { Clock, Cpu } from '../../src/base/env.ts'
import { PlayheadError } from '../../src/base/error.ts'
import type { SeededRandom } from './random.ts'
import { gunzipStored, gzipStored } from './stored.ts'

export function simulatedCpu(clock: Clock, random: SeededRandom): Cpu {
  const later = <T>(work: () => T): Promise<T> =>
    new Promise((resolve, reject) => {
      clock.after(random.next() * 2, () => {
        try {
          resolve(work())
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)))
        }
      })
    })
  return {
    crc32c: (bytes, seed) => crc32c(bytes, seed),
    compress: (codec, bytes) =>
      codec === 'none' ? Promise.resolve(bytes) : later(() => gzipStored(bytes)),
    decompress: (codec, bytes, maxBytes) =>
      codec === 'none' ? Promise.resolve(bytes) : later(() => gunzip(bytes, maxBytes)),
    randomBytes: length => {
      const bytes = Buffer.allocUnsafe(length)
      for (let i = 0; i < length; i++) bytes[i] = random.between(0, 255)
      return bytes
    },
    hash: (algorithm, bytes) => createHash(algorithm).update(bytes).digest(),
    hmac: (algorithm, key, bytes) => createHmac(algorithm, key).update(bytes).digest(),
    pbkdf2: (algorithm, password, salt, iterations) =>
      later(() =>
        pbkdf2Sync(password, salt, iterations, algorithm === 'sha256' ? 32 : 64, algorithm)
      )
  }
}

function gunzip(bytes: Uint8Array, maxBytes: number): Buffer {
  try {
    return gunzipStored(bytes, maxBytes)
  } catch (cause) {
    throw new PlayheadError('DECOMPRESSION_FAILED', 'the bytes are damaged, or too many', { cause })
  }
}
