/** What a read_committed consumer leaves out. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AbortedTransactions, type AbortedTransaction } from '../../src/protocol/records/aborted.ts'
import { BatchReader, onlyBatch } from '../../src/protocol/records/batch.ts'
import {
  readControl,
  type TransactionEnd,
  transactionMarker
} from '../../src/protocol/records/control.ts'
import { batchOf, cpu, failsWith, resealed } from './reading.ts'

/** A log: `data` of a producer (0: no transaction), or the end of its transaction. One record a batch. */
type Entry = number | [TransactionEnd, number]

function log(entries: readonly Entry[]): Buffer {
  return Buffer.concat(
    entries.map((entry, baseOffset) => {
      if (typeof entry !== 'number') {
        const [type, producer] = entry
        const producerId = BigInt(producer)
        const at = {
          producerId,
          producerEpoch: 0,
          coordinatorEpoch: 5,
          timestamp: 1,
          leaderEpoch: 0
        }
        return transactionMarker({ type, ...at, baseOffset }, cpu)
      }
      const inTransaction = {
        producerId: BigInt(entry),
        producerEpoch: 0,
        baseSequence: 0,
        transactional: true
      }
      return batchOf([{ value: 'x' }], { baseOffset, ...(entry === 0 ? {} : inTransaction) })
    })
  )
}

function committed(
  entries: readonly Entry[],
  aborted: readonly AbortedTransaction[] | null
): number[] {
  const transactions = new AbortedTransactions(aborted)
  const offsets: number[] = []
  for (const batch of new BatchReader(log(entries))) {
    const isDropped = transactions.drops(batch)
    if (!isDropped && !batch.isControl) offsets.push(batch.baseOffset)
  }
  return offsets
}

test('nothing aborted: everything but the markers is delivered', () => {
  assert.deepEqual(committed([0, 1, ['commit', 1], 0], null), [0, 1, 3])
  assert.deepEqual(committed([0, 1, ['commit', 1], 0], []), [0, 1, 3])
})

test('an aborted transaction goes from its first offset to its marker', () => {
  const entries: Entry[] = [1, 0, 1, ['abort', 1], 1, ['commit', 1]]
  assert.deepEqual(committed(entries, [{ producerId: 1n, firstOffset: 0 }]), [1, 4])
})

test('producers are told apart while their transactions interleave', () => {
  const entries: Entry[] = [1, 2, 1, 2, ['commit', 2], 1, ['abort', 1], 2, ['abort', 2]]
  const aborted = [
    { producerId: 2n, firstOffset: 7 },
    { producerId: 1n, firstOffset: 0 }
  ]
  assert.deepEqual(committed(entries, aborted), [1, 3])
})

test('a producer aborts, commits and aborts again in one answer', () => {
  const entries: Entry[] = [1, ['abort', 1], 1, ['commit', 1], 1, 1, ['abort', 1], 1]
  const aborted = [
    { producerId: 1n, firstOffset: 0 },
    { producerId: 1n, firstOffset: 4 }
  ]
  assert.deepEqual(committed(entries, aborted), [2, 7])
})

test('an answer that begins in the middle of an aborted transaction drops its rest', () => {
  const transactions = new AbortedTransactions([{ producerId: 1n, firstOffset: 0 }])
  const batches = [...new BatchReader(log([1, 1, ['abort', 1], 1]))].slice(1)
  assert.deepEqual(
    batches.map(batch => transactions.drops(batch)),
    [true, false, false]
  )
})

test('a marker that comes first, before what it could end, or one of a transaction without records, ends nothing else', () => {
  // Of a transaction whose records were compacted away, or that had none here.
  assert.deepEqual(committed([['abort', 1], 1, ['commit', 1], 2], []), [1, 3])
  assert.deepEqual(committed([['commit', 2], ['abort', 1], 0, ['abort', 2], 0], null), [2, 4])
  const again = [{ producerId: 1n, firstOffset: 1 }]
  assert.deepEqual(committed([['abort', 1], 1, 1, ['abort', 1], 1, ['commit', 1]], again), [4])
})

test('aborted transactions may be listed in any order', () => {
  const entries: Entry[] = [
    1,
    ['abort', 1],
    1,
    ['commit', 1],
    1,
    ['abort', 1],
    2,
    ['abort', 2],
    1,
    ['commit', 1]
  ]
  const aborted = [
    { producerId: 2n, firstOffset: 6 },
    { producerId: 1n, firstOffset: 0 },
    { producerId: 1n, firstOffset: 4 }
  ]
  for (const order of [
    [0, 1, 2],
    [2, 1, 0],
    [1, 2, 0],
    [2, 0, 1]
  ]) {
    const listed = order.flatMap(i => aborted[i] ?? [])
    assert.deepEqual(committed(entries, listed), [2, 8], `${order.join(' ')}`)
  }
})

test('an idempotent batch outside of a transaction is not dropped with its producer’s', () => {
  const transactions = new AbortedTransactions([{ producerId: 1n, firstOffset: 0 }])
  const plain = batchOf([{ value: 'x' }], { producerId: 1n, producerEpoch: 0, baseSequence: 0 })
  assert.equal(transactions.drops(onlyBatch(plain)), false)
})

test('a marker says which end, and which coordinator wrote it', () => {
  const marker = [...new BatchReader(log([1, ['abort', 1]]))][1]
  assert.ok(marker !== undefined)
  assert.deepEqual(readControl(marker), { type: 'abort', offset: 1, coordinatorEpoch: 5 })
})

test('control records of other kinds are passed over; what is no control record is an error', () => {
  const control = { control: true, transactional: true, producerId: 1n, producerEpoch: 0 }
  const read = (key: Buffer | null, value: Buffer | null) =>
    readControl(onlyBatch(batchOf([{ key, value }], control)))
  assert.equal(read(Buffer.from([0, 0, 0, 2]), null)?.type, 'other')
  assert.throws(() => read(null, null), failsWith('CORRUPT_RECORDS', /without a type/))
  assert.throws(
    () => read(Buffer.from([0, 0, 0]), null),
    failsWith('CORRUPT_RECORDS', /without a type/)
  )
  assert.throws(
    () => read(Buffer.from([0, 0, 0, 1]), null),
    failsWith('CORRUPT_RECORDS', /EndTxnMarker/)
  )
  const compressed = batchOf([{ key: Buffer.from([0, 0, 0, 1]) }], control)
  compressed.writeInt16BE(compressed.readInt16BE(21) | 4, 21)
  assert.throws(
    () => readControl(onlyBatch(resealed(compressed))),
    failsWith('CORRUPT_RECORDS', /compressed/)
  )
})
