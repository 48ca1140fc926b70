/** Stories of producing, told to any broker: by test/producer/ to the embedded one, by test/kafka/ to a real Kafka. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { PlayheadError } from '../../src/base/error.ts'
import { partitionOfKey } from '../../src/client/producer/partitioner.ts'
import { Admin } from '../../src/client/admin/admin.ts'
import { Producer } from '../../src/client/producer/producer.ts'
import type { RawRecord } from '../../src/protocol/records/record.ts'
import type { Cluster } from '../../src/rpc/cluster.ts'
import { createTopic, endOffset, logBytes, readPartition } from '../kafka/reading.ts'

const times = <T>(count: number, make: (i: number) => T) =>
  Array.from({ length: count }, (_, i) => make(i))
const valuesOf = (records: readonly RawRecord[]) => records.map(({ value }) => String(value))
const code = (wanted: string) => (error: unknown) =>
  error instanceof PlayheadError && error.code === wanted
const unique = (what: string) => `${what}-${randomBytes(5).toString('hex')}`

/** What is committed, once no transaction is open: a coordinator answers before its markers are in the logs. */
export async function committed(topic: string, of: Cluster): Promise<string[]> {
  for (let open = true; open; ) {
    const end = await endOffset(of, topic, 0, false)
    open = (await endOffset(of, topic, 0, true)) < end
  }
  return valuesOf(await readPartition(of, topic, 0, { committed: true }))
}

/** Until the group has this offset: before Kafka 2.5 nobody says that an open transaction is in the way. */
async function untilCommitted(
  of: Cluster,
  group: string,
  topic: string,
  expected: number
): Promise<void> {
  const admin = new Admin(of)
  for (let round = 0; ; round++) {
    const [found] = await admin.offsets(group)
    if (found?.topic === topic && found.offset === expected) return
    assert.ok(round < 10_000, `${found?.offset} instead of ${expected}`)
  }
}

/** `many`: of the records of the first story. */
export function producingStories(cluster: () => Cluster, many = 100_000): void {
  test(`${many} records with keys are each in their key’s partition, in order`, async () => {
    const topic = await createTopic(cluster(), 5)
    await using producer = new Producer(cluster())
    const records = times(many, i => ({ key: `key-${i % 1000}`, value: `${i}` }))
    const sends = times(many / 1000, i =>
      producer.sendMany(topic, records.slice(i * 1000, i * 1000 + 1000))
    )
    const results = (await Promise.all(sends)).flat()
    for (let partition = 0; partition < 5; partition++) {
      const wanted = records.filter(({ key }) => partitionOfKey(key, 5) === partition)
      const read = await readPartition(cluster(), topic, partition)
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
    const topic = await createTopic(cluster(), 1)
    await using producer = new Producer(cluster())
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
    const [nulls, empty, bytes, plain] = await readPartition(cluster(), topic, 0)
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
      const topic = await createTopic(cluster(), 2)
      await using producer = new Producer(cluster(), { compression, batchBytes: 10_000 })
      const values = times(5000, i => `${i}`.padStart(40, 'value '))
      await producer.sendMany(
        topic,
        values.map((value, i) => ({ value, partition: i % 2 }))
      )
      for (const partition of [0, 1]) {
        const read = await readPartition(cluster(), topic, partition)
        assert.deepEqual(
          valuesOf(read),
          values.filter((_, i) => i % 2 === partition)
        )
      }
    })
  }

  for (const acks of ['all', 'leader', 'none'] as const) {
    test(`with acks '${acks}' and no idempotence everything arrives, in order`, async () => {
      const topic = await createTopic(cluster(), 1)
      const producer = new Producer(cluster(), { acks, idempotent: false, batchBytes: 1000 })
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
        read = valuesOf(await readPartition(cluster(), topic, 0))
        assert.deepEqual(
          read,
          times(read.length, i => `${i}`)
        )
      }
    })
  }

  test('a topic with the broker’s time gives that time', async () => {
    const topic = await createTopic(cluster(), 1, { 'message.timestamp.type': 'LogAppendTime' })
    await using producer = new Producer(cluster())
    const sent = await producer.send(topic, { value: 'v', timestamp: 1000 })
    assert.ok(sent.timestamp > 1e12)
  })

  test('a batch larger than the topic takes is split; a record larger than it takes is TOO_LARGE', async () => {
    const topic = await createTopic(cluster(), 1, { 'max.message.bytes': '2000' })
    await using producer = new Producer(cluster())
    const values = times(200, i => `${i}`.padStart(100, '0'))
    await producer.sendMany(
      topic,
      values.map(value => ({ value }))
    )
    await assert.rejects(producer.send(topic, { value: 'x'.repeat(5000) }), code('TOO_LARGE'))
    await producer.send(topic, { value: 'after' })
    assert.deepEqual(valuesOf(await readPartition(cluster(), topic, 0)), [...values, 'after'])
  })

  test('what a transaction sends is visible after its commit, and never after its abort', async () => {
    const topic = await createTopic(cluster(), 1)
    await using producer = new Producer(cluster(), { transactionalId: unique('txn') })
    const first = await producer.begin()
    await first.send(topic, { value: 'a' })
    await first.sendMany(topic, [{ value: 'b' }, { value: 'c' }])
    assert.deepEqual(await readPartition(cluster(), topic, 0, { committed: true }), [])
    await first.commit()
    assert.deepEqual(await committed(topic, cluster()), ['a', 'b', 'c'])

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
    assert.deepEqual(await committed(topic, cluster()), ['a', 'b', 'c', 'd'])
    assert.deepEqual(
      valuesOf(await readPartition(cluster(), topic, 0)).filter(v => v === 'never').length,
      1
    )
  })

  test('a hundred transactions over several partitions, one after the other', async () => {
    const topic = await createTopic(cluster(), 3)
    await using producer = new Producer(cluster(), { transactionalId: unique('txn') })
    for (let i = 0; i < 100; i++) {
      const tx = await producer.begin()
      const sent = tx.sendMany(
        topic,
        times(3, partition => ({ partition, value: `${i}` }))
      )
      if (i % 3 > 0) await Promise.all([sent, tx.commit()])
      else await Promise.all([assert.rejects(sent, code('TRANSACTION_ABORTED')), tx.abort()])
    }
    await committed(topic, cluster())
    for (const partition of [0, 1, 2]) {
      const read = await readPartition(cluster(), topic, partition, { committed: true })
      assert.deepEqual(
        valuesOf(read),
        times(100, i => `${i}`).filter(value => Number(value) % 3 !== 0)
      )
    }
  })

  test('offsets are committed with the transaction, or not at all', async () => {
    const topic = await createTopic(cluster(), 1)
    const group = unique('group')
    await using producer = new Producer(cluster(), { transactionalId: unique('txn') })
    const offsets = (offset: number) => ({ group, offsets: [{ topic, partition: 0, offset }] })
    await producer.transaction(async tx => {
      await tx.send(topic, { value: 'v' })
      await tx.commitOffsets(offsets(5))
    })
    const aborted = await producer.begin()
    await aborted.commitOffsets(offsets(9))
    await aborted.abort()
    await untilCommitted(cluster(), group, topic, 5)

    const stranger = await producer.begin()
    const asMember = { ...offsets(7), memberId: 'nobody', generation: 3 }
    // Kafka before 2.5 cannot check it (KIP-447), so it isn't asked to commit it.
    await assert.rejects(stranger.commitOffsets(asMember), (error: unknown) =>
      ['STALE_GENERATION', 'UNSUPPORTED_VERSION'].includes((error as PlayheadError).code)
    )
    await assert.rejects(stranger.commit(), code('TRANSACTION_ABORTED'))
    await untilCommitted(cluster(), group, topic, 5)
  })

  test('a second producer with the same id fences the first and ends its transaction', async () => {
    const topic = await createTopic(cluster(), 1)
    const transactionalId = unique('txn')
    const first = new Producer(cluster(), { transactionalId })
    const open = await first.begin()
    await open.send(topic, { value: 'never' })
    await using second = new Producer(cluster(), { transactionalId })
    await second.transaction(tx => tx.send(topic, { value: 'second' }))
    await assert.rejects(open.commit(), code('FENCED'))
    await assert.rejects(first.begin(), code('FENCED'))
    await first.close()
    assert.deepEqual(await committed(topic, cluster()), ['second'])
  })

  for (const [compression, levels] of [
    ['gzip', [1, 9]],
    ['zstd', [1, 12]]
  ] as const) {
    test(`${compression} at its levels is accepted, and a higher one is not larger`, async () => {
      const sizes: number[] = []
      for (const compressionLevel of levels) {
        const topic = await createTopic(cluster(), 1)
        await using producer = new Producer(cluster(), { compression, compressionLevel })
        const values = times(1_000, i => `${i * i} ${i % 7} ${(i * 7919) % 1013}`)
        await producer.sendMany(
          topic,
          values.map(value => ({ value }))
        )
        assert.deepEqual(valuesOf(await readPartition(cluster(), topic, 0)), values)
        sizes.push(await logBytes(cluster(), topic, 0))
      }
      const [fast = 0, small = 0] = sizes
      assert.ok(small <= fast && fast > 0, `${small} of ${fast} bytes`)
    })
  }
}
