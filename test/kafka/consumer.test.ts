/** The consumer against a real Kafka, in KIP-848 groups and without a group. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Consumer } from '../../src/client/consumer/consumer.ts'
import type { GroupOptions } from '../../src/client/consumer/options.ts'
import type { ConsumerRecord } from '../../src/client/consumer/record.ts'
import { json, string } from '../../src/client/serde.ts'
import { DeleteRecords } from '../../src/protocol/api/delete-records.ts'
import { kafka } from './cluster.ts'
import { Reading } from './background.ts'
import { addPartitions, connect, createTopic, numbered, produce } from './consumed.ts'

const cluster = connect()
after(() => cluster.close())

function member(
  topic: string,
  options: Partial<GroupOptions<Buffer, string>> = {}
): Consumer<Buffer, string> {
  return new Consumer<Buffer, string>(cluster, {
    group: `group-of-${topic}`,
    topics: [topic],
    value: string,
    ...options
  })
}

const byNumber = (a: number, b: number): number => a - b

const partitionsOf = (reading: Reading<Buffer, string>): number[] =>
  reading.consumer.assignment.map(({ partition }) => partition).sort(byNumber)

async function fill(topic: string, partitions: number, from: number, count: number): Promise<void> {
  for (let p = 0; p < partitions; p++)
    await produce(cluster, topic, p, numbered(`p${p}`, from, count))
}

/** Reads `count` records, and says which. */
async function take(
  consumer: AsyncIterable<ConsumerRecord<Buffer, string>>,
  count: number
): Promise<string[]> {
  const values: string[] = []
  for await (const { value } of consumer) {
    values.push(value ?? '')
    if (values.length === count) break
  }
  return values
}

test('three members share six partitions; each record is handled once, though one leaves', async () => {
  const topic = await createTopic(cluster, 6)
  await fill(topic, 6, 0, 50)
  const readings = [1, 2, 3].map(() => new Reading(member(topic)))
  const all = () => readings.flatMap(r => r.values())
  await readings[0]?.until('all read', () => all().length >= 300)
  for (const reading of readings) await reading.until('two each', r => partitionsOf(r).length === 2)
  assert.deepEqual(readings.flatMap(partitionsOf).sort(byNumber), [0, 1, 2, 3, 4, 5])

  const [leaving, ...staying] = readings
  const before = staying.map(partitionsOf)
  await leaving?.close()
  for (const reading of staying)
    await reading.until('three each', r => partitionsOf(r).length === 3)
  for (const [i, reading] of staying.entries()) {
    for (const partition of before[i] ?? []) {
      const gone = [`revoked ${topic}/${partition}`, `lost ${topic}/${partition}`]
      const since = reading.events.slice(
        reading.events.lastIndexOf(`assigned ${topic}/${partition}`)
      )
      assert.ok(!since.some(e => gone.includes(e)), `partition ${partition} was never let go of`)
    }
  }
  await fill(topic, 6, 50, 50)
  await staying[0]?.until('the rest', () => all().length >= 600)
  for (const reading of staying) await reading.close()
  const expected = Array.from({ length: 6 }, (_, p) => numbered(`p${p}`, 0, 100)).flat()
  assert.deepEqual(all().sort(), expected.sort())
})

test('partitions that stay flow on while another member joins', async () => {
  const topic = await createTopic(cluster, 4)
  const first = new Reading(member(topic))
  await first.until('all four', r => partitionsOf(r).length === 4)
  const second = new Reading(member(topic))
  await second.until('two', r => partitionsOf(r).length === 2)
  assert.equal(first.events.filter(e => e.startsWith('revoked')).length, 2)
  assert.equal(first.events.filter(e => e.startsWith('lost')).length, 0)
  assert.deepEqual([...partitionsOf(first), ...partitionsOf(second)].sort(byNumber), [0, 1, 2, 3])
  await first.close()
  await second.close()
})

test('what was processed is committed on close; the record in hand at a break is not', async () => {
  const topic = await createTopic(cluster, 1)
  await fill(topic, 1, 0, 10)
  const first = member(topic)
  assert.deepEqual(await take(first, 4), numbered('p0', 0, 4))
  await first.close()
  const second = member(topic)
  assert.deepEqual(await take(second, 1), ['p0-3'])
  await second.close()
})

test('a revoked partition is committed before it is given up: its next owner goes on there', async () => {
  const topic = await createTopic(cluster, 2)
  await fill(topic, 2, 0, 20)
  const first = new Reading(member(topic, { commitIntervalMs: 3_600_000 }))
  await first.until('all', r => r.records.length === 40)
  const second = new Reading(member(topic))
  await second.until('one', r => partitionsOf(r).length === 1)
  await fill(topic, 2, 20, 1)
  await second.until('its record', r => r.records.length > 0)
  await first.until('its record', r => r.records.length > 40)
  const [partition = -1] = partitionsOf(second)
  assert.deepEqual(second.values(), [`p${partition}-20`])
  await first.close()
  await second.close()
})

test('startFrom: the end, a time, so long ago, or nowhere', async () => {
  const topic = await createTopic(cluster, 1)
  const now = Date.now()
  await produce(cluster, topic, 0, ['old'], { timestamp: now - 7_200_000 })
  await produce(cluster, topic, 0, ['newer'], { timestamp: now - 60_000 })
  const reads = async (group: string, startFrom: NonNullable<GroupOptions['startFrom']>) => {
    const consumer = member(topic, { group: kafka.uniqueName(group), startFrom })
    const values = take(consumer, 1).finally(() => consumer.close())
    return await values
  }
  assert.deepEqual(await reads('earliest', 'earliest'), ['old'])
  assert.deepEqual(await reads('ago', { ago: '1h' }), ['newer'])
  assert.deepEqual(await reads('time', { time: new Date(now - 100_000) }), ['newer'])
  await assert.rejects(reads('none', 'none'), { code: 'OFFSET_OUT_OF_RANGE', topic, partition: 0 })

  const latest = new Reading(member(topic, { startFrom: 'latest' }))
  await latest
    .until('placed', r => r.consumer.position({ topic, partition: 0 }) === 2)
    .catch(() => {})
  await latest.until('assigned', r => partitionsOf(r).length === 1)
  while (latest.consumer.position({ topic, partition: 0 }) !== 2) await cluster.refresh()
  await produce(cluster, topic, 0, ['next'])
  await latest.until('the next', r => r.records.length > 0)
  assert.deepEqual(latest.values(), ['next'])
  await latest.close()
})

test('a partition or topic that appears after the group starts at its beginning, with startFrom latest too', async () => {
  const topic = await createTopic(cluster, 1)
  const later = kafka.uniqueName('later')
  await produce(cluster, topic, 0, ['before the group'])
  const reading = new Reading(member(topic, { startFrom: 'latest', topics: [topic, later] }))
  await reading.until('placed', r => r.consumer.position({ topic, partition: 0 }) === 1)
  await addPartitions(cluster, topic, 2)
  await produce(cluster, topic, 1, ['in the new partition'])
  await createTopic(cluster, 1, {}, later)
  await produce(cluster, later, 0, ['in the new topic'])
  await reading.until('both', r => r.records.length === 2)
  assert.deepEqual(reading.values().sort(), ['in the new partition', 'in the new topic'])
  await reading.close()
})

test('seek moves one partition, back and forth, and drops what was buffered', async () => {
  const topic = await createTopic(cluster, 2)
  await fill(topic, 2, 0, 100)
  const assign = [0, 1].map(partition => ({ topic, partition, offset: 'earliest' as const }))
  const consumer = new Consumer<Buffer, string>(cluster, { assign, value: string })
  const seen: string[] = []
  for await (const { value, partition, offset } of consumer) {
    seen.push(value ?? '')
    if (partition === 0 && offset === 10 && seen.length < 50) {
      consumer.seek({ topic, partition: 0, offset: 95 })
      consumer.seek({ topic, partition: 1, offset: 'latest' })
    }
    if (value === 'p0-99') break
  }
  const p0 = seen.filter(v => v.startsWith('p0'))
  assert.deepEqual(p0, [...numbered('p0', 0, 11), ...numbered('p0', 95, 5)])
  await consumer.close()
})

test('a paused partition is not delivered, and goes on where it was', async () => {
  const topic = await createTopic(cluster, 2)
  await fill(topic, 2, 0, 50)
  const assign = [0, 1].map(partition => ({ topic, partition, offset: 0 }))
  const consumer = new Consumer<Buffer, string>(cluster, { assign, value: string })
  const seen: string[] = []
  for await (const { value, partition } of consumer) {
    seen.push(value ?? '')
    if (seen.length === 10) consumer.pause([{ topic, partition }])
    if (seen.length === 60) consumer.resume()
    if (seen.length === 100) break
  }
  const first = seen[0]?.slice(0, 2)
  assert.ok(
    seen.slice(10, 60).every(v => !v.startsWith(first ?? '?')),
    'nothing while paused'
  )
  for (const p of ['p0', 'p1']) {
    assert.deepEqual(
      seen.filter(v => v.startsWith(p)),
      numbered(p, 0, 50)
    )
  }
  await consumer.close()
})

test('a handler that is too slow makes its member leave, say so, and join again afterwards', async () => {
  const topic = await createTopic(cluster, 1)
  await fill(topic, 1, 0, 2)
  const consumer = member(topic, { maxProcessingMs: 1_500 })
  const other = member(topic)
  const codes: string[] = []
  consumer.on('error', ({ error }) => codes.push(error.code))
  const seen: string[] = []
  for await (const { value } of consumer) {
    seen.push(value ?? '')
    if (seen.length === 2) break
    // The first record is held until another has the partition.
    assert.deepEqual(await take(other, 2), numbered('p0', 0, 2), 'from the beginning')
    await other.close()
  }
  assert.deepEqual(codes, ['PROCESSING_TIMEOUT'])
  assert.equal(seen[1], 'p0-1', 'it joins again, and goes on where the other stopped')
  await consumer.close()
})

test('out of range: below the log is its start, beyond it its end', async () => {
  const topic = await createTopic(cluster, 1)
  await fill(topic, 1, 0, 10)
  await cluster.request(
    DeleteRecords,
    { topics: [{ name: topic, partitions: [{ partitionIndex: 0, offset: 4 }] }], timeoutMs: 5_000 },
    { to: { leader: { topic, partition: 0 } } }
  )
  const at = (offset: number) => {
    const assign = [{ topic, partition: 0, offset }]
    return new Reading(new Consumer<Buffer, string>(cluster, { assign, value: string }))
  }
  const below = at(1)
  await below.until('read', r => r.records.length === 6)
  assert.deepEqual(below.values(), numbered('p0', 4, 6))
  assert.ok(below.events.includes('moved 1 4 out of range'))
  const beyond = at(1_000)
  await beyond.until('moved', r => r.events.includes('moved 1000 10 out of range'))
  await produce(cluster, topic, 0, ['next'])
  await beyond.until('read', r => r.records.length === 1)
  assert.deepEqual(beyond.values(), ['next'])
  await below.close()
  await beyond.close()
})

test('batches, poll and run read the same; two readers at once are refused', async () => {
  const topic = await createTopic(cluster, 3)
  await fill(topic, 3, 0, 40)
  const expected = [0, 1, 2].flatMap(p => numbered(`p${p}`, 0, 40)).sort()
  const group = () => member(topic, { group: kafka.uniqueName('group') })

  const batches = group()
  const byBatch: string[] = []
  for await (const batch of batches.batches()) {
    for (const { value } of batch) byBatch.push(value ?? '')
    await assert.rejects(batches[Symbol.asyncIterator]().next(), { code: 'INVALID_ARGUMENT' })
    if (byBatch.length === 120) break
  }
  assert.deepEqual(byBatch.sort(), expected)
  await batches.close()

  const poller = group()
  const polled: string[] = []
  while (polled.length < 120) {
    const records = await poller.poll({ maxRecords: 7, timeoutMs: 5_000 })
    assert.ok(records.length <= 7)
    polled.push(...records.map(r => r.value ?? ''))
  }
  assert.deepEqual(polled.sort(), expected)
  await poller.close()

  for (const order of ['partition', 'key'] as const) {
    const runner = group()
    const handled: string[] = []
    let most = 0
    let now = 0
    await runner.run(
      async ({ value }) => {
        most = Math.max(most, ++now)
        await cluster.refresh()
        now--
        if (handled.push(value ?? '') === 120) void runner.close()
      },
      { concurrency: 4, order }
    )
    assert.deepEqual(handled.slice().sort(), expected)
    assert.ok(most > 1 && most <= 4, `${most} at once`)
    if (order === 'key') continue
    for (const p of ['p0', 'p1', 'p2']) {
      assert.deepEqual(
        handled.filter(v => v.startsWith(p)),
        numbered(p, 0, 40),
        'in order'
      )
    }
    await runner.close()
  }
})

test('a handler that fails ends run; its record comes again, and nothing behind it is committed', async () => {
  const topic = await createTopic(cluster, 1)
  await fill(topic, 1, 0, 20)
  for (const order of ['partition', 'key'] as const) {
    const consumer = member(topic, { group: kafka.uniqueName('group') })
    const seen: string[] = []
    const failing = consumer.run(
      async ({ value }) => {
        seen.push(value ?? '')
        await cluster.refresh()
        if (value === 'p0-7') throw new Error('cannot')
      },
      { concurrency: 3, order }
    )
    await assert.rejects(failing, { message: 'cannot' })
    const again = await take(consumer, 1)
    assert.deepEqual(again, ['p0-7'])
    await consumer.close()
  }
})

test('manual: only what is committed is, by record and by what is in hand', async () => {
  const topic = await createTopic(cluster, 1)
  await fill(topic, 1, 0, 10)
  const manual = () => member(topic, { commit: 'manual' })
  const first = manual()
  for await (const record of first) {
    if (record.offset === 2) await record.commit('with a word')
    if (record.offset === 5) break
  }
  await first.close()
  const second = manual()
  const records = await second.poll({ timeoutMs: 10_000, maxRecords: 4 })
  assert.deepEqual(
    records.map(r => r.value),
    numbered('p0', 3, 4)
  )
  await second.commit()
  await second.close()
  const third = manual()
  assert.deepEqual(await take(third, 1), ['p0-7'])
  await third.close()
})

test('a record that is no JSON says where it is, or is passed over', async () => {
  const topic = await createTopic(cluster, 1)
  await produce(cluster, topic, 0, ['{"n":1}', 'nonsense', '{"n":3}', null])
  const assign = [{ topic, partition: 0, offset: 0 }]
  const value = json<{ n: number }>()
  const failing = new Consumer<Buffer, { n: number }>(cluster, { assign, value })
  const read = async () => {
    for await (const record of failing) assert.ok(record.value)
  }
  await assert.rejects(read(), { code: 'DESERIALIZATION_FAILED', topic, partition: 0 })
  await failing.close()
  const skipping = new Consumer<Buffer, { n: number }>(cluster, { assign, value, poison: 'skip' })
  const skipped: string[] = []
  skipping.on('skipped', ({ error }) => skipped.push(error.message))
  const values: unknown[] = []
  for await (const record of skipping) if (values.push(record.value) === 3) break
  assert.deepEqual(values, [{ n: 1 }, { n: 3 }, null])
  assert.equal(skipped.length, 1)
  assert.match(skipped[0] ?? '', /\[0\] offset 1: its value is not json/)
  await skipping.close()
})

test('a pattern finds the topics that it matches', async () => {
  const prefix = kafka.uniqueName('audit')
  const names = [`${prefix}.a`, `${prefix}.b`]
  for (const name of names) {
    await createTopic(cluster, 1, {}, name)
    await produce(cluster, name, 0, [name])
  }
  const topics = [new RegExp(`^${prefix}\\.`)]
  const reading = new Reading(member(prefix, { topics }))
  await reading.until('both', r => r.records.length === 2)
  assert.deepEqual(reading.values().sort(), names)
  await reading.close()
})

test('every compression is read', async () => {
  const topic = await createTopic(cluster, 1)
  const codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const
  for (const compression of codecs) {
    await produce(cluster, topic, 0, numbered(compression, 0, 100), { compression })
  }
  const assign = [{ topic, partition: 0, offset: 50 }]
  const consumer = new Consumer<Buffer, string>(cluster, { assign, value: string })
  const values = await take(consumer, 450)
  assert.deepEqual(values, codecs.flatMap(c => numbered(c, 0, 100)).slice(50))
  await consumer.close()
})

test('close ends a consumer at any moment of its start', async () => {
  const topic = await createTopic(cluster, 1)
  await fill(topic, 1, 0, 3)
  for (const turns of [0, 1, 2, 5, 20, 100]) {
    const reading = new Reading(member(topic, { group: kafka.uniqueName('group') }))
    for (let i = 0; i < turns; i++) await Promise.resolve()
    if (turns > 2) await cluster.refresh()
    await reading.close()
  }
})
