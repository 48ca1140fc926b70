/**
 * What things cost as they grow: partitions, records, members, brokers. Against the embedded broker in memory, a process of
 * its own; the costs are CPU of this process, where the client is, unless a column says otherwise. Under each column is
 * its exponent: 0, it doesn't grow; 1, it grows with the size. A line whose cost is a thousandth of the run's is noise.
 *
 *   npm run bench -- growth [partitions] [bytes] [members] [brokers]
 */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { once } from 'node:events'
import { Broker } from '../src/broker.ts'
import { Playhead } from '../src/index.ts'

type Row = Record<string, number>

interface Axis {
  readonly sizes: readonly number[]
  readonly row: (size: number) => Promise<Row>
}

const topic = 't'
const budgetBytes = 60_000_000

/** In the broker's own process, until its parent ends it. */
async function serve(brokers: number, partitions: number): Promise<void> {
  const topics = { [topic]: partitions }
  const broker = await Broker.start({ brokers, topics, maxConnections: 20_000 })
  console.log(broker.bootstrap.join())
}

/** Runs `use` with a broker of its own. */
async function withBroker<T>(
  brokers: number,
  partitions: number,
  use: (kafka: Playhead) => Promise<T>
): Promise<T> {
  const args = [process.argv[1] ?? '', 'serve', `${brokers}`, `${partitions}`]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const [bootstrap] = (await once(createInterface(child.stdout), 'line')) as [string]
    const kafka = new Playhead({ bootstrap: bootstrap.split(',') })
    try {
      return await use(kafka)
    } finally {
      await kafka.close()
    }
  } finally {
    child.kill()
    await once(child, 'exit')
  }
}

/** CPU of this process, and the time, that `work` takes; in ms. */
async function cost(work: () => Promise<unknown>): Promise<{ cpuMs: number; ms: number }> {
  const before = process.cpuUsage()
  const start = performance.now()
  await work()
  const { user, system } = process.cpuUsage(before)
  return { cpuMs: (user + system) / 1000, ms: performance.now() - start }
}

async function produce(kafka: Playhead, count: number, bytes: number, partitions: number) {
  const value = Buffer.alloc(bytes, 'x')
  await using producer = kafka.producer()
  const calls = Math.max(1, Math.floor(1_000_000 / bytes))
  let next = 0
  await producer.send(topic, { value, partition: 0 })
  return await cost(async () => {
    while (next < count) {
      const length = Math.min(calls, count - next)
      const records = Array.from({ length }, () => ({ value, partition: next++ % partitions }))
      await producer.sendMany(topic, records)
    }
  })
}

/** Time to the first record, and what all of them cost. */
async function consume(kafka: Playhead, count: number) {
  await using consumer = kafka.consumer({
    group: `g-${count}`,
    topics: [topic],
    startFrom: 'earliest'
  })
  const start = performance.now()
  let firstMs = 0
  let got = 0
  const { cpuMs } = await cost(async () => {
    for await (const batch of consumer.batches()) {
      if (firstMs === 0) firstMs = performance.now() - start
      for (const record of batch) if (record.value !== null) got++
      if (got >= count) break
    }
  })
  return { cpuMs, firstMs }
}

/** What is asked again and again, each once the client is warm. */
async function upkeep(kafka: Playhead): Promise<Row> {
  const { cluster } = kafka
  await cluster.refresh()
  const times = 5
  const { ms } = await cost(async () => {
    for (let i = 0; i < times; i++) await cluster.refresh()
  })
  return { 'metadata refresh, ms': ms / times }
}

async function flow(brokers: number, partitions: number, bytes: number): Promise<Row> {
  return await withBroker(brokers, partitions, async kafka => {
    const count = Math.max(60, Math.min(300_000, Math.floor(budgetBytes / bytes)))
    const produced = await produce(kafka, count, bytes, partitions)
    const consumed = await consume(kafka, count)
    return {
      'produce, µs/record': (produced.cpuMs * 1000) / count,
      'consume, µs/record': (consumed.cpuMs * 1000) / count,
      'first record, ms': consumed.firstMs,
      ...(await upkeep(kafka)),
      'RSS, MB': process.memoryUsage.rss() / 1e6
    }
  })
}

/** A group grows to `members`, each a consumer of its own, and two partitions each; then it is rewound. */
async function group(members: number): Promise<Row> {
  return await withBroker(1, members * 2, async kafka => {
    const admin = kafka.admin()
    const records = members * 2
    await produce(kafka, records, 100, records)
    const open = Array.from({ length: members }, () =>
      kafka.consumer({ group: 'growing', topics: [topic], startFrom: 'earliest' })
    )
    let got = 0
    let wanted = records + 1
    let enough: () => void = () => {}
    const until = (count: number) =>
      new Promise<void>(resolve => {
        wanted = count
        enough = resolve
        if (got >= wanted) resolve()
      })
    const reading = open.map(async consumer => {
      for await (const record of consumer) {
        if (record.value !== null) got++
        if (got >= wanted) enough()
      }
    })
    const joined = await cost(() => until(records + 1))
    const plan = await admin.planRewind('growing', { to: 'earliest' })
    const rewound = await cost(async () => {
      await Promise.all([admin.rewind(plan, { timeoutMs: 60_000 }), until(2 * records + 2)])
    })
    const idle = await cost(() => new Promise(resolve => setTimeout(resolve, 5000)))
    await Promise.all(open.map(consumer => consumer.close()))
    await Promise.all(reading)
    return {
      'all have joined, ms': joined.ms,
      'rewind of all, ms': rewound.ms,
      'rewind, CPU ms/member': rewound.cpuMs / members,
      'idle, CPU ms/s/member': idle.cpuMs / (idle.ms / 1000) / members,
      'RSS, MB': process.memoryUsage.rss() / 1e6
    }
  })
}

const axes: Record<string, Axis> = {
  partitions: { sizes: [10, 100, 1_000, 10_000], row: partitions => flow(1, partitions, 100) },
  bytes: { sizes: [100, 1_000, 10_000, 100_000, 1_000_000], row: bytes => flow(1, 3, bytes) },
  members: { sizes: [1, 5, 25, 100, 200], row: group },
  brokers: { sizes: [1, 4, 16, 64], row: brokers => flow(brokers, 192, 100) }
}

/** The slope of the best line through the logarithms. */
function exponent(sizes: readonly number[], costs: readonly number[]): number {
  const xs = sizes.map(Math.log)
  const ys = costs.map(value => Math.log(Math.max(value, 1e-9)))
  const mean = (list: readonly number[]) => list.reduce((a, b) => a + b, 0) / list.length
  const [mx, my] = [mean(xs), mean(ys)]
  const over = xs.reduce((sum, x, i) => sum + (x - mx) * ((ys[i] ?? 0) - my), 0)
  return over / xs.reduce((sum, x) => sum + (x - mx) ** 2, 0)
}

async function measure(name: string, { sizes, row }: Axis): Promise<void> {
  // The first of all pays for what Node compiles.
  await row(sizes[0] ?? 1)
  const rows: Row[] = []
  for (const size of sizes) rows.push(await row(size))
  const columns = Object.keys(rows[0] ?? {})
  const costs = (column: string) => rows.map(each => each[column] ?? 0)
  const line = (cells: readonly string[]) => console.log(`| ${cells.join(' | ')} |`)
  line([name, ...columns])
  line([name, ...columns].map(() => '--:'))
  for (const [i, size] of sizes.entries()) {
    line([size.toLocaleString('en'), ...columns.map(column => figure(rows[i]?.[column] ?? 0))])
  }
  line(['exponent', ...columns.map(column => exponent(sizes, costs(column)).toFixed(2))])
}

function figure(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en') : value.toPrecision(3)
}

const [command, ...rest] = process.argv.slice(2)
if (command === 'serve') {
  await serve(Number(rest[0]), Number(rest[1]))
} else {
  for (const name of command === undefined ? Object.keys(axes) : [command, ...rest]) {
    const axis = axes[name]
    if (axis === undefined) throw new Error(`no ${name}; there are ${Object.keys(axes).join(', ')}`)
    console.log(`\n${name}, Node ${process.version}\n`)
    await measure(name, axis)
  }
}
