/** Batches that lie, told to any broker: ours and Kafka's refuse them alike, give them no offset, and go on. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { IncrementalAlterConfigs } from '../../src/protocol/api/incremental-alter-configs.ts'
import { kafkaErrorName } from '../../src/protocol/errors.ts'
import { at } from '../../src/protocol/records/layout.ts'
import { type Site, ledTopic, unique, withWire } from './group-wire.ts'
import { batchOf } from './wire.ts'

const cpu = nodeCpu()

type Lie = readonly [what: string, lie: (batch: Buffer) => void, answer: string | RegExp]

/** The checksum is right again after each but the first. An expression: Kafka has no answer of its own to that. */
const lies: readonly Lie[] = [
  ['its checksum', batch => batch.writeUInt32BE(1, at.crc), 'CORRUPT_MESSAGE'],
  ['magic 0', batch => batch.writeInt8(0, at.magic), 'INVALID_RECORD'],
  ['magic 1', batch => batch.writeInt8(1, at.magic), 'INVALID_RECORD'],
  ['magic 3', batch => batch.writeInt8(3, at.magic), 'CORRUPT_MESSAGE'],
  ['-1 bytes', batch => batch.writeInt32BE(-1, at.length), 'CORRUPT_MESSAGE'],
  [
    '2^31-1 bytes',
    batch => batch.writeInt32BE(2 ** 31 - 1, at.length),
    /UNKNOWN_SERVER|INVALID_RECORD/
  ],
  ['compression 7', batch => batch.writeInt16BE(7, at.attributes), /UNKNOWN_SERVER|INVALID_RECORD/],
  ['a control batch', batch => batch.writeInt16BE(0x20, at.attributes), 'INVALID_RECORD'],
  [
    '2^31-1 offsets',
    batch => batch.writeInt32BE(2 ** 31 - 1, at.lastOffsetDelta),
    'INVALID_RECORD'
  ],
  ['-1 offsets', batch => batch.writeInt32BE(-1, at.lastOffsetDelta), 'INVALID_RECORD'],
  ['2^31-1 records', batch => batch.writeInt32BE(2 ** 31 - 1, at.recordCount), 'INVALID_RECORD'],
  ['-1 records', batch => batch.writeInt32BE(-1, at.recordCount), 'INVALID_RECORD'],
  ['no records', batch => batch.writeInt32BE(0, at.recordCount), 'INVALID_RECORD'],
  ['a record beyond the end', batch => batch.writeUInt8(0x7e, at.records), 'INVALID_RECORD'],
  ['a record of -1 bytes', batch => batch.writeUInt8(0x01, at.records), 'INVALID_RECORD'],
  ['the last of all times', batch => time(batch, 2n ** 63n - 1n), /INVALID_(TIMESTAMP|RECORD)/],
  ['the first of all times', batch => time(batch, -(2n ** 63n)), /INVALID_(TIMESTAMP|RECORD)/],
  ['a time in 100,000 years', batch => time(batch, 3_155_760_000_000_000n), 'INVALID_TIMESTAMP']
]

function time(batch: Buffer, ms: bigint): void {
  batch.writeBigInt64BE(ms, at.baseTimestamp)
  batch.writeBigInt64BE(ms, at.maxTimestamp)
}

export function batchStories(site: () => Site): void {
  test('a batch that lies is refused by its code before it has an offset, and the partition goes on', () =>
    withWire(site(), async wire => {
      const topic = unique('lies')
      await ledTopic(wire, topic, 1)
      for (const [next, [what, lie, answer]] of lies.entries()) {
        const batch = batchOf(['a', 'b'])
        lie(batch)
        const sum = cpu.crc32c(batch.subarray(at.attributes))
        if (next > 0) batch.writeUInt32BE(sum, at.crc)
        const code = kafkaErrorName((await wire.produce(topic, 0, batch)).errorCode)
        if (typeof answer === 'string') assert.equal(code, answer, what)
        else assert.match(code, answer, what)
        assert.equal((await wire.produce(topic, 0, batchOf(['x']))).baseOffset, next, what)
      }
    }))

  test('a topic that is compacted takes no record without a key from then on', () =>
    withWire(site(), async wire => {
      const topic = unique('compacted')
      await ledTopic(wire, topic, 1)
      const code = async (key: string | null) =>
        kafkaErrorName((await wire.produce(topic, 0, batchOf([{ key, value: 'v' }]))).errorCode)
      assert.equal(await code(null), 'NONE')
      const configs = [{ name: 'cleanup.policy', configOperation: 0, value: 'compact' }]
      const resources = [{ resourceType: 2, resourceName: topic, configs }]
      await wire.ask(IncrementalAlterConfigs, 1, { resources, validateOnly: false })
      // Kafka takes a moment to know.
      while ((await code(null)) !== 'INVALID_RECORD') await undefined
      assert.equal(await code('k'), 'NONE')
    }))
}
