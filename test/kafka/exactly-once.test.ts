/**
 * Consume, transform, produce, exactly once: offsets and results in one transaction, while members come and go, and
 * across a rewind, on a real Kafka (invariants.md, W16).
 */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { GroupOptions } from '../../src/client/consumer/options.ts'
import type { BytesInput, Consumer, Pipeline } from '../../src/index.ts'
import { kafka } from './cluster.ts'
import { range } from './rewind/reading.ts'
import { type Scene, Stage } from './rewind/scene.ts'
import { eventually } from './rewind/team.ts'

const stage = new Stage(kafka)
after(() => stage.close())

const classic = { protocol: 'classic' } as const

/** Copies a topic to another, by a pipeline. */
class Copier {
  readonly consumer: Consumer
  readonly #pipeline: Pipeline<Buffer, Buffer, BytesInput, BytesInput>
  readonly #loop: Promise<void>

  constructor(s: Scene, options: Partial<GroupOptions>, name: string, copies: string) {
    const { group, topic } = s
    this.#pipeline = stage.client.pipeline(
      {
        from: { group, topics: [topic], rewindCheckMs: 100, ...options },
        transactionalId: `${group}-${name}`,
        maxRecords: 7
      },
      records =>
        records.map(({ partition, offset }) => ({ topic: copies, value: `${partition}@${offset}` }))
    )
    this.consumer = this.#pipeline.consumer
    this.#loop = this.#pipeline.run()
  }

  async close(): Promise<void> {
    await this.#pipeline.close()
    await this.#loop
  }
}

async function readCopies(copies: string): Promise<string[]> {
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

for (const [name, options] of [
  ['cooperative', classic],
  ['eager', { ...classic, assignors: ['range'] }],
  ['KIP-848', { protocol: 'consumer' }]
] as const) {
  test(`${name}: consume, transform, produce: each record is copied once across rebalances, and as often as rewound`, async t => {
    const s = await stage.scene(4, 300)
    const copies = `${s.topic}-copies`
    await stage.admin.createTopics([{ topic: copies, partitions: 1 }])
    const first = new Copier(s, options, 'first', copies)
    const copiers = [first]
    t.after(() => Promise.all(copiers.map(copier => copier.close())))
    await eventually(() => first.consumer.assignment.length === 4, 'all four')
    const second = new Copier(s, options, 'second', copies)
    copiers.push(second)
    await eventually(() => second.consumer.assignment.length === 2, 'two')
    await s.settled(4, 300)
    const once = [0, 1, 2, 3].flatMap(p => range(0, 300).map(offset => `${p}@${offset}`)).sort()
    assert.deepEqual((await readCopies(copies)).sort(), once)

    const target = [{ topic: s.topic, partition: 1, offset: 250 }]
    await s.rewind(target)
    await second.close()
    copiers.pop()
    await s.settled(4, 300)
    const again = range(250, 300).map(offset => `1@${offset}`)
    assert.deepEqual((await readCopies(copies)).sort(), [...once, ...again].sort())
  })
}
