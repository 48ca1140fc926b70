/** Produce, Fetch and ListOffsets of one partition, by bare requests over TCP. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { Fetch } from '../../src/protocol/api/fetch.ts'
import { Metadata } from '../../src/protocol/api/metadata.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { Wire, batchOf, recordsOf } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })

async function withBroker(
  run: (wire: Wire, broker: Broker) => Promise<void>,
  options: Parameters<typeof Broker.start>[0] = {}
): Promise<void> {
  await using broker = await Broker.start({ topics: { t: 1 }, ...options })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  await run(wire, broker)
  await wire.close()
}

test('what is produced is fetched, at the offsets that were told', () =>
  withBroker(async wire => {
    const first = await wire.produce('t', 0, batchOf(['a', 'b']))
    const second = await wire.produce('t', 0, batchOf(['c']))
    assert.deepEqual([first.errorCode, first.baseOffset], [0, 0])
    assert.deepEqual([second.errorCode, second.baseOffset], [0, 2])
    const all = await wire.fetch('t', 0, 0)
    assert.deepEqual(recordsOf(all.records), ['0:a', '1:b', '2:c'])
    assert.equal(all.highWatermark, 3)
  }))

test('a fetch within a batch gets the whole batch, and one beyond the end an error', () =>
  withBroker(async wire => {
    await wire.produce('t', 0, batchOf(['a', 'b', 'c']))
    await wire.produce('t', 0, batchOf(['d']))
    const { records } = await wire.fetch('t', 0, 1)
    assert.deepEqual(recordsOf(records), ['0:a', '1:b', '2:c', '3:d'])
    assert.deepEqual(recordsOf((await wire.fetch('t', 0, 4)).records), [])
    assert.equal((await wire.fetch('t', 0, 5)).errorCode, KafkaError.OFFSET_OUT_OF_RANGE)
  }))

test('the first batch comes whatever the limits, and no part of a second', () =>
  withBroker(async wire => {
    await wire.produce('t', 0, batchOf(['x'.repeat(1000)]))
    await wire.produce('t', 0, batchOf(['y'.repeat(1000)]))
    const { records } = await wire.fetch('t', 0, 0, { maxBytes: 1, partitionMaxBytes: 1 })
    assert.deepEqual(recordsOf(records).length, 1)
  }))

test('a fetch waits until there is something, and no longer than it said', () =>
  withBroker(async (wire, broker) => {
    const waiting = wire.fetch('t', 0, 0, { maxWaitMs: 30_000 })
    // By another connection: the answers of one wait for each other.
    const producer = await Wire.connect(env, broker.bootstrap[0] ?? '')
    await producer.produce('t', 0, batchOf(['late']))
    assert.deepEqual(recordsOf((await waiting).records), ['0:late'])
    const empty = await wire.fetch('t', 0, 1, { maxWaitMs: 20 })
    assert.deepEqual([empty.errorCode, recordsOf(empty.records)], [0, []])
    await producer.close()
  }))

test('answers of a connection come in the order of its requests', () =>
  withBroker(async wire => {
    const slow = wire.fetch('t', 0, 0, { maxWaitMs: 50 })
    const quick = wire.offset('t', 0, -1)
    await Promise.all([slow, quick])
    assert.deepEqual(wire.answered, [1, 2])
  }))

test('a batch with a wrong checksum is CORRUPT_MESSAGE and takes no offset', () =>
  withBroker(async wire => {
    const damaged = batchOf(['a'])
    damaged[damaged.length - 1] = 7
    assert.equal((await wire.produce('t', 0, damaged)).errorCode, KafkaError.CORRUPT_MESSAGE)
    assert.equal((await wire.produce('t', 0, batchOf(['b']))).baseOffset, 0)
  }))

test('a retry of an idempotent batch gets its old offset, a gap is refused, an old epoch too', () =>
  withBroker(async wire => {
    const batch = (value: string, baseSequence: number, producerEpoch = 0) =>
      batchOf([value], { producerId: 7n, producerEpoch, baseSequence })
    assert.equal((await wire.produce('t', 0, batch('a', 0))).baseOffset, 0)
    assert.equal((await wire.produce('t', 0, batch('b', 1))).baseOffset, 1)
    const again = await wire.produce('t', 0, batch('a', 0))
    assert.deepEqual([again.errorCode, again.baseOffset], [0, 0])
    const gap = await wire.produce('t', 0, batch('d', 3))
    assert.equal(gap.errorCode, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert.equal((await wire.produce('t', 0, batch('e', 0, 1))).baseOffset, 2)
    const old = await wire.produce('t', 0, batch('c', 2))
    assert.equal(old.errorCode, KafkaError.INVALID_PRODUCER_EPOCH)
    assert.deepEqual(recordsOf((await wire.fetch('t', 0, 0)).records), ['0:a', '1:b', '2:e'])
  }))

test('offsets are found by time, by the ends, and by the latest time', () =>
  withBroker(async wire => {
    const at = (value: string, timestamp: number) => ({ value, timestamp })
    await wire.produce('t', 0, batchOf([at('a', 100), at('b', 300)]))
    await wire.produce('t', 0, batchOf([at('c', 200), at('d', 400)]))
    assert.equal((await wire.offset('t', 0, 150)).offset, 1)
    assert.equal((await wire.offset('t', 0, 350)).offset, 3)
    assert.equal((await wire.offset('t', 0, 401)).offset, -1)
    assert.equal((await wire.offset('t', 0, -1)).offset, 4)
    assert.equal((await wire.offset('t', 0, -2)).offset, 0)
    const latest = await wire.offset('t', 0, -3)
    assert.deepEqual([latest.offset, latest.timestamp], [3, 400])
  }))

test('an incremental fetch is told only of partitions with something new', () =>
  withBroker(
    async wire => {
      const ask = (sessionId: number, sessionEpoch: number, partitions: number[]) =>
        wire.ask(Fetch, 12, {
          maxWaitMs: 0,
          minBytes: 1,
          sessionId,
          sessionEpoch,
          topics: [
            {
              topic: 's',
              partitions: partitions.map(partition => ({
                partition,
                fetchOffset: 0,
                partitionMaxBytes: 1000
              }))
            }
          ].filter(topic => topic.partitions.length > 0)
        })
      const full = await ask(0, 0, [0, 1])
      assert.equal(full.responses[0]?.partitions.length, 2)
      assert.notEqual(full.sessionId, 0)
      assert.deepEqual((await ask(full.sessionId, 1, [])).responses, [])
      await wire.produce('s', 1, batchOf(['new']))
      const news = await ask(full.sessionId, 2, [])
      assert.deepEqual(
        news.responses[0]?.partitions.map(p => p.partitionIndex),
        [1]
      )
      const wrongEpoch = await ask(full.sessionId, 9, [])
      assert.equal(wrongEpoch.errorCode, KafkaError.INVALID_FETCH_SESSION_EPOCH)
      const unknown = await ask(full.sessionId + 1, 1, [])
      assert.equal(unknown.errorCode, KafkaError.FETCH_SESSION_ID_NOT_FOUND)
    },
    { topics: { s: 2 } }
  ))

test('topics are created by request and by the first look, and named __proto__ too', () =>
  withBroker(async wire => {
    const order = { numPartitions: 3, replicationFactor: -1, assignments: [], configs: [] }
    const body = {
      topics: [
        { name: '__proto__', ...order },
        { name: 'bad name', ...order }
      ]
    }
    const created = await wire.ask(CreateTopics, 7, body)
    assert.deepEqual(
      created.topics.map(topic => topic.errorCode),
      [0, KafkaError.INVALID_TOPIC_EXCEPTION]
    )
    const topics = [{ name: '__proto__' }, { name: 'auto' }]
    const seen = await wire.ask(Metadata, 12, { topics })
    assert.deepEqual(
      seen.topics.map(topic => [topic.errorCode, topic.partitions.length]),
      [
        [0, 3],
        [0, 1]
      ]
    )
    assert.equal((await wire.produce('__proto__', 2, batchOf(['x']))).errorCode, 0)
  }))

test('three brokers in one process lead a third each, and send others to the leader', () =>
  withBroker(
    async (wire, broker) => {
      const { topics, brokers } = await wire.ask(Metadata, 12, { topics: [{ name: 'm' }] })
      assert.equal(brokers.length, 3)
      const partitions = topics[0]?.partitions ?? []
      assert.deepEqual(new Set(partitions.map(p => p.leaderId)), new Set([1, 2, 3]))
      const own = partitions.find(p => p.leaderId === 1)
      const other = partitions.find(p => p.leaderId === 2)
      assert(own && other)
      assert.equal((await wire.produce('m', own.partitionIndex, batchOf(['x']))).errorCode, 0)
      const wrong = await wire.produce('m', other.partitionIndex, batchOf(['x']))
      assert.equal(wrong.errorCode, KafkaError.NOT_LEADER_OR_FOLLOWER)
      assert.deepEqual(wrong.currentLeader, { leaderId: 2, leaderEpoch: 0 })
      assert.equal(broker.bootstrap.length, 3)
    },
    { brokers: 3, topics: { m: 3 } }
  ))

test('what is no request ends the connection, and the broker lives', () =>
  withBroker(async (_wire, broker) => {
    for (const bytes of [
      Buffer.from('GET / HTTP/1.1\r\n\r\n'),
      Buffer.from([0xff, 0xff, 0xff, 0xff]),
      Buffer.from([0x7f, 0xff, 0xff, 0xff]),
      Buffer.from([0, 0, 0, 12, 0, 0, 0, 99, 0, 0, 0, 1, 0xff, 0xff, 1, 2])
    ]) {
      const hostile = await Wire.connect(env, broker.bootstrap[0] ?? '')
      hostile.send(bytes)
      await hostile.closed
    }
    const after = await Wire.connect(env, broker.bootstrap[0] ?? '')
    assert.equal((await after.produce('t', 0, batchOf(['x']))).errorCode, 0)
    await after.close()
  }))

test('nothing is left after the close', async () => {
  const before = process.getActiveResourcesInfo().length
  await withBroker(async wire => {
    await wire.produce('t', 0, batchOf(['x']))
  })
  assert.equal(process.getActiveResourcesInfo().length, before)
})
