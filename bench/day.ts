/**
 * A day of a client's life in minutes: the real client and the real embedded broker under a virtual clock. Each hour records
 * flow, a second member comes and goes, connections are reset, the group is rewound, a transaction commits and one
 * aborts, topics are made and deleted. After each hour garbage is collected, and what is left is looked at.
 *
 *   npm run bench -- day [--hours 24]
 *
 * Ends with 1 when the heap after the last hours is more than 5 % above that after the first ones; from hour to hour it
 * goes up and down by 3 %.
 */
import assert from 'node:assert/strict'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { parseArgs } from 'node:util'
import { Admin } from '../src/client/admin/admin.ts'
import { Producer } from '../src/client/producer/producer.ts'
import { VirtualWorld, type Watched } from '../test/client/consumer/virtual.ts'

const { values: options } = parseArgs({ options: { hours: { type: 'string', default: '24' } } })
const hours = Number(options.hours)
const hourMs = 3_600_000
/** Hours at either end that are averaged; the first hour is not counted, as code is compiled in it. */
const ends = 3

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

class Day {
  readonly #world: VirtualWorld
  readonly #admin: Admin
  readonly #producer: Producer
  readonly #transactional: Producer
  readonly #first: Watched
  #hour = 0
  produced = 0

  private constructor(world: VirtualWorld) {
    this.#world = world
    this.#admin = new Admin(world.cluster)
    this.#producer = new Producer(world.cluster)
    this.#transactional = new Producer(world.cluster, { transactionalId: 'day' })
    this.#first = this.#member()
  }

  static async begin(): Promise<Day> {
    const world = await new VirtualWorld().start({ brokers: 2, topics: {} })
    const configs = { 'retention.ms': '600000', 'segment.ms': '300000' }
    await world.clock.play(
      new Admin(world.cluster).createTopics([{ topic: 't', partitions: 4, configs }])
    )
    return new Day(world)
  }

  /** A member that keeps nothing of what it reads. */
  #member(): Watched {
    const member = this.#world.member({ commitIntervalMs: 5_000 })
    member.handle = () => void member.seen.splice(0)
    member.read()
    return member
  }

  async hour(): Promise<void> {
    const { clock, broker } = this.#world
    const half = this.#flow(hourMs / 2)
    const second = this.#member()
    await half
    await clock.play(second.consumer.close())
    for (const api of ['Fetch', 'Produce', 'ConsumerGroupHeartbeat', 'OffsetCommit']) {
      broker.control.on(api, { count: 1 }, 'reset after')
    }
    await clock.play(broker.moveLeader('t', this.#hour % 4, 1 + (this.#hour % 2)))
    await this.#rewind()
    await this.#transactions()
    const topic = `of-hour-${this.#hour++}`
    await clock.play(this.#admin.createTopics([{ topic, partitions: 2 }]))
    await clock.play(this.#producer.send(topic, { value: 'once' }))
    await clock.play(this.#admin.deleteTopics([topic]))
    await this.#flow(hourMs / 4)
    this.#first.events.length = 0
    // So that the broker, which is in this process, has deleted its records.
    await clock.advance(hourMs / 4)
  }

  /** Ten records a second. */
  async #flow(ms: number): Promise<void> {
    const { clock } = this.#world
    const until = clock.monotonic() + ms
    while (clock.monotonic() < until) {
      const records = Array.from({ length: 10 }, (_, i) => ({
        value: `record ${this.produced + i}`
      }))
      this.produced += records.length
      await clock.play(this.#producer.sendMany('t', records))
      await clock.advance(1_000)
    }
  }

  async #rewind(): Promise<void> {
    const { clock } = this.#world
    const plan = await clock.play(this.#admin.planRewind('g', { topics: ['t'], to: { ago: '1m' } }))
    const { partitions } = await clock.play(this.#admin.rewind(plan, { reason: 'hourly' }))
    assert.equal(partitions.length, 4)
  }

  async #transactions(): Promise<void> {
    const { clock } = this.#world
    const producer = this.#transactional
    for (let i = 0; i < 20; i++) {
      const transaction = await clock.play(producer.begin())
      await clock.play(transaction.send('t', { value: 'transactional' }))
      await clock.play(i % 2 === 0 ? transaction.commit() : transaction.abort())
    }
  }

  async end(): Promise<void> {
    const { clock } = this.#world
    await clock.play(this.#producer.close())
    await clock.play(this.#transactional.close())
    await this.#world.end(this.#first)
  }
}

const mean = (of: readonly number[]) => of.reduce((a, b) => a + b, 0) / of.length

const day = await Day.begin()
const heaps: number[] = []
const startedAt = performance.now()
for (let hour = 1; hour <= hours; hour++) {
  await day.hour()
  collect()
  const { heapUsed, external } = process.memoryUsage()
  heaps.push(heapUsed + external)
  const took = ((performance.now() - startedAt) / 1_000).toFixed(0)
  const mb = ((heapUsed + external) / 1e6).toFixed(2)
  console.log(`hour ${hour}: ${mb} MB after garbage collection, ${day.produced} records, ${took} s`)
}
const before = mean(heaps.slice(1, 1 + ends))
const after = mean(heaps.slice(-ends))
const growth = (after / before - 1) * 100
console.log(`from hours 2 to ${1 + ends} to the last ${ends}: ${growth.toFixed(2)} %`)
await day.end()
process.exitCode = hours > 2 * ends && growth > 5 ? 1 : 0
