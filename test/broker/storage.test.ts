/** A disk that fails under the broker: who asks is told, nothing half-written is seen, and it goes on where it can. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Disk } from '../../sim/world/disk.ts'
import type { Log } from '../../src/base/env.ts'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { spaces } from '../../src/broker/keys.ts'
import { Changes, type Store } from '../../src/base/store.ts'
import { startBroker } from '../../src/broker/broker.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { OffsetCommit } from '../../src/protocol/api/offset-commit.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { JournalStore } from '../../src/store/journal.ts'
import { Wire, batchOf, recordsOf } from './wire.ts'

const silent: Log = { debug() {}, info() {}, warn() {}, error() {} }
const env = nodeEnv({ cpu: nodeCpu(), log: silent })

async function open(disk: Disk) {
  const journal = { files: disk, cpu: env.cpu, log: silent, durability: 'fsync' } as const
  const broker = await startBroker(
    { env, store: await JournalStore.open(journal) },
    { topics: { t: 1 } }
  )
  return { broker, wire: await Wire.connect(env, broker.bootstrap[0] ?? '') }
}

const order = { numPartitions: 1, replicationFactor: 1, assignments: [], configs: [] }
const commit = {
  groupId: 'g',
  memberId: '',
  topics: [
    { name: 't', partitions: [{ partitionIndex: 0, committedOffset: 1, committedMetadata: '' }] }
  ]
}

/** Asks until the answer has no error: the broker reads its store anew. */
async function eventually(ask: () => Promise<number>): Promise<void> {
  while ((await ask()) !== 0);
}

test('on a full disk every write is refused and leaves nothing, and the next one lands', async () => {
  const disk = new Disk()
  const { broker, wire } = await open(disk)
  const who = { producerId: 5n, producerEpoch: 0 }
  await wire.produce('t', 0, batchOf(['a'], { ...who, baseSequence: 0 }))
  const waiting = Wire.connect(env, broker.bootstrap[0] ?? '').then(async reader => {
    const { records } = await reader.fetch('t', 0, 1, { maxWaitMs: 30_000 })
    await reader.close()
    return recordsOf(records)
  })

  disk.fault = operation => operation === 'append' && 'partly'
  const refused = await wire.produce('t', 0, batchOf(['lost'], { ...who, baseSequence: 1 }))
  assert.equal(refused.errorCode, KafkaError.KAFKA_STORAGE_ERROR)
  const created = await wire.ask(CreateTopics, 7, { topics: [{ name: 'new', ...order }] })
  assert.equal(created.topics[0]?.errorCode, KafkaError.KAFKA_STORAGE_ERROR)
  const committed = await wire.ask(OffsetCommit, 8, commit)
  const { COORDINATOR_NOT_AVAILABLE } = KafkaError
  assert.equal(committed.topics[0]?.partitions[0]?.errorCode, COORDINATOR_NOT_AVAILABLE)

  disk.fault = () => false
  const second = batchOf(['b'], { ...who, baseSequence: 1 })
  await eventually(async () => (await wire.produce('t', 0, Buffer.from(second))).errorCode)
  await eventually(async () => {
    const answer = await wire.ask(CreateTopics, 7, { topics: [{ name: 'new', ...order }] })
    return answer.topics[0]?.errorCode ?? -1
  })
  assert.deepEqual(recordsOf((await wire.fetch('t', 0, 0)).records), ['0:a', '1:b'])
  assert.deepEqual(await waiting, ['1:b'], 'who waited since before is served')
  await wire.close()
  await broker.close()

  const after = await open(disk.afterKill())
  assert.deepEqual(recordsOf((await after.wire.fetch('t', 0, 0)).records), ['0:a', '1:b'])
  await after.wire.close()
  await after.broker.close()
})

test('after a failed sync nothing is acknowledged any more, and reads go on', async () => {
  const disk = new Disk()
  const { broker, wire } = await open(disk)
  await wire.produce('t', 0, batchOf(['a']))
  disk.fault = operation => operation === 'sync'
  const produce = async () => (await wire.produce('t', 0, batchOf(['lost']))).errorCode
  assert.equal(await produce(), KafkaError.KAFKA_STORAGE_ERROR)
  disk.fault = () => false
  assert.equal(await produce(), KafkaError.KAFKA_STORAGE_ERROR)
  assert.deepEqual(recordsOf((await wire.fetch('t', 0, 0)).records), ['0:a'])
  await wire.close()
  await broker.close()
})

test('damage in one partition is said and never delivered, and the others go on', async () => {
  const store = new MemoryStore()
  let broker = await startBroker({ env, store: durable(store) }, { topics: { t: 2 } })
  let wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  for (const value of ['a', 'b', 'c']) await wire.produce('t', 0, batchOf([value]))
  await wire.produce('t', 1, batchOf(['other']))
  await wire.close()
  await broker.close()

  const log = { from: Buffer.from([spaces.log]), to: Buffer.from([spaces.log + 1]) }
  const [, second] = [...store.range(log)]
  assert(second)
  const bytes = Buffer.from(second.value)
  bytes[bytes.length - 2] = 0x7f
  await store.commit(new Changes().put(second.key, bytes))

  broker = await startBroker({ env, store: durable(store) })
  wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  const { KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE } = KafkaError
  assert.deepEqual(recordsOf((await wire.fetch('t', 0, 0)).records), ['0:a'])
  assert.equal((await wire.fetch('t', 0, 1)).errorCode, CORRUPT_MESSAGE)
  assert.equal((await wire.produce('t', 0, batchOf(['d']))).errorCode, KAFKA_STORAGE_ERROR)
  assert.deepEqual(recordsOf((await wire.fetch('t', 0, 2)).records), ['2:c'])
  assert.equal((await wire.produce('t', 1, batchOf(['more']))).baseOffset, 1)
  assert.deepEqual(recordsOf((await wire.fetch('t', 1, 0)).records), ['0:other', '1:more'])
  await wire.close()
  await broker.close()
})

/** A store that outlives its broker, and is read as one on a disk is. */
function durable(store: MemoryStore): Store {
  return {
    durability: 'os',
    keepsValues: true,
    get: key => store.get(key),
    range: bounds => store.range(bounds),
    commit: changes => store.commit(changes),
    close: async () => {}
  }
}
