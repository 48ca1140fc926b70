/** What a producer writes is what a consumer reads, and the bytes have one owner. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Compression, Cpu } from '../../src/base/env.ts'
import { onlyBatch } from '../../src/protocol/records/batch.ts'
import { BatchBuilder, singleRecordSize } from '../../src/protocol/records/builder.ts'
import { BufferPool } from '../../src/protocol/records/pool.ts'
import { stampProducer } from '../../src/protocol/records/stamp.ts'
import type { Bytes } from '../../src/protocol/records/write.ts'
import { batchOf, cpu, failsWith, type Input, MiB, recordsOf } from './reading.ts'

const text = fc.oneof(fc.string({ unit: 'grapheme', maxLength: 40 }), fc.string({ maxLength: 200 }))
const bytes: fc.Arbitrary<Bytes> = fc.oneof(
  fc.constantFrom(null, undefined, ''),
  text,
  fc.uint8Array({ maxLength: 200 }),
  fc.uint8Array({ maxLength: 300 }).map(array => Buffer.from(array))
)
const header = fc.record({ key: text, value: bytes }, { requiredKeys: ['key'] })
/** Two of them differ by no more than 2^53. */
const anyTime = fc.oneof(
  fc.integer({ min: -1, max: 2 ** 31 }),
  fc.integer({ min: -(2 ** 52) + 1, max: 2 ** 52 - 1 })
)
const record = fc.record({
  timestamp: anyTime,
  key: bytes,
  value: bytes,
  headers: fc.array(header, { maxLength: 4 })
})
const records = fc.array(record, { minLength: 1, maxLength: 20 })

const hex = (value: Bytes): string | null =>
  value === null || value === undefined ? null : Buffer.from(value as string).toString('hex')

function expected(list: readonly Input[], baseOffset: number) {
  return list.map(({ timestamp, key, value, headers = [] }, index) => ({
    offset: baseOffset + index,
    timestamp,
    key: hex(key),
    value: hex(value),
    headers: headers.map(each => [Buffer.from(each.key).toString(), hex(each.value)])
  }))
}

test('any records come out as they went in', async () => {
  const baseOffset = fc.integer({ min: 0, max: 2 ** 53 - 1000 })
  await fc.assert(
    fc.asyncProperty(records, baseOffset, async (list, base) => {
      const batch = onlyBatch(batchOf(list, { baseOffset: base }))
      assert.deepEqual(await recordsOf(batch), expected(list, base))
      assert.equal(batch.maxTimestamp, Math.max(...list.map(each => each.timestamp)))
    }),
    { numRuns: 500 }
  )
})

test('… with every compression', async () => {
  const compression = fc.constantFrom<Compression>('gzip', 'snappy', 'lz4', 'zstd', 'none')
  await fc.assert(
    fc.asyncProperty(records, compression, async (list, name) => {
      const builder = new BatchBuilder({ maxBytes: MiB, pool: new BufferPool(MiB) })
      for (const { timestamp, key, value, headers } of list)
        builder.append(timestamp, key, value, headers)
      const batch = onlyBatch((await builder.closeCompressed({}, name, cpu)).bytes)
      assert.equal(batch.compression, name)
      assert.deepEqual(await recordsOf(batch), expected(list, 0))
    }),
    { numRuns: 200 }
  )
})

test('sizes are what they say: the limit is never passed, the reckoned size is exact', () => {
  fc.assert(
    fc.property(records, fc.integer({ min: 70, max: 2000 }), (list, maxBytes) => {
      const builder = new BatchBuilder({ maxBytes })
      for (const { timestamp, key, value, headers } of list) {
        const before = builder.sizeBytes
        const alone = singleRecordSize(key, value, headers)
        const count = builder.recordCount
        const isTaken = builder.append(timestamp, key, value, headers)
        if (count === 0) assert.ok(isTaken && builder.sizeBytes === alone)
        else assert.ok(isTaken ? builder.sizeBytes <= maxBytes : builder.sizeBytes === before)
      }
      const { sizeBytes, recordCount } = builder
      const batch = builder.close({}, cpu)
      assert.deepEqual([batch.bytes.length, batch.recordCount], [sizeBytes, recordCount])
      assert.ok(builder.isEmpty && builder.sizeBytes === 61)
    })
  )
})

test('timestamps that the format cannot hold are refused, and leave the batch as it was', async () => {
  const builder = new BatchBuilder({ maxBytes: MiB })
  builder.append(2 ** 53 - 1, null, 'a')
  for (const timestamp of [Number.NaN, 0.5, 2 ** 53, Number.POSITIVE_INFINITY, -(2 ** 53) + 1]) {
    assert.throws(
      () => builder.append(timestamp, null, 'b'),
      failsWith('INVALID_ARGUMENT', /timestamp/)
    )
  }
  const batch = onlyBatch(builder.close({}, cpu).bytes)
  assert.deepEqual(
    (await recordsOf(batch)).map(each => each.timestamp),
    [2 ** 53 - 1]
  )
})

test('a buffer is not written over before its batch is released, and is used again after', () => {
  const builder = new BatchBuilder({ maxBytes: MiB, pool: new BufferPool(MiB) })
  const build = (value: string) => {
    builder.append(0, null, value)
    return builder.close({}, cpu)
  }
  const first = build('first')
  const copy = Buffer.from(first.bytes)
  const second = build('second')
  assert.notEqual(second.bytes.buffer, first.bytes.buffer)
  assert.deepEqual(first.bytes, copy)
  first.release()
  first.release()
  const [third, fourth] = [build('third'), build('fourth')]
  assert.equal(third.bytes.buffer, copy.length > 0 ? first.bytes.buffer : undefined)
  assert.notEqual(fourth.bytes.buffer, first.bytes.buffer)
})

test('while a batch is compressed its records are not written over', async () => {
  let finish = () => {}
  const slow: Pick<Cpu, 'crc32c' | 'compress'> = {
    crc32c: cpu.crc32c,
    compress: (_, raw) =>
      new Promise(resolve => {
        finish = () => resolve(Buffer.from(raw))
      })
  }
  const builder = new BatchBuilder({ maxBytes: MiB, pool: new BufferPool(MiB) })
  builder.append(0, null, 'first')
  const first = builder.closeCompressed({}, 'none', slow)
  builder.append(0, null, 'SECOND')
  builder.close({}, cpu)
  finish()
  const [only] = await recordsOf(onlyBatch((await first).bytes))
  assert.equal(only?.value, hex('first'))
})

test('a compression that fails is told, and the builder goes on', async () => {
  const builder = new BatchBuilder({ maxBytes: MiB })
  builder.append(0, null, 'a')
  const broken = { crc32c: cpu.crc32c, compress: () => Promise.reject(new RangeError('no')) }
  await assert.rejects(builder.closeCompressed({}, 'zstd', broken), RangeError)
  builder.append(0, null, 'b')
  assert.equal(builder.recordCount, 1)
})

test('a discarded batch leaves nothing', async () => {
  const builder = new BatchBuilder({ maxBytes: MiB, pool: new BufferPool(MiB) })
  builder.append(0, null, 'a')
  builder.discard()
  builder.append(0, null, 'b')
  const read = await recordsOf(onlyBatch(builder.close({}, cpu).bytes))
  assert.deepEqual(
    read.map(each => each.value),
    [hex('b')]
  )
})

test('the pool keeps no more than its limit, whatever comes back', () => {
  const pool = new BufferPool(10_000)
  const taken = Array.from({ length: 20 }, () => pool.take(1500))
  for (const buffer of taken) pool.give(buffer)
  assert.equal(pool.freeBytes, 4 * 2048)
  assert.equal(pool.take(2048).length, 2048)
  assert.equal(pool.freeBytes, 3 * 2048)
})

test('a batch sent again under another epoch has its checksum right', async () => {
  const bytes = batchOf([{ value: 'x' }], { producerId: 1n, producerEpoch: 0, baseSequence: 5 })
  const stamp = { producerId: 2n ** 62n, producerEpoch: 3, baseSequence: 0 }
  stampProducer(bytes, stamp, cpu)
  const batch = onlyBatch(bytes)
  const { producerId, producerEpoch, baseSequence } = batch
  assert.deepEqual({ producerId, producerEpoch, baseSequence }, stamp)
  assert.equal((await recordsOf(batch)).length, 1)
})
