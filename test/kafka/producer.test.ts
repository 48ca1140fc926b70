import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { PlayheadError } from '../../src/base/error.ts'
import { partitionOfKey } from '../../src/client/producer/partitioner.ts'
import { Producer } from '../../src/client/producer/producer.ts'
import { OffsetFetch } from '../../src/protocol/api/offset-fetch.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import type { RawRecord } from '../../src/protocol/records/record.ts'
import type { Cluster } from '../../src/rpc/cluster.ts'
import { kafka } from './cluster.ts'
import { clusterAt, createTopic, endOffset, readPartition } from './reading.ts'

const cluster = clusterAt(kafka.bootstrap)
after(() => cluster.close())

const times = <T>(count: number, make: (i: number) => T) =>
  Array.from({ length: count }, (_, i) => make(i))
const featureTool = 'org.apache.kafka.tools.FeatureCommand'
const valuesOf = (records: readonly RawRecord[]) => records.map(({ value }) => String(value))
const code = (wanted: string) => (error: unknown) =>
  error instanceof PlayheadError && error.code === wanted

/** What is committed, once no transaction is open: a coordinator answers before its markers are in the logs. */
async function committed(topic: string, of: Cluster = cluster): Promise<string[]> {
  for (let open = true; open; ) {
    const end = await endOffset(of, topic, 0, false)
    open = (await endOffset(of, topic, 0, true)) < end
  }
  return valuesOf(await readPartition(of, topic, 0, { committed: true }))
}

test('100,000 records with keys are each in their key’s partition, in order', async () => {
  const topic = await createTopic(cluster, 5)
  await using producer = new Producer(cluster)
  const records = times(100_000, i => ({ key: `key-${i % 1000}`, value: `${i}` }))
  const sends = times(100, i => producer.sendMany(topic, records.slice(i * 1000, i * 1000 + 1000)))
  const results = (await Promise.all(sends)).flat()
  for (let partition = 0; partition < 5; partition++) {
    const wanted = records.filter(({ key }) => partitionOfKey(key, 5) === partition)
    const read = await readPartition(cluster, topic, partition)
    assert.deepEqual(
      valuesOf(read),
      wanted.map(({ value }) => value)
    )
    for (const { key, value, offset, timestamp } of read) {
      const i = Number(String(value))
      assert.equal(String(key), records[i]?.key)
      assert.deepEqual(results[i], { topic, partition, offset, timestamp })
    }
  }
})

test('null and empty, headers in order and twice, and times come back as they were sent', async () => {
  const topic = await createTopic(cluster, 1)
  await using producer = new Producer(cluster)
  const headers = [
    ['b', '1'],
    ['a', null],
    ['b', Buffer.alloc(0)],
    ['ü', 'ß']
  ] as const
  await producer.sendMany(topic, [
    { key: null, value: null },
    { key: '', value: '', timestamp: 0 },
    { key: Buffer.from([0, 255]), value: new Uint8Array([1]), headers, timestamp: 1e12 },
    { headers: { x: 'y' } }
  ])
  const [nulls, empty, bytes, plain] = await readPartition(cluster, topic, 0)
  assert.deepEqual([nulls?.key, nulls?.value], [null, null])
  assert.deepEqual([empty?.key?.length, empty?.value?.length, empty?.timestamp], [0, 0, 0])
  assert.deepEqual([bytes?.key, bytes?.value], [Buffer.from([0, 255]), Buffer.from([1])])
  assert.equal(bytes?.timestamp, 1e12)
  assert.deepEqual(
    bytes?.headers.map(({ key, value }) => [key, value === null ? null : String(value)]),
    [
      ['b', '1'],
      ['a', null],
      ['b', ''],
      ['ü', 'ß']
    ]
  )
  assert.deepEqual(
    plain?.headers.map(({ key, value }) => [key, String(value)]),
    [['x', 'y']]
  )
})

for (const compression of ['gzip', 'snappy', 'lz4', 'zstd'] as const) {
  test(`batches compressed by ${compression} are accepted and read back`, async () => {
    const topic = await createTopic(cluster, 2)
    await using producer = new Producer(cluster, { compression, batchBytes: 10_000 })
    const values = times(5000, i => `${i}`.padStart(40, 'value '))
    await producer.sendMany(
      topic,
      values.map((value, i) => ({ value, partition: i % 2 }))
    )
    for (const partition of [0, 1]) {
      const read = await readPartition(cluster, topic, partition)
      assert.deepEqual(
        valuesOf(read),
        values.filter((_, i) => i % 2 === partition)
      )
    }
  })
}

for (const acks of ['all', 'leader', 'none'] as const) {
  test(`with acks '${acks}' and no idempotence everything arrives, in order`, async () => {
    const topic = await createTopic(cluster, 1)
    const producer = new Producer(cluster, { acks, idempotent: false, batchBytes: 1000 })
    const results = await producer.sendMany(
      topic,
      times(1000, i => ({ value: `${i}` }))
    )
    await producer.close()
    assert.deepEqual(
      results.map(({ offset }) => offset),
      times(1000, i => (acks === 'none' ? -1 : i))
    )
    // Nobody says when a broker has taken what it doesn't acknowledge: a later record of the same connection does.
    for (let read: string[] = []; read.length < 1000; ) {
      read = valuesOf(await readPartition(cluster, topic, 0))
      assert.deepEqual(
        read,
        times(read.length, i => `${i}`)
      )
    }
  })
}

test('a topic with the broker’s time gives that time', async () => {
  const topic = await createTopic(cluster, 1, { 'message.timestamp.type': 'LogAppendTime' })
  await using producer = new Producer(cluster)
  const sent = await producer.send(topic, { value: 'v', timestamp: 1000 })
  assert.ok(sent.timestamp > 1e12)
})

test('a batch larger than the topic takes is split; a record larger than it takes is TOO_LARGE', async () => {
  const topic = await createTopic(cluster, 1, { 'max.message.bytes': '2000' })
  await using producer = new Producer(cluster)
  const values = times(200, i => `${i}`.padStart(100, '0'))
  await producer.sendMany(
    topic,
    values.map(value => ({ value }))
  )
  await assert.rejects(producer.send(topic, { value: 'x'.repeat(5000) }), code('TOO_LARGE'))
  await producer.send(topic, { value: 'after' })
  assert.deepEqual(valuesOf(await readPartition(cluster, topic, 0)), [...values, 'after'])
})

test('a broker is killed and comes back while records are sent: each is there once, in order', async () => {
  // A broker that was killed is not let in again before its session has ended.
  await using own = await kafka.startOwn({
    extra: { 'broker.session.timeout.ms': '1000', 'broker.heartbeat.interval.ms': '200' }
  })
  const there = clusterAt(own.bootstrap)
  try {
    const topic = await createTopic(there, 2)
    await using producer = new Producer(there, { batchBytes: 2000 })
    const values: string[] = []
    const sends: Promise<unknown>[] = []
    const sending = { on: true }
    const send = async () => {
      while (sending.on || values.length < 20_000) {
        const next = times(100, i => `${values.length + i}`)
        values.push(...next)
        sends.push(
          producer.sendMany(
            topic,
            next.map((value, i) => ({ value, partition: i % 2 }))
          )
        )
        if (sends.length % 10 === 0) await Promise.race([sends.at(-1), producer.flush()])
      }
    }
    const program = send()
    await sends[0]
    await own.kill(0)
    await own.start(0)
    await producer.send(topic, { value: 'back', partition: 0 })
    sending.on = false
    await program
    await Promise.all(sends)
    for (const partition of [0, 1]) {
      const read = valuesOf(await readPartition(there, topic, partition))
      assert.deepEqual(
        read.filter(value => value !== 'back'),
        values.filter(value => Number(value) % 2 === partition)
      )
    }
  } finally {
    await there.close()
  }
})

test('what a transaction sends is visible after its commit, and never after its abort', async () => {
  const topic = await createTopic(cluster, 1)
  await using producer = new Producer(cluster, { transactionalId: kafka.uniqueName('txn') })
  const first = await producer.begin()
  await first.send(topic, { value: 'a' })
  await first.sendMany(topic, [{ value: 'b' }, { value: 'c' }])
  assert.deepEqual(await readPartition(cluster, topic, 0, { committed: true }), [])
  await first.commit()
  assert.deepEqual(await committed(topic), ['a', 'b', 'c'])

  await assert.rejects(
    producer.transaction(async tx => {
      await tx.send(topic, { value: 'never' })
      throw new Error('changed my mind')
    }),
    /changed my mind/
  )
  const third = await producer.begin()
  void third.send(topic, { value: 'never sent' }).catch(() => {})
  await third.abort()
  await producer.transaction(async () => {})
  await producer.transaction(tx => tx.send(topic, { value: 'd' }))
  assert.deepEqual(await committed(topic), ['a', 'b', 'c', 'd'])
  assert.deepEqual(
    valuesOf(await readPartition(cluster, topic, 0)).filter(v => v === 'never').length,
    1
  )
})

test('a hundred transactions over several partitions, one after the other', async () => {
  const topic = await createTopic(cluster, 3)
  await using producer = new Producer(cluster, { transactionalId: kafka.uniqueName('txn') })
  for (let i = 0; i < 100; i++) {
    const tx = await producer.begin()
    const sent = tx.sendMany(
      topic,
      times(3, partition => ({ partition, value: `${i}` }))
    )
    if (i % 3 > 0) await Promise.all([sent, tx.commit()])
    else await Promise.all([assert.rejects(sent, code('TRANSACTION_ABORTED')), tx.abort()])
  }
  await committed(topic)
  for (const partition of [0, 1, 2]) {
    const read = await readPartition(cluster, topic, partition, { committed: true })
    assert.deepEqual(
      valuesOf(read),
      times(100, i => `${i}`).filter(value => Number(value) % 3 !== 0)
    )
  }
})

test('offsets are committed with the transaction, or not at all', async () => {
  const topic = await createTopic(cluster, 1)
  const group = kafka.uniqueName('group')
  await using producer = new Producer(cluster, { transactionalId: kafka.uniqueName('txn') })
  const offsets = (offset: number) => ({ group, offsets: [{ topic, partition: 0, offset }] })
  await producer.transaction(async tx => {
    await tx.send(topic, { value: 'v' })
    await tx.commitOffsets(offsets(5))
  })
  const aborted = await producer.begin()
  await aborted.commitOffsets(offsets(9))
  await aborted.abort()
  assert.equal(await committedOffset(group, topic), 5)

  const stranger = await producer.begin()
  const asMember = { ...offsets(7), memberId: 'nobody', generation: 3 }
  await assert.rejects(stranger.commitOffsets(asMember), code('STALE_GENERATION'))
  await assert.rejects(stranger.commit(), code('TRANSACTION_ABORTED'))
  assert.equal(await committedOffset(group, topic), 5)
})

test('a second producer with the same id fences the first and ends its transaction', async () => {
  const topic = await createTopic(cluster, 1)
  const transactionalId = kafka.uniqueName('txn')
  const first = new Producer(cluster, { transactionalId })
  const open = await first.begin()
  await open.send(topic, { value: 'never' })
  await using second = new Producer(cluster, { transactionalId })
  await second.transaction(tx => tx.send(topic, { value: 'second' }))
  await assert.rejects(open.commit(), code('FENCED'))
  await assert.rejects(first.begin(), code('FENCED'))
  await first.close()
  assert.deepEqual(await committed(topic), ['second'])
})

test('a transaction open too long is aborted by the coordinator; the next one works', async () => {
  await using own = await kafka.startOwn({
    extra: { 'transaction.abort.timed.out.transaction.cleanup.interval.ms': '200' }
  })
  const there = clusterAt(own.bootstrap)
  try {
    const topic = await createTopic(there, 1)
    const options = { transactionalId: 'slow', transactionTimeoutMs: 1000 }
    await using producer = new Producer(there, options)
    const slow = await producer.begin()
    await slow.send(topic, { value: 'never' })
    // The marker of the abort is the second record.
    for (let end = 0; end < 2; ) end = await endOffset(there, topic, 0, true)
    await assert.rejects(slow.commit(), code('TRANSACTION_ABORTED'))
    await producer.transaction(tx => tx.send(topic, { value: 'next' }))
    assert.deepEqual(await committed(topic, there), ['next'])
  } finally {
    await there.close()
  }
})

test('on a cluster that has not finalized transaction.version 2 the older protocol does the same', async () => {
  await using own = await kafka.startOwn()
  await own.tool(featureTool, 'downgrade', '--feature', 'transaction.version=1')
  const there = clusterAt(own.bootstrap)
  try {
    const topic = await createTopic(there, 1)
    await using producer = new Producer(there, { transactionalId: 'old' })
    for (let i = 0; i < 10; i++) {
      const tx = await producer.begin()
      await tx.send(topic, { value: `${i}` })
      await tx.commitOffsets({ group: 'g', offsets: [{ topic, partition: 0, offset: i }] })
      if (i % 3 === 0) await tx.abort()
      else await tx.commit()
    }
    assert.deepEqual(await committed(topic, there), ['1', '2', '4', '5', '7', '8'])
    const stale = await producer.begin()
    await using taker = new Producer(there, { transactionalId: 'old' })
    await taker.transaction(tx => tx.send(topic, { value: 'taker' }))
    await assert.rejects(stale.send(topic, { value: 'stale' }))
    await assert.rejects(stale.commit(), code('FENCED'))
  } finally {
    await there.close()
  }
})

async function committedOffset(group: string, topic: string): Promise<number> {
  for (;;) {
    const { groups } = await cluster.request(
      OffsetFetch,
      {
        groups: [{ groupId: group, topics: [{ name: topic, partitionIndexes: [0] }] }],
        requireStable: true
      },
      { to: { group }, minVersion: 8, maxVersion: 9 }
    )
    const found = groups[0]?.topics[0]?.partitions[0]
    assert.ok(found)
    if (found.errorCode !== KafkaError.UNSTABLE_OFFSET_COMMIT) return found.committedOffset
  }
}
