/**
 * Three brokers that replicate, and are killed: what was acknowledged is there once and in order, pipelines whose processes
 * are killed copy each record once, followers nearby are read from, and a log that was cut is noticed.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Consumer } from '../../src/client/consumer/consumer.ts'
import { string } from '../../src/client/serde.ts'
import { type Body, type Call, type CallOptions, Playhead } from '../../src/index.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { Fetch } from '../../src/protocol/api/fetch.ts'
import type { Api } from '../../src/protocol/schema.ts'
import { Cluster } from '../../src/rpc/cluster.ts'
import { Reading } from './background.ts'
import { kafka, type OwnCluster } from './cluster.ts'
import { eventually } from './rewind/team.ts'

let own: OwnCluster
let client: Playhead

before(async () => {
  own = await kafka.startOwn({
    brokers: 3,
    extra: {
      'broker.rack': 'rack-{id}',
      'replica.selector.class': 'org.apache.kafka.common.replica.RackAwareReplicaSelector',
      // A follower that is gone is out of the in-sync replicas sooner than after 30 s.
      'replica.lag.time.max.ms': '5000',
      // A broker that was killed is missed, and let in again, after a second instead of nine.
      'broker.session.timeout.ms': '1000',
      'broker.heartbeat.interval.ms': '200',
      'group.consumer.session.timeout.ms': '3000',
      'group.consumer.min.session.timeout.ms': '3000',
      'group.consumer.heartbeat.interval.ms': '500',
      'group.consumer.min.heartbeat.interval.ms': '500'
    }
  })
  client = new Playhead({ bootstrap: own.bootstrap, clientId: 'three' })
})

after(async () => {
  await client.close()
  await own.down()
})

/** Until `topic` has all its replicas in sync, on `brokers` brokers. */
async function inSync(topic: string, replicas = 3): Promise<void> {
  await eventually(async () => {
    const { topics } = await client.cluster.refresh({ topics: [topic] })
    const { partitions = [] } = topics.get(topic) ?? {}
    return (
      partitions.length > 0 &&
      partitions.every(({ isr, leader }) => isr.length === replicas && leader >= 0)
    )
  }, `${topic} is in sync`)
}

async function createOn(topic: string, brokers: number[], configs: Record<string, string> = {}) {
  const { topics } = await client.cluster.request(CreateTopics, {
    topics: [
      {
        name: topic,
        numPartitions: -1,
        replicationFactor: -1,
        assignments: [{ partitionIndex: 0, brokerIds: brokers }],
        configs: Object.entries(configs).map(([name, value]) => ({ name, value }))
      }
    ],
    timeoutMs: 10_000
  })
  assert.equal(topics[0]?.errorMessage ?? null, null)
}

const records = Number(process.env['PLAYHEAD_RECORDS'] ?? 500_000)
const partitions = 6
const atOnce = 1_000

test(`${records} records, acks all, while each broker is killed: none lost, none twice, all in order`, async () => {
  const topic = own.uniqueName('kept')
  await client.admin().createTopics([{ topic, partitions, replicationFactor: 3 }])
  await inSync(topic)
  const producer = client.producer({ maxBufferedBytes: 2 ** 20 })
  let acked = 0
  const sent = new Array<number>(partitions).fill(0)
  const offsets = sent.map((): number[] => [])
  const under = new Set<Promise<void>>()
  const send = async (): Promise<void> => {
    const partition = Math.floor(Math.random() * partitions)
    const first = sent[partition] ?? 0
    sent[partition] = first + atOnce
    const batch = Array.from({ length: atOnce }, (_, i) => {
      return { partition, value: `${partition}:${first + i}` }
    })
    const sending = producer.sendMany(topic, batch).then(results => {
      acked += results.length
      const known = offsets[partition] ?? []
      for (const [i, { offset }] of results.entries()) known[first + i] = offset
    })
    const ended = sending.finally(() => under.delete(ended))
    under.add(ended)
    if (under.size >= 8) await Promise.race(under)
  }
  const sendUntil = async (count: number): Promise<void> => {
    while (sent.reduce((a, b) => a + b) < count) await send()
  }
  for (const broker of [0, 1, 2]) {
    const share = Math.floor(((broker + 0.4) * records) / 3)
    await sendUntil(share)
    const killing = own.kill(broker)
    await sendUntil(share + Math.floor(records / 6))
    await killing
    await own.start(broker)
    if (broker < 2) await inSync(topic)
  }
  await sendUntil(records)
  await Promise.all(under)
  await producer.close()
  assert.equal(acked, records, 'all were acknowledged')

  const assign = sent.map((_, partition) => ({ topic, partition, offset: 0 }))
  const reader = client.consumer({ assign, value: string })
  const next = sent.map(() => 0)
  let read = 0
  for await (const batch of reader.batches()) {
    for (const { partition, value, offset } of batch) {
      const expected = next[partition] ?? 0
      assert.equal(value, `${partition}:${expected}`)
      assert.equal(offset, offsets[partition]?.[expected])
      next[partition] = expected + 1
      read += 1
    }
    if (read >= records) break
  }
  assert.deepEqual(next, sent)
  const ends = await reader.ends()
  assert.deepEqual(
    ends.map(({ end }) => end),
    sent
  )
  await reader.close()
})

test('pipelines whose processes and whose broker are killed copy each record once', async t => {
  const [from, to] = [own.uniqueName('from'), own.uniqueName('to')]
  await client.admin().createTopics([
    { topic: from, partitions: 4, replicationFactor: 3 },
    { topic: to, partitions: 1, replicationFactor: 3 }
  ])
  await inSync(from)
  await inSync(to)
  const file = fileURLToPath(new URL('pipeline-child.js', import.meta.url))
  const children = new Map<string, ChildProcess>()
  const start = (id: string) => {
    const child = fork(file, [own.bootstrap.join(','), `${from}-g`, from, to, id])
    children.set(id, child)
    return child
  }
  t.after(() => {
    for (const child of children.values()) child.kill('SIGKILL')
  })
  const producer = client.producer()
  const perPartition = 3_000
  const values = Array.from({ length: 4 * perPartition }, (_, i) => ({ partition: i % 4 }))
  const reading = new Reading(
    client.consumer({ assign: [{ topic: to, partition: 0, offset: 0 }], value: string })
  )
  start('a')
  start('b')
  const third = values.length / 4
  for (let round = 0; round < 4; round++) {
    await producer.sendMany(from, values.slice(round * third, (round + 1) * third))
    const seen = Math.floor((round + 0.3) * third)
    await reading.until(`${seen} copies`, r => r.records.length >= seen, 60_000)
    const victim = round % 2 === 0 ? 'a' : 'b'
    children.get(victim)?.kill('SIGKILL')
    if (round === 1) await own.kill(2)
    if (round === 2) await own.start(2)
    start(victim)
  }
  await reading.until('all copies', r => r.records.length >= values.length, 60_000)
  for (const child of children.values()) child.kill('SIGKILL')
  // Whatever they had begun is decided before the end is looked at.
  const last = client.producer()
  const { offset } = await last.send(to, { value: 'end' })
  await reading.until('the end', r => r.records.at(-1)?.offset === offset, 60_000)
  const copies = reading.values().slice(0, -1)
  for (let partition = 0; partition < 4; partition++) {
    const expected = Array.from({ length: perPartition }, (_, i) => `${partition}@${i}`)
    const found = copies.filter(value => value.startsWith(`${partition}@`))
    assert.deepEqual(found, expected)
  }
  await reading.close()
  await producer.close()
  await last.close()
})

/** A cluster that tells which brokers are fetched from. */
class Watched extends Cluster {
  readonly fetched: number[] = []

  override send<A extends Api>(api: A, body: Body<A>, options?: CallOptions): Call<A> {
    const to = options?.to
    if (api.name === Fetch.name && typeof to === 'object' && 'node' in to)
      this.fetched.push(to.node)
    return super.send(api, body, options)
  }
}

test('a consumer reads from the replica in its rack, and from others when that is gone (KIP-392)', async t => {
  const topic = own.uniqueName('near')
  await createOn(topic, [0, 1, 2])
  await inSync(topic)
  const producer = client.producer()
  const send = (from: number, count: number) =>
    producer.sendMany(
      topic,
      Array.from({ length: count }, (_, i) => ({ value: `${from + i}` }))
    )
  for (let i = 0; i < 50; i++) await send(i * 20, 20)
  const cluster = new Watched(nodeEnv(), { bootstrap: own.bootstrap })
  t.after(() => cluster.close())
  const assign = [{ topic, partition: 0, offset: 0 }]
  const reading = new Reading(
    new Consumer<Buffer, string>(cluster, {
      assign,
      value: string,
      rackId: 'rack-2',
      fetchMaxWaitMs: 500,
      partitionMaxBytes: 500
    })
  )
  await reading.until('all', r => r.records.length === 1_000)
  assert.equal(cluster.fetched[0], 0, 'the leader says who is near')
  const near = cluster.fetched.filter(node => node === 2)
  const often = `of ${cluster.fetched.length} fetches ${near.length} go to the replica in the rack`
  // A follower that has not caught up sends us back to the leader, which sends us on.
  assert.ok(near.length > 40 && near.length > 0.8 * cluster.fetched.length, often)
  await own.kill(2)
  await send(1_000, 500)
  await reading.until('those after the kill', r => r.records.length === 1_500)
  assert.deepEqual(
    reading.values(),
    Array.from({ length: 1_500 }, (_, i) => `${i}`)
  )
  await reading.close()
  await producer.close()
  await own.start(2)
})

test('a log that an unclean election cut below what was read: the consumer says so, and goes on there (KIP-320)', async () => {
  const topic = own.uniqueName('cut')
  const configs = { 'unclean.leader.election.enable': 'true', 'min.insync.replicas': '1' }
  await createOn(topic, [1, 2], configs)
  await inSync(topic, 2)
  const producer = client.producer({ acks: 'leader' })
  const send = async (name: string, count: number) => {
    for (let i = 0; i < count; i++) await producer.send(topic, { value: `${name}${i}` })
  }
  await send('both', 5)
  const assign = [{ topic, partition: 0, offset: 0 }]
  const read = (startFrom: 'earliest' | 'none') =>
    new Reading(client.consumer({ assign, value: string, startFrom, fetchMaxWaitMs: 500 }))
  const [reading, strict] = [read('earliest'), read('none')]
  await reading.until('what both have', r => r.records.length === 5)
  await own.kill(2)
  await send('one', 5)
  for (const one of [reading, strict]) await one.until('all ten', r => r.records.length === 10)
  await own.kill(1)
  await own.start(2)
  await send('other', 3)
  await reading.until('the new ones', r => r.records.length === 13, 60_000)
  assert.deepEqual(reading.values().slice(10), ['other0', 'other1', 'other2'])
  assert.ok(reading.events.includes('moved 10 5 truncated'), reading.events.join(', '))
  await assert.rejects(strict.ended, { code: 'LOG_TRUNCATED' })
  // One that kept where it was in the log before, with its epoch, hears of it though the offset is there again.
  const [leaderEpoch = assert.fail()] = [reading.records[6]?.leaderEpoch]
  const kept = new Reading(
    client.consumer({ assign: [{ topic, partition: 0, offset: 7, leaderEpoch }], value: string })
  )
  await kept.until('the new ones', r => r.records.length === 3)
  assert.deepEqual(kept.values(), ['other0', 'other1', 'other2'])
  assert.ok(kept.events.includes('moved 7 5 truncated'), kept.events.join(', '))
  await kept.close()
  await own.start(1)
  await reading.close()
  await strict.consumer.close()
  await producer.close()
})
