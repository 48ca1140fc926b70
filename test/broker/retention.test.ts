/** What logs lose: by time, by size, by request, by compaction; and what stays where it was. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { DeleteRecords } from '../../src/protocol/api/delete-records.ts'
import { DescribeLogDirs } from '../../src/protocol/api/describe-log-dirs.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { type Rec, Wire, batchOf, recordsOf } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })

async function create(wire: Wire, name: string, configs: { readonly [name: string]: string }) {
  const settings = Object.entries(configs).map(([key, value]) => ({ name: key, value }))
  const order = { name, numPartitions: 1, replicationFactor: 1, assignments: [], configs: settings }
  const { topics } = await wire.ask(CreateTopics, 7, { topics: [order] })
  assert.equal(topics[0]?.errorCode, 0, topics[0]?.errorMessage ?? '')
}

async function all(wire: Wire, topic: string): Promise<string[]> {
  const found: string[] = []
  let offset = (await wire.offset(topic, 0, -2)).offset
  const end = (await wire.offset(topic, 0, -1)).offset
  while (offset < end) {
    const records = recordsOf((await wire.fetch(topic, 0, offset)).records)
    const last = records.at(-1)
    if (last === undefined) break
    found.push(...records.filter(record => Number.parseInt(record) >= offset))
    offset = Number.parseInt(last) + 1
  }
  return found
}

async function sizeOf(wire: Wire, topic: string): Promise<number> {
  const { results } = await wire.ask(DescribeLogDirs, 4, { topics: [{ topic, partitions: [0] }] })
  return results[0]?.topics[0]?.partitions[0]?.partitionSize ?? -1
}

test('records older than retention.ms go, offsets stay', async () => {
  await using broker = await Broker.start()
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  await create(wire, 't', { 'retention.ms': '60000' })
  const now = Date.now()
  await wire.produce('t', 0, batchOf([{ value: 'old'.repeat(30_000), timestamp: now - 100_000 }]))
  await wire.produce('t', 0, batchOf([{ value: 'new', timestamp: now }]))
  await broker.retain()
  assert.deepEqual(await all(wire, 't'), ['1:new'])
  assert.equal((await wire.fetch('t', 0, 0)).errorCode, KafkaError.OFFSET_OUT_OF_RANGE)
  assert((await sizeOf(wire, 't')) < 200)
  await wire.close()
})

test('a log of only old records becomes empty, and goes on where it was', async () => {
  await using broker = await Broker.start()
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  await create(wire, 't', { 'retention.ms': '60000' })
  await wire.produce('t', 0, batchOf(['a', 'b']))
  await broker.retain()
  assert.deepEqual(await all(wire, 't'), [])
  assert.equal((await wire.offset('t', 0, -2)).offset, 2)
  assert.equal((await wire.produce('t', 0, batchOf(['c']))).baseOffset, 2)
  await wire.close()
})

test('a log larger than retention.bytes loses its beginning, and no more than it must', async () => {
  await using broker = await Broker.start()
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  await create(wire, 't', { 'retention.bytes': '500000', 'retention.ms': '-1' })
  for (let at = 0; at < 20; at++) await wire.produce('t', 0, batchOf([`${at}`.padEnd(50_000)]))
  await broker.retain()
  const left = await sizeOf(wire, 't')
  assert(left >= 500_000 && left < 700_000, `${left} bytes are left`)
  assert.equal((await all(wire, 't')).at(-1)?.trim(), '19:19')
  await wire.close()
})

test('deleted records are gone, also those within a batch', async () => {
  await using broker = await Broker.start({ topics: { t: 1 } })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  await wire.produce('t', 0, batchOf(['a', 'b', 'c']))
  const cut = async (offset: number) => {
    const partitions = [{ partitionIndex: 0, offset }]
    const body = { timeoutMs: 1000, topics: [{ name: 't', partitions }] }
    const answer = await wire.ask(DeleteRecords, 2, body)
    const { errorCode, lowWatermark } = answer.topics[0]?.partitions[0] ?? {}
    return [errorCode, lowWatermark]
  }
  assert.deepEqual(await cut(2), [0, 2])
  assert.deepEqual(await all(wire, 't'), ['2:c'])
  assert.deepEqual(await cut(4), [KafkaError.OFFSET_OUT_OF_RANGE, -1])
  assert.deepEqual(await cut(-1), [0, 3])
  assert.equal((await wire.offset('t', 0, 0)).offset, -1)
  await wire.close()
})

test('what is on its way to the disk survives the deletion of all before it', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'playhead-retention-'))
  try {
    await using broker = await Broker.start({ topics: { t: 1 }, dataDir, durability: 'fsync' })
    const producer = await Wire.connect(env, broker.bootstrap[0] ?? '')
    const deleter = await Wire.connect(env, broker.bootstrap[0] ?? '')
    const body = {
      timeoutMs: 1000,
      topics: [{ name: 't', partitions: [{ partitionIndex: 0, offset: -1 }] }]
    }
    for (let at = 0; at < 50; at++) {
      // Ever older: what is deleted had the latest time of all.
      const batch = batchOf([{ value: `${at}`, timestamp: 1_000 - at }])
      const produced = producer.produce('t', 0, batch)
      const { topics } = await deleter.ask(DeleteRecords, 2, body)
      const start = topics[0]?.partitions[0]?.lowWatermark ?? -1
      const { baseOffset } = await produced
      if (start > baseOffset) continue
      assert.deepEqual(recordsOf((await deleter.fetch('t', 0, baseOffset)).records), [
        `${at}:${at}`
      ])
      const latest = await deleter.offset('t', 0, -3)
      assert.deepEqual([latest.offset, latest.timestamp], [baseOffset, 1_000 - at])
    }
    await producer.close()
    await deleter.close()
  } finally {
    await rm(dataDir, { recursive: true })
  }
})

const compacted = {
  'cleanup.policy': 'compact',
  'min.cleanable.dirty.ratio': '0',
  'delete.retention.ms': '0'
}

test('a compacted topic takes no record without a key', async () => {
  await using broker = await Broker.start()
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  await create(wire, 't', compacted)
  assert.equal((await wire.produce('t', 0, batchOf(['x']))).errorCode, KafkaError.INVALID_RECORD)
  await wire.close()
})

const record = fc.record({
  key: fc.constantFrom('a', 'b', 'c', 'd'),
  value: fc.oneof({ weight: 3, arbitrary: fc.constantFrom('1', '2', '3') }, fc.constant(null))
})
/** Batches, and between some of them a compaction. */
const history = fc.array(
  fc.record({ batch: fc.array(record, { minLength: 1, maxLength: 4 }), retain: fc.boolean() }),
  { minLength: 1, maxLength: 8 }
)

test('compaction keeps the last record of each key, at its offset, and all of the newest batch', async () => {
  await using broker = await Broker.start()
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  let runs = 0
  await fc.assert(
    fc.asyncProperty(history, async steps => {
      const topic = `c${runs++}`
      await create(wire, topic, compacted)
      const log: Rec[] = []
      for (const { batch, retain } of steps) {
        await wire.produce(topic, 0, batchOf(batch))
        log.push(...batch)
        if (retain) await broker.retain()
      }
      await broker.retain()
      const newest = log.length - (steps.at(-1)?.batch.length ?? 0)
      // The newest batch is not looked at: a key in it does not count yet.
      const expected = log.flatMap(({ key, value }, offset) => {
        const isLast = !log.slice(offset + 1, newest).some(other => other.key === key)
        const stays = offset >= newest || (isLast && value !== null)
        return stays ? [`${offset}:${value}`] : []
      })
      assert.deepEqual(await all(wire, topic), expected)
    }),
    { numRuns: 30 }
  )
  await wire.close()
})
