/** Consumers and transactions, against a real Kafka: what is seen of them, and offsets inside them. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Consumer } from '../../src/client/consumer/consumer.ts'
import { Producer } from '../../src/client/producer/producer.ts'
import { string } from '../../src/client/serde.ts'
import { Reading } from './background.ts'
import { kafka } from './cluster.ts'
import { connect, createTopic, numbered, produce } from './consumed.ts'

const cluster = connect()
after(() => cluster.close())

function transactional(): Producer<string, string> {
  const utf8 = (text: string) => Buffer.from(text)
  const transactionalId = kafka.uniqueName('tx')
  return new Producer<string, string>(cluster, { transactionalId, key: utf8, value: utf8 })
}

test('aborted records and markers are passed over; open ones are waited for', async () => {
  const topic = await createTopic(cluster, 1)
  const producer = transactional()
  const record = (value: string) => ({ value, partition: 0 })
  const committed = async (...values: string[]) => {
    await producer.transaction(async tx => {
      for (const value of values) await tx.send(topic, record(value))
    })
  }
  await committed('a', 'b')
  const failed = producer.transaction(async tx => {
    await tx.send(topic, record('aborted'))
    throw new Error('on purpose')
  })
  await assert.rejects(failed, { message: 'on purpose' })
  await committed('c')
  const assign = [{ topic, partition: 0, offset: 'earliest' as const }]
  const all = new Reading(new Consumer<Buffer, string>(cluster, { assign, value: string }))
  await all.until('three', r => r.records.length >= 3)
  const open = transactional()
  const tx = await open.begin()
  await tx.send(topic, record('open'))
  await produce(cluster, topic, 0, ['behind the open one'])
  const isolation = 'read_uncommitted'
  const dirty = new Reading(
    new Consumer<Buffer, string>(cluster, { assign, value: string, isolation })
  )
  await dirty.until('all', r => r.records.length === 6)
  assert.deepEqual(dirty.values(), ['a', 'b', 'aborted', 'c', 'open', 'behind the open one'])
  assert.deepEqual(all.values(), ['a', 'b', 'c'])
  assert.deepEqual(all.consumer.lag(), [{ topic, partition: 0, lag: 0 }])
  await tx.commit()
  await all.until('the rest', r => r.records.length === 5)
  assert.deepEqual(all.values(), ['a', 'b', 'c', 'open', 'behind the open one'])
  for (const closing of [producer, open]) await closing.close()
  for (const reading of [all, dirty]) await reading.close()
})

test('offsets go into a transaction with the results; a seek in the middle makes it fail', async () => {
  const from = await createTopic(cluster, 1)
  const to = await createTopic(cluster, 1)
  await produce(cluster, from, 0, numbered('r', 0, 20))
  const group = kafka.uniqueName('group')
  const consumer = new Consumer<Buffer, string>(cluster, {
    group,
    topics: [from],
    value: string,
    commit: 'manual'
  })
  const producer = transactional()
  const copy = async (meanwhile: () => void) => {
    const records = await consumer.poll({ maxRecords: 10, timeoutMs: 10_000 })
    await producer.transaction(async tx => {
      for (const { value } of records)
        await tx.send(to, { value: `copy of ${value}`, partition: 0 })
      meanwhile()
      await tx.commitOffsets(consumer)
    })
  }
  await copy(() => {})
  const seek = () => consumer.seek({ topic: from, partition: 0, offset: 10 })
  await assert.rejects(copy(seek), { code: 'TRANSACTION_ABORTED' })
  await copy(() => {})
  await consumer.close()
  const assign = [{ topic: to, partition: 0, offset: 0 }]
  const copies = new Reading(new Consumer<Buffer, string>(cluster, { assign, value: string }))
  await copies.until('all', r => r.records.length === 20)
  assert.deepEqual(
    copies.values(),
    numbered('r', 0, 20).map(v => `copy of ${v}`)
  )
  const next = new Consumer<Buffer, string>(cluster, { group, topics: [from], value: string })
  await produce(cluster, from, 0, ['next'])
  const [record] = await next.poll({ timeoutMs: 10_000 })
  assert.equal(record?.value, 'next')
  await next.close()
  await copies.close()
  await producer.close()
})
