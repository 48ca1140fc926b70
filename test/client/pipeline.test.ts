/** Pipelines: each record exactly once, whatever goes wrong between client and brokers. In virtual time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SeededRandom } from '../../sim/world/random.ts'
import { Client } from '../../src/client/client.ts'
import type { PipelineOptions } from '../../src/client/pipeline.ts'
import type { ConsumerRecord } from '../../src/client/consumer/record.ts'
import { string } from '../../src/client/serde.ts'
import { numbered, VirtualWorld, type Watched } from './consumer/virtual.ts'

type Read = ConsumerRecord<Buffer, string>

const from = { group: 'g', topics: ['t'], value: string, protocol: 'consumer' } as const

class PipelineWorld {
  readonly world: VirtualWorld
  readonly clients: Client[] = []
  readonly out: Watched

  private constructor(world: VirtualWorld) {
    this.world = world
    this.out = world.alone({ assign: [{ topic: 'out', partition: 0, offset: 0 }] }).read()
  }

  static async start(): Promise<PipelineWorld> {
    return new PipelineWorld(await new VirtualWorld().start({ topics: { t: 2, out: 1 } }))
  }

  copying(
    options: Partial<PipelineOptions<Buffer, string>> = {},
    transform = (records: readonly Read[]): { topic: string; value: string }[] =>
      records.map(({ value }) => ({ topic: 'out', value: value ?? '' }))
  ) {
    const client = new Client(this.world.env(`c${this.clients.length}`), {
      bootstrap: ['b:9092'],
      clientId: 'pipeline'
    })
    this.clients.push(client)
    return client.pipeline<Buffer, string>({ from, maxRecords: 3, ...options }, transform)
  }

  of(partition: number): (string | null)[] {
    return this.out.values().filter(value => value?.startsWith(`${partition}-`))
  }

  async end(): Promise<void> {
    for (const client of this.clients) await this.world.clock.play(client.close())
    await this.world.end(this.out)
  }
}

const faults = [
  'drop answer',
  'reset after',
  'reset',
  'close',
  { delayMs: 3_000 },
  { answerAfterMs: 3_000 }
] as const
const apis = [
  'Produce',
  'EndTxn',
  'TxnOffsetCommit',
  'InitProducerId',
  'OffsetFetch',
  'ConsumerGroupHeartbeat',
  'Fetch'
]

test('whatever request fails in passing, and in whatever way, each record is copied once and in order', async () => {
  for (let seed = 1; seed <= 6; seed++) {
    const random = new SeededRandom(BigInt(seed))
    const pick = <T>(of: readonly T[]): T => of[Math.floor(random.next() * of.length)] as T
    const w = await PipelineWorld.start()
    const { clock, broker } = w.world
    const pipeline = w.copying({ to: { requestTimeoutMs: 700, deliveryTimeoutMs: 1_500 } })
    for (const api of apis) {
      broker.control.on(api, ({ clientId }) =>
        clientId === 'pipeline' && random.next() < 0.12 ? pick(faults) : undefined
      )
    }
    // Now and then nobody hears for a while what became of commits, which did or did not take place.
    let silence: { readonly until: number; readonly fault: 'drop' | 'drop answer' } | undefined
    let silences = 0
    broker.control.on('EndTxn', () => {
      const now = clock.monotonic()
      if (silence !== undefined && now < silence.until) return silence.fault
      silence = undefined
      if (random.next() >= 0.25) return undefined
      silences += 1
      silence = { until: now + 2_500, fault: pick(['drop', 'drop answer'] as const) }
      return silence.fault
    })
    const run = pipeline.run()
    for (let round = 0; round < 4; round++) {
      await w.world.produce(0, round * 10, 10)
      await w.world.produce(1, round * 10, 10)
      await clock.advance(2_000)
    }
    await clock.runUntil(() => w.out.seen.length >= 80, 600_000)
    await clock.advance(30_000)
    assert.deepEqual(w.of(0), numbered(0, 0, 40), `seed ${seed}`)
    assert.deepEqual(w.of(1), numbered(1, 0, 40), `seed ${seed}`)
    assert.ok(silences > 0 && pipeline.progress.aborted > 0)
    await clock.play(pipeline.close())
    await clock.play(run)
    await w.end()
  }
})

test('two members that come and go copy each record once', async () => {
  const w = await PipelineWorld.start()
  const { clock } = w.world
  const first = w.copying()
  const running = [first.run()]
  for (let round = 0; round < 6; round++) {
    await w.world.produce(0, round * 10, 10)
    await w.world.produce(1, round * 10, 10)
    const second = w.copying()
    running.push(second.run())
    await clock.advance(500 + round * 1_700)
    await clock.play(second.close())
  }
  await clock.runUntil(() => w.out.seen.length >= 120, 60_000)
  await clock.advance(10_000)
  assert.deepEqual(w.of(0), numbered(0, 0, 60))
  assert.deepEqual(w.of(1), numbered(1, 0, 60))
  await clock.play(first.close())
  for (const run of running) await clock.play(run)
  await w.end()
})

test('a transform that rejects ends run with the same, and nothing of its transaction remains', async () => {
  const w = await PipelineWorld.start()
  const { clock } = w.world
  await w.world.produce(0, 0, 10)
  let bad = true
  const pipeline = w.copying({}, records => {
    if (bad && records.some(({ offset }) => offset === 4)) throw new Error('4 is bad')
    return records.map(({ value }) => ({ topic: 'out', value: value ?? '' }))
  })
  await assert.rejects(clock.play(pipeline.run()), { message: '4 is bad' })
  await clock.runUntil(() => w.out.seen.length === 3)
  bad = false
  // The same pipeline goes on where it was.
  const run = pipeline.run()
  await clock.runUntil(() => w.out.seen.length === 10, 60_000)
  assert.deepEqual(w.of(0), numbered(0, 0, 10))
  assert.equal(pipeline.progress.records, 10)
  await clock.play(pipeline.close())
  await clock.play(run)
  await w.end()
})

test('a pipeline whose transactionalId another has taken over ends as FENCED', async () => {
  const w = await PipelineWorld.start()
  const { clock } = w.world
  const first = w.copying({ transactionalId: 'mine' })
  const fenced = first.run()
  fenced.catch(() => {})
  await w.world.produce(0, 0, 5)
  await clock.runUntil(() => w.out.seen.length === 5)
  const second = w.copying({ from: { ...from, group: 'other' }, transactionalId: 'mine' })
  const run = second.run()
  await clock.runUntil(() => w.out.seen.length === 10)
  await w.world.produce(0, 5, 5)
  await assert.rejects(clock.play(fenced), { code: 'FENCED' })
  await clock.play(first.close())
  await clock.play(second.close())
  await clock.play(run)
  await w.end()
})

test('a topic that cannot be written to ends run at once', async () => {
  const w = await PipelineWorld.start()
  const { clock } = w.world
  await w.world.produce(0, 0, 3)
  const pipeline = w.copying({ to: { topicTimeoutMs: 100 } }, records =>
    records.map(({ value }) => ({ topic: 'nowhere', value: value ?? '' }))
  )
  await assert.rejects(clock.play(pipeline.run()), { code: 'UNKNOWN_TOPIC' })
  await clock.play(pipeline.close())
  await w.end()
})
