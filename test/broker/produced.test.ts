/** Batches that must be looked into before they are appended: their order stays, and what is wrong is found. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { BatchReader, onlyBatch } from '../../src/protocol/records/batch.ts'
import { recompressed } from '../../src/protocol/records/filter.ts'
import { type Rec, Wire, batchOf, recordsOf } from './wire.ts'

const cpu = nodeCpu()
const env = nodeEnv({ cpu })

async function create(wire: Wire, configs: { readonly [name: string]: string }) {
  const settings = Object.entries(configs).map(([name, value]) => ({ name, value }))
  const order = { name: 't', numPartitions: 1, replicationFactor: 1, assignments: [] }
  const { topics } = await wire.ask(CreateTopics, 7, { topics: [{ ...order, configs: settings }] })
  assert.equal(topics[0]?.errorCode, 0)
}

async function zipped(records: readonly (string | Rec)[], sequence = -1): Promise<Buffer> {
  const producer = sequence < 0 ? {} : { producerId: 9n, producerEpoch: 0, baseSequence: sequence }
  const batch = onlyBatch(batchOf(records, producer))
  return (await recompressed(batch, batch.payload, 'gzip', cpu)).bytes
}

test('a topic with a compression of its own gets every batch in it', async () => {
  await using broker = await Broker.start()
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  await create(wire, { 'compression.type': 'lz4' })
  await wire.produce('t', 0, batchOf(['plain']))
  await wire.produce('t', 0, await zipped(['zipped']))
  const { records } = await wire.fetch('t', 0, 0)
  const batches = [...new BatchReader(records)]
  assert.deepEqual(
    batches.map(batch => batch.compression),
    ['lz4', 'lz4']
  )
  const values = []
  for (const batch of batches) {
    const plain = await recompressed(batch, await batch.decompress(cpu, 1000), 'none', cpu)
    values.push(...recordsOf(plain.bytes))
  }
  assert.deepEqual(values, ['0:plain', '1:zipped'])
  await wire.close()
})

test('a producer’s batches keep their order, though only some must be decompressed first', async () => {
  await using broker = await Broker.start()
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  await create(wire, { 'cleanup.policy': 'compact' })
  const records = await Promise.all(
    Array.from({ length: 20 }, async (_, at) => {
      const record = [{ key: `${at}`, value: `${at}` }]
      const header = { producerId: 9n, producerEpoch: 0, baseSequence: at }
      return at % 3 === 0 ? await zipped(record, at) : batchOf(record, header)
    })
  )
  const answers = await Promise.all(records.map(batch => wire.produce('t', 0, batch)))
  assert.deepEqual(
    answers.map(({ errorCode, baseOffset }) => [errorCode, baseOffset]),
    answers.map((_, at) => [0, at])
  )
  await wire.close()
})

test('a compressed record without a key is refused by a compacted topic, and a lie about what is compressed too', async () => {
  await using broker = await Broker.start()
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  await create(wire, { 'cleanup.policy': 'compact' })
  const keyless = await wire.produce('t', 0, await zipped(['x']))
  assert.equal(keyless.errorCode, KafkaError.INVALID_RECORD)
  const lie = Buffer.from(await zipped([{ key: 'k', value: 'v' }]))
  lie.fill(0, 61)
  lie.writeUInt32BE(cpu.crc32c(lie.subarray(21)), 17)
  assert.equal((await wire.produce('t', 0, lie)).errorCode, KafkaError.CORRUPT_MESSAGE)
  assert.equal((await wire.offset('t', 0, -1)).offset, 0)
  await wire.close()
})
