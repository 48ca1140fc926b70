/** Against batches that Kafka 4.4's own code wrote. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { Compression } from '../../src/base/env.ts'
import { BatchReader, type BatchView, onlyBatch } from '../../src/protocol/records/batch.ts'
import { BatchBuilder, type EncodedBatch } from '../../src/protocol/records/builder.ts'
import { readControl, transactionMarker } from '../../src/protocol/records/control.ts'
import { stampLogAppendTime, stampOffset } from '../../src/protocol/records/stamp.ts'
import { cpu, MiB, type PlainRecord, recordsIn, recordsOf } from './reading.ts'

interface Golden {
  readonly name: string
  readonly compression: Compression
  readonly timestampType: 'CREATE_TIME' | 'LOG_APPEND_TIME'
  readonly baseOffset: number
  readonly lastOffset: number
  readonly producerId: number
  readonly producerEpoch: number
  readonly baseSequence: number
  readonly transactional: boolean
  readonly control: boolean
  readonly leaderEpoch: number
  readonly maxTimestamp: number
  readonly crc32c: number
  readonly sizeInBytes: number
  readonly records: readonly PlainRecord[]
  readonly hex: string
}

const golden: readonly Golden[] = readFileSync('test/golden/records.jsonl', 'utf8')
  .trim()
  .split('\n')
  .map(line => JSON.parse(line) as Golden)

test('the vectors are all there', () => {
  assert.equal(golden.length, 32)
})

for (const vector of golden) {
  test(`Kafka's ${vector.name} is decoded to what Kafka put in`, async () => {
    const batch = onlyBatch(Buffer.from(vector.hex, 'hex'))
    assert.deepEqual(headerOf(batch), expectedHeader(vector))
    assert.equal(batch.magic, 2)
    assert.equal(batch.crc, vector.crc32c)
    assert.equal(batch.sizeBytes, vector.sizeInBytes)
    assert.deepEqual(await recordsOf(batch), vector.records)
  })

  test(`${vector.name} is encoded as Kafka does`, async () => {
    const kafkas = Buffer.from(vector.hex, 'hex')
    const ours = (await encoded(vector)).bytes
    if (vector.compression === 'none') assert.equal(ours.toString('hex'), vector.hex)
    const batch = onlyBatch(ours)
    assert.deepEqual(headerOf(batch), headerOf(onlyBatch(kafkas)))
    assert.deepEqual(await recordsOf(batch), vector.records)
  })
}

test("Kafka's markers say commit and abort, and ours have the same bytes", () => {
  for (const vector of golden.filter(each => each.control)) {
    const control = readControl(onlyBatch(Buffer.from(vector.hex, 'hex')))
    const type = control?.type
    assert.ok(control !== undefined && (type === 'abort' || type === 'commit'))
    assert.equal(vector.name, `${type} marker`)
    assert.equal(control.offset, vector.baseOffset)
    const { producerEpoch, baseOffset, leaderEpoch, maxTimestamp: timestamp } = vector
    const { coordinatorEpoch } = control
    const producerId = BigInt(vector.producerId)
    const ours = {
      type,
      producerId,
      producerEpoch,
      coordinatorEpoch,
      baseOffset,
      leaderEpoch,
      timestamp
    }
    assert.equal(transactionMarker(ours, cpu).toString('hex'), vector.hex)
  }
})

test('all vectors one behind the other are walked batch by batch', () => {
  const bytes = golden.map(vector => Buffer.from(vector.hex, 'hex'))
  const batches = [...new BatchReader(Buffer.concat(bytes))]
  assert.deepEqual(
    batches.map(batch => [batch.baseOffset, batch.sizeBytes]),
    golden.map(vector => [vector.baseOffset, vector.sizeInBytes])
  )
})

test('a buffer that lies anywhere in its memory is read alike', () => {
  for (const vector of golden.filter(each => each.compression === 'none')) {
    const memory = Buffer.alloc(vector.sizeInBytes + 13, 0xff)
    const bytes = memory.subarray(7, 7 + vector.sizeInBytes)
    bytes.write(vector.hex, 'hex')
    const batch = onlyBatch(bytes)
    assert.deepEqual(recordsIn(batch, batch.payload), vector.records)
  }
})

function headerOf(batch: BatchView) {
  const { baseOffset, lastOffset, leaderEpoch, compression, timestampType, isTransactional } = batch
  const { isControl, hasDeleteHorizon, maxTimestamp, producerId, producerEpoch } = batch
  const { baseSequence, recordCount } = batch
  return {
    baseOffset,
    lastOffset,
    leaderEpoch,
    compression,
    timestampType,
    isTransactional,
    isControl,
    hasDeleteHorizon,
    maxTimestamp,
    producerId,
    producerEpoch,
    baseSequence,
    recordCount
  }
}

function expectedHeader(vector: Golden): ReturnType<typeof headerOf> {
  return {
    baseOffset: vector.baseOffset,
    lastOffset: vector.lastOffset,
    leaderEpoch: vector.leaderEpoch,
    compression: vector.compression,
    timestampType: vector.timestampType === 'CREATE_TIME' ? 'CreateTime' : 'LogAppendTime',
    isTransactional: vector.transactional,
    isControl: vector.control,
    hasDeleteHorizon: false,
    maxTimestamp: vector.maxTimestamp,
    producerId: BigInt(vector.producerId),
    producerEpoch: vector.producerEpoch,
    baseSequence: vector.baseSequence,
    recordCount: vector.records.length
  }
}

async function encoded(vector: Golden): Promise<EncodedBatch> {
  const builder = new BatchBuilder({ maxBytes: MiB })
  const bytes = (hex: string | null) => (hex === null ? null : Buffer.from(hex, 'hex'))
  const payload = await onlyBatch(Buffer.from(vector.hex, 'hex')).decompress(cpu, MiB)
  for (const [index, record] of vector.records.entries()) {
    const headers = record.headers.map(([key, value]) => ({ key, value: bytes(value) }))
    // Kafka keeps what the producer's clocks said when the broker's clock overrules them.
    const timestamp =
      vector.timestampType === 'CREATE_TIME'
        ? record.timestamp
        : producerTimestamp(vector, payload, index)
    assert.ok(builder.append(timestamp, bytes(record.key), bytes(record.value), headers))
  }
  const { producerEpoch, baseSequence, transactional, control } = vector
  const header = {
    producerId: BigInt(vector.producerId),
    producerEpoch,
    baseSequence,
    transactional,
    control
  }
  const batch =
    vector.compression === 'none'
      ? builder.close(header, cpu)
      : await builder.closeCompressed(header, vector.compression, cpu)
  stampOffset(batch.bytes, vector.baseOffset, vector.leaderEpoch)
  if (vector.timestampType === 'LOG_APPEND_TIME')
    stampLogAppendTime(batch.bytes, vector.maxTimestamp, cpu)
  return batch
}

/** The timestamp that is in the record, whatever the batch says of it. */
function producerTimestamp(vector: Golden, payload: Buffer, index: number): number {
  const kafkas = Buffer.from(vector.hex, 'hex')
  kafkas.writeUInt16BE(kafkas.readUInt16BE(21) & ~0x08, 21)
  return recordsIn(onlyBatch(kafkas), payload)[index]?.timestamp ?? Number.NaN
}
