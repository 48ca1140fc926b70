import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { PlayheadError } from '../../src/base/error.ts'
import { Producer } from '../../src/client/producer/producer.ts'
import type { RawRecord } from '../../src/protocol/records/record.ts'
import { kafka } from './cluster.ts'
import { committed, producingStories } from '../producer/producing-stories.ts'
import { clusterAt, createTopic, endOffset, readPartition } from './reading.ts'

const cluster = clusterAt(kafka.bootstrap)
after(() => cluster.close())

const times = <T>(count: number, make: (i: number) => T) =>
  Array.from({ length: count }, (_, i) => make(i))
const featureTool = 'org.apache.kafka.tools.FeatureCommand'
const valuesOf = (records: readonly RawRecord[]) => records.map(({ value }) => String(value))
const code = (wanted: string) => (error: unknown) =>
  error instanceof PlayheadError && error.code === wanted

producingStories(() => cluster)

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

test('a transaction open too long is aborted by the coordinator, which is told; the next one works', async () => {
  await using own = await kafka.startOwn({
    extra: { 'transaction.abort.timed.out.transaction.cleanup.interval.ms': '200' }
  })
  const there = clusterAt(own.bootstrap)
  try {
    const topic = await createTopic(there, 1)
    const options = { transactionalId: 'slow', transactionTimeoutMs: 1000 }
    await using first = new Producer(there, options)
    const slow = await first.begin()
    await slow.send(topic, { value: 'never' })
    // The marker of the abort is the second record.
    for (let end = 0; end < 2; ) end = await endOffset(there, topic, 0, true)
    // Kafka 4.0 cannot tell it from another producer's start: only a new producer goes on.
    const fences = kafka.release.startsWith('4.0.')
    await assert.rejects(slow.commit(), code(fences ? 'FENCED' : 'TRANSACTION_ABORTED'))
    await using second = new Producer(there, options)
    const producer = fences ? second : first
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
