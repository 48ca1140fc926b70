/** Decompression bombs, in a process of their own: its peak of memory is what is measured. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { compressFrameSync } from 'lz4-napi'
import { compressSync } from 'snappy'
import type { Compression, Cpu } from '../../src/base/env.ts'
import { settles, withWasm, xerialHeader, zstdRuns } from './compressing.ts'
import { cpu, failsWith, MiB } from './reading.ts'

const LIMIT = 64 * MiB

test('bombs of a gigabyte end at the limit, without its memory', async () => {
  const zeros = Buffer.alloc(4 * MiB)
  const repeated = (part: Buffer, times = 256) =>
    Buffer.concat(Array.from({ length: times }, () => part))
  const length = (bytes: Buffer) => {
    const head = Buffer.alloc(4)
    head.writeInt32BE(bytes.length)
    return Buffer.concat([head, bytes])
  }
  const lz4 = compressFrameSync(zeros)
  const gzipped = gzipSync(zeros)
  const raw = compressSync(zeros)
  const bombs: readonly (readonly [string, Compression, Buffer, Cpu])[] = [
    ['gzip, many members', 'gzip', repeated(gzipped), cpu],
    ['xerial, many blocks', 'snappy', Buffer.concat([xerialHeader, repeated(length(raw))]), cpu],
    ['snappy that says 4 GiB', 'snappy', Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0]), cpu],
    ['lz4, many frames', 'lz4', repeated(lz4), cpu],
    ['lz4, one frame of many blocks', 'lz4', lz4OfBlocks(lz4, 256), cpu],
    ['zstd, one frame of many runs', 'zstd', zstdRuns(8192), cpu],
    ['zstd, many frames', 'zstd', repeated(zstdRuns(32)), cpu],
    ['zstd in WebAssembly, many runs', 'zstd', zstdRuns(8192), withWasm],
    ['zstd in WebAssembly, many frames', 'zstd', repeated(zstdRuns(32)), withWasm],
    ['zstd in WebAssembly that says 2^60', 'zstd', zstdSaying(2n ** 60n), withWasm],
    ['zstd in WebAssembly that says 60 MiB', 'zstd', zstdSaying(60n * 2n ** 20n), withWasm]
  ]
  for (const [name, compression, bomb, engine] of bombs) {
    const before = process.resourceUsage().maxRSS
    const read = engine.decompress(compression, bomb, LIMIT)
    await assert.rejects(read, failsWith('DECOMPRESSION_FAILED'), name)
    const grown = (process.resourceUsage().maxRSS - before) / 1024
    assert.ok(grown < 150, `${name}: ${grown} MB`)
  }
})

test('lz4 whose header lies about the size takes no memory for it', async () => {
  const before = process.resourceUsage().maxRSS
  const lying = Buffer.from('04224d1868400000000000000010' + '00' + '00000000', 'hex')
  await settles(cpu.decompress('lz4', lying, LIMIT), LIMIT)
  assert.ok(process.resourceUsage().maxRSS - before < 50 * 1024)
})

/** The one block of `frame` again and again in one frame. */
function lz4OfBlocks(frame: Buffer, times: number): Buffer {
  const block = frame.subarray(7, frame.length - 4)
  const repeated = Array.from({ length: times }, () => block)
  return Buffer.concat([frame.subarray(0, 7), ...repeated, frame.subarray(-4)])
}

/** A zstd frame of one byte that says it is of `size`. */
function zstdSaying(size: bigint): Buffer {
  const sizeBytes = Buffer.alloc(8)
  sizeBytes.writeBigUInt64LE(size)
  return Buffer.concat([
    Buffer.from('28b52ffdc058', 'hex'),
    sizeBytes,
    Buffer.from('09000061', 'hex')
  ])
}
