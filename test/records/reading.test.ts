/** What a consumer sees of a batch. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { onlyBatch } from '../../src/protocol/records/batch.ts'
import {
  RawRecord,
  RecordIterator,
  RecordView,
  rawRecords
} from '../../src/protocol/records/record.ts'
import { RecordSource } from '../../src/protocol/records/source.ts'
import { stampLogAppendTime, stampOffset } from '../../src/protocol/records/stamp.ts'
import { batchOf, cpu, type Input, recordsIn, resealed } from './reading.ts'

const letters: readonly Input[] = [...'abcdef'].map((value, index) => ({
  value,
  timestamp: 100 - index
}))

/** The batch after a log cleaner took out all but the records at these indexes. */
function compacted(batch: Buffer, kept: readonly number[]): Buffer {
  const view = onlyBatch(batch)
  const payload = view.payload
  const parts: Buffer[] = []
  for (let at = 0, index = 0; at < payload.length; index += 1) {
    const end = at + 1 + (payload[at] ?? 0) / 2
    if (kept.includes(index)) parts.push(payload.subarray(at, end))
    at = end
  }
  const result = Buffer.concat([batch.subarray(0, 61), ...parts])
  result.writeInt32BE(result.length - 12, 8)
  result.writeInt32BE(kept.length, 57)
  return resealed(result)
}

test('null and empty are two things, in key, value and header values', () => {
  const headers = [
    { key: 'h', value: null },
    { key: 'h', value: '' },
    { key: '', value: 'é' },
    { key: 'h', value: null }
  ]
  const batch = onlyBatch(
    batchOf([
      { key: null, value: '' },
      { key: '', value: null, headers }
    ])
  )
  assert.deepEqual(
    recordsIn(batch, batch.payload).map(({ key, value, headers: list }) => ({ key, value, list })),
    [
      { key: null, value: '', list: [] },
      {
        key: '',
        value: null,
        list: [
          ['h', null],
          ['h', ''],
          ['', 'c3a9'],
          ['h', null]
        ]
      }
    ]
  )
})

test('records below the offset asked for are passed over', () => {
  const batch = onlyBatch(batchOf(letters, { baseOffset: 50 }))
  for (let from = 0; from < 60; from += 1) {
    const offsets = recordsIn(batch, batch.payload, from).map(record => record.offset)
    assert.deepEqual(
      offsets,
      [50, 51, 52, 53, 54, 55].filter(offset => offset >= from)
    )
  }
})

test('what compaction took out is a gap; the batch still ends where it did', () => {
  const batch = onlyBatch(compacted(batchOf(letters, { baseOffset: 50 }), [1, 4]))
  const records = recordsIn(batch, batch.payload)
  assert.deepEqual(
    records.map(record => [record.offset, record.timestamp]),
    [
      [51, 99],
      [54, 96]
    ]
  )
  assert.deepEqual([batch.lastOffset, batch.nextOffset], [55, 56])
  assert.equal(recordsIn(batch, batch.payload, 52).length, 1)
})

test('a batch that compaction emptied has no records, and a next offset', async () => {
  const bytes = compacted(batchOf(letters), [])
  bytes.writeInt16BE(4, 21)
  const batch = onlyBatch(resealed(bytes))
  assert.equal(batch.recordCount, 0)
  assert.deepEqual(recordsIn(batch, await batch.decompress(cpu, 1000)), [])
  assert.equal(batch.nextOffset, 6)
})

test('with LogAppendTime all records have the time of their appending', () => {
  const bytes = batchOf(letters)
  stampLogAppendTime(bytes, 1_800_000_000_000, cpu)
  stampOffset(bytes, 2 ** 40, 9)
  const batch = onlyBatch(bytes)
  batch.verify(cpu)
  assert.equal(batch.leaderEpoch, 9)
  const records = recordsIn(batch, batch.payload)
  assert.deepEqual(new Set(records.map(record => record.timestamp)), new Set([1_800_000_000_000]))
  assert.equal(records.at(-1)?.offset, 2 ** 40 + 5)
})

test('a record knows its topic and partition, and key and value lie in the answer itself', () => {
  const batch = onlyBatch(batchOf([{ key: 'k', value: 'v' }]))
  const [record] = rawRecords(new RecordSource(batch, batch.payload, '__proto__', 12))
  assert.ok(record instanceof RawRecord)
  assert.deepEqual([record.topic, record.partition], ['__proto__', 12])
  assert.equal(record.value?.buffer, batch.bytes.buffer)
  assert.equal(record.value?.toString(), 'v')
})

test('a consumer’s own record decodes through its source, one object per record', () => {
  class Decoding extends RecordSource {
    decoded = 0
    decode(bytes: Buffer | null): number {
      this.decoded += 1
      return Number(bytes)
    }
  }
  class NumberRecord extends RecordView<Decoding> {
    get key(): Buffer | null {
      return this.keyBytes()
    }
    get value(): number {
      return this.source.decode(this.valueBytes())
    }
  }
  const batch = onlyBatch(batchOf([{ value: '1' }, { value: '22' }]))
  const source = new Decoding(batch, batch.payload, 't', 0)
  const records = [...new RecordIterator(source, NumberRecord)]
  assert.equal(source.decoded, 0)
  assert.deepEqual(
    records.map(record => record.value),
    [1, 22]
  )
  assert.deepEqual(
    records.map(record => record.offset),
    [0, 1]
  )
})

test('a record that is logged shows itself, not where its parts lie', () => {
  const batch = onlyBatch(batchOf([{ key: 'k', value: null, headers: [{ key: 'h', value: '1' }] }]))
  const [record] = rawRecords(new RecordSource(batch, batch.payload, 'orders', 0))
  const seen = inspect(record)
  assert.match(seen, /topic: 'orders'/)
  assert.match(seen, /key: <Buffer 6b>/)
  assert.match(seen, /key: 'h', value: <Buffer 31>/)
  assert.doesNotMatch(seen, /payload|valueStart/)
})
