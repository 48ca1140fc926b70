/** Compressed bytes made by hand, and the compressions that this Node would not choose, for their tests. */
import assert from 'node:assert/strict'
import type { Cpu } from '../../src/base/env.ts'
import { PlayheadError } from '../../src/base/error.ts'
import { outputLimit } from '../../src/base/node/compression/codec.ts'
import { wasmZstd } from '../../src/base/node/compression/zstd.ts'
import { cpu } from './reading.ts'

/** The cpu with the zstd of WebAssembly, whatever this Node has of its own. */
export const withWasm: Cpu = {
  ...cpu,
  compress: (_, bytes, level) => wasmZstd.compress(bytes, level),
  decompress: (_, bytes, maxBytes) =>
    wasmZstd.decompress(bytes, outputLimit(bytes.length, maxBytes))
}

export const xerialHeader = Buffer.from('82534e41505059000000000100000001', 'hex')

/** A zstd frame of `count` blocks of 128 KiB, each one byte again and again. */
export function zstdRuns(count: number): Buffer {
  const blocks = Array.from({ length: count }, (_, index) => {
    const header = (131_072 << 3) | (1 << 1) | (index === count - 1 ? 1 : 0)
    return Buffer.from([header & 0xff, (header >> 8) & 0xff, (header >> 16) & 0xff, 0x61])
  })
  return Buffer.concat([Buffer.from('28b52ffd0058', 'hex'), ...blocks])
}

/** Ends in bytes within the limit, or in DECOMPRESSION_FAILED. */
export async function settles(read: Promise<Uint8Array>, limit: number): Promise<void> {
  try {
    assert.ok((await read).length <= limit)
  } catch (error) {
    if (!(error instanceof PlayheadError)) throw error
    assert.equal(error.code, 'DECOMPRESSION_FAILED')
  }
}
