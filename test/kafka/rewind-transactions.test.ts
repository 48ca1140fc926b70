/** Rewinds of a group whose offsets go into transactions, on a real Kafka (invariants.md, W16). */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { RewindResult } from '../../src/client/admin/rewind-result.ts'
import { kafka } from './cluster.ts'
import { range } from './rewind/reading.ts'
import { type Scene, Stage } from './rewind/scene.ts'
import { eventually } from './rewind/team.ts'

const stage = new Stage(kafka)
after(() => stage.close())

/** What copies a topic to another in transactions, ten records at a time. */
async function copier(s: Scene, protocol: 'consumer' | 'classic') {
  const copies = `${s.topic}-copies`
  await stage.admin.createTopics([{ topic: copies, partitions: 1 }])
  const producer = stage.client.producer({ transactionalId: s.group })
  const { group, topic } = s
  const consumer = stage.client.consumer({
    group,
    topics: [topic],
    protocol,
    commit: 'manual',
    rewindCheckMs: 50
  })
  const copied = async () => {
    const assign = [{ topic: copies, partition: 0, offset: 0 }]
    const reader = stage.client.consumer({ assign, fetchMaxWaitMs: 50 })
    const found: string[] = []
    for (;;) {
      const records = await reader.poll({ timeoutMs: 1_000 })
      if (records.length === 0) break
      for (const { value } of records) found.push(String(value))
    }
    await reader.close()
    return found
  }
  return { producer, consumer, copies, copied }
}

for (const protocol of ['consumer', 'classic'] as const) {
  test(`W16 transactions, ${protocol}: work on records from before a rewind is aborted, and nobody sees it`, async t => {
    const s = await stage.scene(1, 20)
    const { producer, consumer, copies, copied } = await copier(s, protocol)
    t.after(() => producer.close())
    t.after(() => consumer.close())
    const name = ({ offset }: { offset: number }) => ({ value: Buffer.from(`${offset}`) })
    const records = await consumer.poll({ maxRecords: 10, timeoutMs: 10_000 })
    await consumer.commit()
    let rewound: Promise<RewindResult> | undefined
    const lost = producer.transaction(async tx => {
      await tx.sendMany(copies, records.map(name))
      rewound = s.rewind({ offset: 5 })
      await eventually(() => consumer.rewindOf(records[0] ?? never()) !== undefined, 'it jumped')
      await tx.commitOffsets(consumer)
    })
    await assert.rejects(lost, { code: 'TRANSACTION_ABORTED' })
    const again = await consumer.poll({ maxRecords: 10, timeoutMs: 10_000 })
    assert.deepEqual(
      (await rewound)?.partitions.map(p => p.state),
      ['applied']
    )
    await producer.transaction(async tx => {
      await tx.sendMany(copies, again.map(name))
      await tx.commitOffsets(consumer)
    })
    assert.deepEqual(await copied(), range(5, 15).map(String))
    assert.equal((await stage.admin.lag(s.group))[0]?.committed, 15)
  })

  test(`W16, ${protocol}: offsets that are in an open transaction already come before the acknowledgement`, async t => {
    const s = await stage.scene(1, 20)
    const { producer, consumer, copies } = await copier(s, protocol)
    t.after(() => producer.close())
    t.after(() => consumer.close())
    const records = await consumer.poll({ maxRecords: 10, timeoutMs: 10_000 })
    await consumer.commit()
    const tx = await producer.begin()
    await tx.send(copies, { value: Buffer.from(`${records.length}`) })
    await tx.commitOffsets(consumer)
    let answered = false
    const rewound = s.rewind({ offset: 5 }).finally(() => (answered = true))
    await eventually(() => consumer.rewindOf(records[0] ?? never()) !== undefined, 'it jumped')
    // Nothing is in hand any more: it is only the transaction that it waits for.
    const next = consumer.poll({ maxRecords: 10, timeoutMs: 20_000 })
    const looks = performance.now() + 300
    await eventually(() => performance.now() > looks, 'a while')
    assert.equal(answered, false)
    await tx.commit()
    const { id } = await rewound
    assert.deepEqual(
      (await next).map(({ offset }) => offset),
      range(5, 15)
    )
    const [committed] = await stage.admin.offsets(s.group)
    assert.equal(committed?.offset, 5)
    assert.ok(committed?.metadata.includes(id))
  })
}

function never(): never {
  throw new Error('there is a record')
}
