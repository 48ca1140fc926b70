/** Bytes that are cut off, damaged, or lie. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { PlayheadError } from '../../src/base/error.ts'
import { BatchReader, onlyBatch } from '../../src/protocol/records/batch.ts'
import { checkProducedHeader, checkProducedRecords } from '../../src/protocol/records/check.ts'
import { RecordCursor } from '../../src/protocol/records/cursor.ts'
import { RecordSource } from '../../src/protocol/records/source.ts'
import { batchOf, cpu, failsWith, type Input, recordsIn, recordsOf, resealed } from './reading.ts'

const three: readonly Input[] = [
  { key: 'a', value: 'one', headers: [{ key: 'h', value: '1' }] },
  { key: null, value: 'x'.repeat(300), timestamp: 123_456_789 },
  { key: '', value: null, headers: [{ key: '', value: null }] }
]

/** A batch whose payload is `payload`, whatever that is. */
function forged(payload: readonly number[], recordCount: number, lastOffsetDelta = 1000): Buffer {
  const batch = Buffer.concat([batchOf([{}]).subarray(0, 61), Buffer.from(payload)])
  batch.writeInt32BE(batch.length - 12, 8)
  batch.writeInt32BE(lastOffsetDelta, 23)
  batch.writeInt32BE(recordCount, 57)
  return resealed(batch)
}

/** Reads everything in `bytes`; throws nothing but a PlayheadError, or the test fails. */
function readAll(bytes: Buffer): number {
  let count = 0
  for (const batch of new BatchReader(bytes)) {
    if (batch.compression !== 'none') continue
    count += recordsIn(batch, batch.payload).length
  }
  return count
}

test('every prefix of a batch is incomplete, and says how much the whole needs', () => {
  const whole = batchOf(three)
  for (let length = 0; length < whole.length; length += 1) {
    const batches = new BatchReader(whole.subarray(0, length))
    assert.equal(batches.next(), undefined)
    assert.equal(batches.remainingBytes, length)
    assert.equal(batches.neededBytes, length === 0 ? 0 : length < 12 ? 61 : whole.length)
  }
})

test('a cut-off last batch is left alone; the ones in front of it are read', async () => {
  const [first, second] = [batchOf(three), batchOf(three, { baseOffset: 3 })]
  for (let cut = 1; cut <= second.length; cut += 1) {
    const bytes = Buffer.concat([first, second]).subarray(0, first.length + second.length - cut)
    const batches = new BatchReader(bytes)
    assert.equal(batches.next()?.lastOffset, 2)
    assert.equal(batches.next(), undefined)
    assert.equal(batches.remainingBytes, second.length - cut)
  }
  const both = [...new BatchReader(Buffer.concat([first, second]))]
  assert.deepEqual(
    both.map(batch => batch.nextOffset),
    [3, 6]
  )
  for (const batch of both) assert.equal((await recordsOf(batch)).length, 3)
})

test('no records at all are no batches', () => {
  assert.equal(new BatchReader(null).next(), undefined)
  assert.equal(new BatchReader(Buffer.alloc(0)).neededBytes, 0)
})

test('formats of before Kafka 0.11, and unknown ones, are named', () => {
  for (const [magic, message] of [
    [0, /format v0/],
    [1, /format v1/],
    [3, /magic 3/],
    [-1, /magic -1/]
  ] as const) {
    const batch = batchOf(three, { baseOffset: 77 })
    batch.writeInt8(magic, 16)
    assert.throws(() => new BatchReader(batch).next(), failsWith('CORRUPT_RECORDS', message))
    assert.throws(() => new BatchReader(batch).next(), failsWith('CORRUPT_RECORDS', /offset 77/))
  }
})

test('header fields that contradict each other are refused before anything is believed', () => {
  const cases: readonly (readonly [string, (batch: Buffer) => void, RegExp])[] = [
    ['length negative', b => b.writeInt32BE(-1, 8), /length -1/],
    ['length below a header', b => b.writeInt32BE(48, 8), /length 48/],
    ['count negative', b => b.writeInt32BE(-1, 57), /-1 records/],
    ['count above the offsets', b => b.writeInt32BE(4, 57), /4 records/],
    ['count of two thousand million', b => b.writeInt32BE(2 ** 31 - 1, 57), /2147483647 records/],
    ['last offset before the first', b => b.writeInt32BE(-1, 23), /last offset/],
    ['offset negative', b => b.writeBigInt64BE(-5n, 0), /negative/],
    ['offset beyond 2^53', b => b.writeBigInt64BE(2n ** 53n, 0), /beyond 2\^53/],
    ['last offset beyond 2^53', b => b.writeBigInt64BE(2n ** 53n - 2n, 0), /beyond 2\^53/],
    ['compression unknown', b => b.writeInt16BE(5, 21), /compression 5/]
  ]
  for (const [name, spoil, message] of cases) {
    const batch = batchOf(three)
    spoil(batch)
    assert.throws(() => new BatchReader(batch).next(), failsWith('CORRUPT_RECORDS', message), name)
  }
})

test('a count that only just fits the offsets must fit the bytes too', () => {
  const batch = forged([], 2 ** 31 - 1, 2 ** 31 - 2)
  assert.throws(
    () => new BatchReader(batch).next(),
    failsWith('CORRUPT_RECORDS', /cannot be in 0 bytes/)
  )
})

test('a wrong checksum is an error that names the offset, wherever the damage is', async () => {
  const whole = batchOf(three, { baseOffset: 4711 })
  for (let at = 21; at < whole.length; at += 1) {
    const batch = Buffer.from(whole)
    batch[at] = (batch[at] ?? 0) ^ 0x10
    const read = async () => recordsOf(onlyBatch(batch))
    await assert.rejects(read, failsWith('CORRUPT_RECORDS', /offset 4711/))
  }
})

test('timestamps beyond 2^53 are an error, not a wrong number', () => {
  const extreme = [(1n << 63n) - 1n, -(1n << 63n), 1n << 53n]
  for (const timestamp of extreme) {
    const batch = batchOf(three)
    batch.writeBigInt64BE(timestamp, 27)
    batch.writeBigInt64BE(timestamp, 35)
    const view = onlyBatch(resealed(batch))
    assert.throws(
      () => recordsIn(view, view.payload),
      failsWith('CORRUPT_RECORDS', /baseTimestamp/)
    )
    assert.throws(() => view.maxTimestamp, failsWith('CORRUPT_RECORDS', /maxTimestamp/))
  }
  const nearly = batchOf([{ timestamp: 0 }, { timestamp: 10 }])
  nearly.writeBigInt64BE(2n ** 53n - 5n, 27)
  const view = onlyBatch(resealed(nearly))
  assert.throws(() => recordsIn(view, view.payload), failsWith('CORRUPT_RECORDS', /timestamp/))
})

test('a timestamp delta of ten bytes is read, of more bits or of eleven refused', () => {
  const record = (...delta: number[]) => [2 * (delta.length + 5), 0, ...delta, 0, 1, 1, 0]
  const read = (...delta: number[]) => {
    const batch = onlyBatch(forged(record(...delta), 1))
    return recordsIn(batch, batch.payload)[0]?.timestamp
  }
  assert.equal(read(2), 1001)
  assert.equal(read(0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00), 1001)
  const nine = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]
  assert.throws(() => read(...nine, 1), failsWith('CORRUPT_RECORDS', /-9223372036854775808/))
  assert.throws(() => read(...nine, 2), failsWith('CORRUPT_RECORDS', /64 bits/))
  assert.throws(() => read(...nine, 0x80, 0), failsWith('CORRUPT_RECORDS', /64 bits/))
})

test('lengths and counts inside a record are held against what is left of it', () => {
  const huge = [0xfe, 0xff, 0xff, 0xff, 0x0f]
  const cases: readonly (readonly [string, readonly number[], RegExp])[] = [
    ['record length -1', [1, 0, 0, 0, 1, 1, 0], /length -1/],
    ['record length too small', [10, 0, 0, 0, 1, 1, 0], /length 5/],
    ['record length beyond the batch', [14, 0, 0, 0, 1, 1, 0], /length 7/],
    ['record length of 2^31-1', [...huge, 0, 0, 0, 1, 1, 0], /length 2147483647/],
    ['record length over 32 bits', [0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0, 0, 1, 1, 0], /32 bits/],
    ['record length over five bytes', [0x80, 0x80, 0x80, 0x80, 0x80, 0, 0, 0, 1, 1, 0], /32 bits/],
    ['key length -2', [12, 0, 0, 0, 3, 1, 0], /key length -2/],
    ['key length beyond', [12, 0, 0, 0, 8, 1, 0], /key length 4/],
    ['key length of 2^31-1', [20, 0, 0, 0, ...huge, 1, 0], /key length 2147483647/],
    ['value length -2', [12, 0, 0, 0, 1, 3, 0], /value length -2/],
    ['value length beyond', [12, 0, 0, 0, 1, 8, 0], /value length 4/],
    ['headers -1', [12, 0, 0, 0, 1, 1, 1], /-1 headers/],
    ['headers of 2^31-1', [20, 0, 0, 0, 1, 1, ...huge], /2147483647 headers/],
    ['header key null', [16, 0, 0, 0, 1, 1, 2, 1, 1], /header key length -1/],
    ['header value -2', [16, 0, 0, 0, 1, 1, 2, 0, 3], /header value length -2/],
    ['header value beyond', [16, 0, 0, 0, 1, 1, 2, 0, 4], /header value length 2/],
    ['bytes left in the record', [14, 0, 0, 0, 1, 1, 0, 0], /its parts end/],
    ['offset delta negative', [12, 0, 0, 1, 1, 1, 0], /offset delta -1/]
  ]
  for (const [name, payload, message] of cases) {
    const batch = onlyBatch(forged(payload, 1))
    assert.throws(
      () => recordsIn(batch, batch.payload),
      failsWith('CORRUPT_RECORDS', message),
      name
    )
  }
})

test('records behind the count, and a count behind the records, are errors', () => {
  const record = [12, 0, 0, 0, 1, 1, 0]
  const fewer = onlyBatch(forged([...record, 12, 0, 0, 2, 1, 1, 0], 1))
  assert.throws(
    () => recordsIn(fewer, fewer.payload),
    failsWith('CORRUPT_RECORDS', /7 bytes are left/)
  )
  const more = onlyBatch(forged([...record, 12, 0, 0, 2, 1, 1, 0].slice(0, 13), 1))
  assert.throws(() => recordsIn(more, more.payload), failsWith('CORRUPT_RECORDS'))
})

test('offsets that do not rise are an error: the position would go back', () => {
  const batch = onlyBatch(forged([12, 0, 0, 2, 1, 1, 0, 12, 0, 0, 2, 1, 1, 0], 2))
  assert.throws(
    () => recordsIn(batch, batch.payload),
    failsWith('CORRUPT_RECORDS', /offset delta 1/)
  )
})

test('an offset behind the batch’s last is an error', () => {
  const batch = onlyBatch(forged([12, 0, 0, 6, 1, 1, 0], 1, 2))
  assert.throws(
    () => recordsIn(batch, batch.payload),
    failsWith('CORRUPT_RECORDS', /offset delta 3/)
  )
})

test('after its error a cursor is at the end: no loop over the same damage', () => {
  const batch = onlyBatch(forged([12, 0, 0, 0, 1, 8, 0, 12, 0, 0, 2, 1, 1, 0], 2))
  const cursor = new RecordCursor(new RecordSource(batch, batch.payload, 't', 0))
  assert.throws(() => cursor.advance(), failsWith('CORRUPT_RECORDS'))
  assert.equal(cursor.advance(), false)
})

test('any bytes: a PlayheadError or a reading, never another error', () => {
  const whole = Buffer.concat([batchOf(three), batchOf(three, { baseOffset: 3 })])
  const changes = fc.array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), {
    minLength: 1,
    maxLength: 6
  })
  fc.assert(
    fc.property(changes, list => {
      const bytes = Buffer.from(whole)
      for (const [at, value] of list) bytes[at] = value
      onlyPlayheadErrors(() => readAll(bytes))
    }),
    { numRuns: 3000 }
  )
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 40 }),
      fc.integer({ min: 0, max: 5 }),
      (payload, count) => {
        onlyPlayheadErrors(() => readAll(forged([...payload], count)))
      }
    ),
    { numRuns: 3000 }
  )
})

test('a broker refuses a produced batch that is not whole', () => {
  const check = (spoil: (batch: Buffer) => void) => {
    const bytes = batchOf(three, {
      producerId: 7n,
      producerEpoch: 0,
      baseSequence: 0,
      transactional: true
    })
    spoil(bytes)
    const batch = onlyBatch(resealed(bytes))
    checkProducedHeader(batch, cpu)
    checkProducedRecords(batch, batch.payload)
  }
  check(() => {})
  const refused = (spoil: (batch: Buffer) => void, message: RegExp) =>
    assert.throws(() => check(spoil), failsWith('CORRUPT_RECORDS', message))
  refused(batch => batch.writeInt32BE(3, 23), /3 records in offsets 0 to 3/)
  refused(batch => batch.writeInt16BE(0x30, 21), /control/)
  refused(batch => batch.writeInt16BE(0x50, 21), /delete horizon/)
  refused(batch => batch.writeBigInt64BE(-1n, 43), /without a producer id/)
  refused(batch => batch.writeInt32BE(-1, 53), /without an epoch or a sequence/)
  const gap = forged([12, 0, 0, 0, 1, 1, 0, 12, 0, 0, 4, 1, 1, 0], 2, 1)
  const batch = onlyBatch(gap)
  assert.throws(
    () => checkProducedRecords(batch, batch.payload),
    failsWith('CORRUPT_RECORDS', /delta 2/)
  )
})

function onlyPlayheadErrors(read: () => void): void {
  try {
    read()
  } catch (error) {
    if (!(error instanceof PlayheadError)) throw error
    assert.equal(error.code, 'CORRUPT_RECORDS')
  }
}
