/** The compressions of Node's cpu: what they read and write, and where they stop. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { compressFrameSync, decompressFrameSync } from 'lz4-napi'
import { compressSync } from 'snappy'
import type { Compression, Cpu } from '../../src/base/env.ts'
import { settles, withWasm, xerialHeader, zstdRuns } from './compressing.ts'
import { cpu, failsWith, MiB } from './reading.ts'

const all: readonly Exclude<Compression, 'none'>[] = ['gzip', 'snappy', 'lz4', 'zstd']
const LIMIT = 64 * MiB
/** Compresses to about the half, and says at each place where it is. */
const sample = Buffer.from(Array.from({ length: 400_000 }, (_, index) => `${index} `).join(''))

/** To both sides of every threshold and block. */
const sizes = [0, 1, 4096, 4097, 32_768, 32_769, 131_073, 262_144, 262_145, sample.length]

const engines: readonly (readonly [string, Compression, Cpu])[] = [
  ...all.map(name => [name, name, cpu] as const),
  ['zstd in WebAssembly', 'zstd', withWasm]
]

for (const [name, compression, engine] of engines) {
  test(`${name} gives back any size, at once and on the pool`, async () => {
    for (const size of sizes) {
      const bytes = sample.subarray(0, size)
      const packed = await engine.compress(compression, bytes)
      assert.ok(bytes.equals(await engine.decompress(compression, packed, LIMIT)), `${size} bytes`)
    }
  })

  test(`${name} stops at the limit, and gives what just fits`, async () => {
    const packed = await engine.compress(compression, sample)
    assert.ok(sample.equals(await engine.decompress(compression, packed, sample.length)))
    const less = engine.decompress(compression, packed, sample.length - 1)
    await assert.rejects(
      less,
      failsWith('DECOMPRESSION_FAILED', new RegExp(`^${compression}: .*limit`))
    )
  })

  test(`${name} cut off anywhere is damaged`, async () => {
    const packed = await engine.compress(compression, sample.subarray(0, 3000))
    for (let length = 0; length < packed.length; length += 1) {
      if (compression === 'snappy' && length === 16) continue // the header of a stream without blocks
      if (compression === 'lz4' && length === 0) continue // no frames at all
      if (compression === 'zstd' && length === 0) continue
      const read = engine.decompress(compression, packed.subarray(0, length), LIMIT)
      await assert.rejects(read, failsWith('DECOMPRESSION_FAILED'), `${length} of ${packed.length}`)
    }
  })

  test(`${name} with any bytes changed ends in bytes or in DECOMPRESSION_FAILED`, async () => {
    const packed = Buffer.from(await engine.compress(compression, sample.subarray(0, 5000)))
    const change = fc.tuple(fc.oneof(fc.nat(40), fc.nat(packed.length - 1)), fc.nat(255))
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 4 }), async changes => {
        const bytes = Buffer.from(packed)
        for (const [at, value] of changes) bytes[at] = value
        await settles(engine.decompress(compression, bytes, LIMIT), LIMIT)
      }),
      { numRuns: 500 }
    )
  })
}

test('above 1 MiB more than 1,000 : 1 is refused, below it is not', async () => {
  for (const engine of [cpu, withWasm]) {
    const fits = await engine.decompress('zstd', zstdRuns(8), LIMIT)
    assert.equal(fits.length, MiB)
    await assert.rejects(
      engine.decompress('zstd', zstdRuns(9), LIMIT),
      failsWith('DECOMPRESSION_FAILED')
    )
  }
  const small = gzipSync(Buffer.alloc(MiB), { level: 9 })
  assert.equal((await cpu.decompress('gzip', small, LIMIT)).length, MiB)
})

test('lz4 of other clients is read: linked blocks, checksums, skippable and several frames', async () => {
  const read = async (bytes: Buffer) =>
    Buffer.from(await cpu.decompress('lz4', bytes, LIMIT)).toString()
  // Two linked blocks: 'abcdefgh' as literals; then a match of 8 bytes in the block before, and 'ijklm'.
  const first = '09000000' + '80' + '6162636465666768'
  const second = '09000000' + '04' + '0800' + '50' + '696a6b6c6d'
  const linked = Buffer.from(`04224d184040c0${first}${second}00000000`, 'hex')
  assert.equal(await read(linked), 'abcdefghabcdefghijklm')
  const text = sample.subarray(0, 1000)
  const checked = compressFrameSync(text, { contentChecksum: true, blockChecksums: true })
  assert.equal(await read(checked), text.toString())
  const skippable = Buffer.from('502a4d1803000000ffffff', 'hex')
  assert.equal(
    await read(Buffer.concat([skippable, checked, linked])),
    `${text}abcdefghabcdefghijklm`
  )
  checked[checked.length - 1] = (checked.at(-1) ?? 0) ^ 1
  await assert.rejects(read(checked), failsWith('DECOMPRESSION_FAILED'))
})

/** Text that repeats itself near and far, in short runs and long ones. */
const repetitive = fc
  .array(fc.tuple(fc.uint8Array({ maxLength: 300 }), fc.integer({ min: 1, max: 40 })), {
    minLength: 1,
    maxLength: 30
  })
  .map(runs => {
    const pieces = runs.map(([run, times]) =>
      Buffer.concat(Array.from({ length: times }, () => run))
    )
    return Buffer.concat([...pieces, ...pieces.slice(0, 3)])
  })

test('lz4 is read as the library reads it, and what is damaged is never read as something else', async () => {
  const damage = fc.tuple(fc.nat(), fc.integer({ min: 1, max: 255 }))
  await fc.assert(
    fc.asyncProperty(repetitive, damage, async (bytes, [at, flip]) => {
      const packed = compressFrameSync(bytes)
      assert.ok(bytes.equals(await cpu.decompress('lz4', packed, LIMIT)))
      // Behind the header, whose checksum only the library looks at.
      const place = 7 + (at % Math.max(1, packed.length - 7))
      packed[place] = (packed[place] ?? 0) ^ flip
      const read = await cpu.decompress('lz4', packed, LIMIT).catch((error: unknown) => {
        assert.equal((error as { code?: unknown }).code, 'DECOMPRESSION_FAILED')
        return null
      })
      if (read !== null) assert.ok(decompressFrameSync(packed).equals(read))
    }),
    { numRuns: 300 }
  )
})

test('what says that it becomes less than it does is read all the same, or is damaged', async () => {
  const [long, short] = [gzipSync(sample.subarray(0, 50_000)), gzipSync(Buffer.from('end'))]
  const members = await cpu.decompress('gzip', Buffer.concat([long, short]), LIMIT)
  assert.equal(Buffer.from(members).toString(), `${sample.subarray(0, 50_000)}end`)
  const lying = Buffer.from(long)
  lying.writeUInt32LE(7, lying.length - 4)
  await assert.rejects(cpu.decompress('gzip', lying, LIMIT), failsWith('DECOMPRESSION_FAILED'))
})

test('snappy is read raw, in xerial’s framing, and when a stream begins again within', async () => {
  const read = async (bytes: Buffer) =>
    Buffer.from(await cpu.decompress('snappy', bytes, LIMIT)).toString()
  assert.equal(await read(compressSync('raw')), 'raw')
  const framed = Buffer.from(await cpu.compress('snappy', Buffer.from('framed')))
  assert.deepEqual(framed.subarray(0, 16), xerialHeader)
  assert.equal(await read(Buffer.concat([framed, framed])), 'framedframed')
})

test('frames and blocks of nothing are limited in number', async () => {
  const empty = Buffer.from('04224d1860408200000000', 'hex')
  const many = (part: Buffer, count: number) =>
    Buffer.concat(Array.from({ length: count }, () => part))
  await assert.rejects(
    cpu.decompress('lz4', many(empty, 9000), LIMIT),
    failsWith('DECOMPRESSION_FAILED', /8192/)
  )
  const blocks = Buffer.concat([xerialHeader, many(Buffer.from([0, 0, 0, 1, 0]), 9000)])
  await assert.rejects(
    cpu.decompress('snappy', blocks, LIMIT),
    failsWith('DECOMPRESSION_FAILED', /8192/)
  )
})

test('levels are the library’s own', async () => {
  for (const compression of ['gzip', 'zstd'] as const) {
    const fast = await cpu.compress(compression, sample, 1)
    const small = await cpu.compress(compression, sample, 9)
    assert.ok(small.length < fast.length, compression)
  }
})

test('checksums go on where they stopped, and are those of RFC 3720', () => {
  assert.equal(cpu.crc32c(Buffer.from('123456789')), 0xe3069283)
  assert.equal(cpu.crc32c(Buffer.alloc(32)), 0x8a9136aa)
  assert.equal(cpu.crc32c(Buffer.from('56789'), cpu.crc32c(Buffer.from('1234'))), 0xe3069283)
})
