/**
 * `playhead demo`: the main job in front of your eyes. A broker, a topic of six partitions with records coming in,
 * a group of three consumers; then two partitions of the running group are rewound, while the other four flow on.
 */
import type { Command } from 'commander'
import { Broker } from '../broker.ts'
import type { RewoundPartition } from '../client/admin/rewind-result.ts'
import type { Consumer } from '../client/consumer/consumer.ts'
import type { Playhead, Producer } from '../index.ts'
import type { CommonOptions, Context } from './context.ts'
import { type Terminal, count } from './terminal.ts'

const partitionCount = 6
const memberCount = 3
const firstRecords = 60_000
/** Records a second that keep coming while the group is rewound. */
const trickle = 2_000
const rewound = [0, 3]

export function addDemo(root: Command, context: Context): void {
  root
    .command('demo')
    .description(
      'a group of three consumers, and a live rewind (starts a broker unless --bootstrap)'
    )
    .action(async (_: unknown, command: Command) => {
      const options = command.optsWithGlobals<CommonOptions>()
      if (root.getOptionValueSource('bootstrap') !== 'default' || process.env.PLAYHEAD_BOOTSTRAP) {
        return await demo(options, context)
      }
      const from = performance.now()
      await using broker = await Broker.start()
      const ms = Math.round(performance.now() - from)
      const bootstrap = broker.bootstrap.join(',')
      context.terminal.print(`An embedded broker listens on ${bootstrap}, after ${ms} ms.`)
      await demo({ ...options, bootstrap }, context)
    })
}

async function demo(options: CommonOptions, context: Context): Promise<void> {
  await context.withCluster(options, async kafka => {
    const name = `playhead-demo-${Date.now().toString(36)}`
    const admin = kafka.admin()
    await admin.createTopics([{ topic: name, partitions: partitionCount, replicationFactor: 1 }])
    try {
      await new Demo(kafka, name, context.terminal).run()
    } finally {
      await admin.deleteTopics([name])
      await admin.deleteGroups([name])
    }
  })
}

/** What a partition went through, as its consumers saw it. */
interface Seen {
  records: number
  /** Records at offsets that were delivered before. */
  again: number
  next: number
  owner: number
  deliveredAt: number
  longestWaitMs: number
}

class Demo {
  readonly #kafka: Playhead
  readonly #name: string
  readonly #terminal: Terminal
  readonly #consumers: Consumer[] = []
  readonly #seen: Seen[] = Array.from({ length: partitionCount }, () => ({
    records: 0,
    again: 0,
    next: 0,
    owner: -1,
    deliveredAt: 0,
    longestWaitMs: 0
  }))
  /** Wakes whoever waits for the counts to have changed. */
  #changed: () => void = () => {}

  constructor(kafka: Playhead, name: string, terminal: Terminal) {
    this.#kafka = kafka
    this.#name = name
    this.#terminal = terminal
  }

  async run(): Promise<void> {
    const { print } = this
    await using producer = this.#kafka.producer({ lingerMs: 5 })
    await producer.sendMany(
      this.#name,
      Array.from({ length: firstRecords }, (_, i) => ({ key: `k${i}`, value: `order ${i}` }))
    )
    print(`${count(firstRecords)} records are in a topic of ${partitionCount} partitions.`)
    const reading = this.#startConsumers()
    try {
      await this.#until(() => this.#total('records') >= firstRecords)
      print(`A group of ${memberCount} consumers has read them all. Where each partition is:\n`)
      this.#printPositions()

      const stop = new AbortController()
      const sending = this.#keepSending(producer, stop.signal)
      await this.#rewind()
      stop.abort()
      await sending
      this.#printOutcome()
    } finally {
      await Promise.all(this.#consumers.map(consumer => consumer.close()))
      await Promise.all(reading)
    }
  }

  readonly print = (line: string): void => this.#terminal.print(line)

  #startConsumers(): Promise<void>[] {
    return Array.from({ length: memberCount }, (_, member) => {
      const consumer = this.#kafka.consumer({ group: this.#name, topics: [this.#name] })
      consumer.on('rewound', ({ partitions }) => {
        const names = partitions.map(({ partition }) => partition).join(' and ')
        this.print(`  consumer ${member} hears of it: partition ${names} jumps`)
      })
      this.#consumers.push(consumer)
      return this.#read(consumer, member)
    })
  }

  async #read(consumer: Consumer, member: number): Promise<void> {
    for await (const batch of consumer.batches()) {
      const seen = this.#seen[batch.partition]
      if (!seen) continue
      const now = performance.now()
      if (seen.deliveredAt > 0) {
        seen.longestWaitMs = Math.max(seen.longestWaitMs, now - seen.deliveredAt)
      }
      seen.deliveredAt = now
      seen.owner = member
      for (const record of batch) {
        seen.records++
        if (record.offset < seen.next) seen.again++
        seen.next = Math.max(seen.next, record.offset + 1)
      }
      this.#changed()
    }
  }

  /** Waits until the consumers have seen enough. */
  async #until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      await new Promise<void>(resolve => {
        this.#changed = resolve
      })
    }
  }

  #total(what: 'records' | 'again'): number {
    return this.#seen.reduce((sum, seen) => sum + seen[what], 0)
  }

  async #keepSending(producer: Producer, stop: AbortSignal): Promise<void> {
    for (let i = 0; !stop.aborted; i++) {
      const tick = new Promise(resolve => setTimeout(resolve, 10))
      await producer.sendMany(
        this.#name,
        Array.from({ length: trickle / 100 }, (_, k) => ({
          partition: (i * 7 + k) % partitionCount,
          value: `later order ${i}.${k}`
        }))
      )
      await tick
    }
  }

  async #rewind(): Promise<void> {
    const admin = this.#kafka.admin()
    await this.#until(() => this.#total('records') >= firstRecords + trickle)
    for (const seen of this.#seen) seen.longestWaitMs = 0
    const partitions = rewound.map(partition => ({ topic: this.#name, partition }))
    const plan = await admin.planRewind(this.#name, { partitions, to: 'earliest' })
    this.print(
      `\n${count(trickle)} records a second keep coming. Now, while the group runs:\n` +
        `  playhead rewind ${this.#name} --topic ${this.#name}:${rewound.join()} --to earliest --execute`
    )
    const result = await admin.rewind(plan, { reason: 'demo' })
    this.print(`  done in ${Math.round(result.ms)} ms:\n`)
    this.#terminal.table<RewoundPartition>(result.partitions, [
      { title: 'PARTITION', value: p => p.partition, align: 'right' },
      { title: 'FROM', value: p => p.from, align: 'right' },
      { title: 'TO', value: p => p.to, align: 'right' },
      { title: 'MS', value: p => (p.ms === null ? null : Math.round(p.ms)), align: 'right' },
      { title: 'STATE', value: p => p.state }
    ])
    // From where each owner stood: the plan knows the last commit only, which may be seconds old, or none.
    const again = result.partitions.reduce((sum, { from, to }) => sum + ((from ?? 0) - to), 0)
    await this.#until(() => this.#total('again') >= again)
  }

  #printPositions(): void {
    this.#terminal.table(
      this.#seen.map((seen, partition) => ({ partition, ...seen })),
      [
        { title: 'PARTITION', value: s => s.partition, align: 'right' },
        { title: 'CONSUMER', value: s => s.owner, align: 'right' },
        { title: 'NEXT OFFSET', value: s => s.next, align: 'right' }
      ]
    )
  }

  #printOutcome(): void {
    this.print('\nWhat each partition saw meanwhile:\n')
    this.#terminal.table(
      this.#seen.map((seen, partition) => ({ partition, ...seen })),
      [
        { title: 'PARTITION', value: s => s.partition, align: 'right' },
        { title: 'REWOUND', value: s => (rewound.includes(s.partition) ? 'yes' : 'no') },
        { title: 'DELIVERED AGAIN', value: s => s.again, align: 'right' },
        { title: 'NEXT OFFSET', value: s => s.next, align: 'right' },
        { title: 'LONGEST WAIT', value: s => `${Math.round(s.longestWaitMs)} ms`, align: 'right' }
      ]
    )
  }
}
