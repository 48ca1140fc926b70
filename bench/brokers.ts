/**
 * The embedded broker beside a real Kafka: the same client, the same records, taking turns in one run.
 *
 *   node build/bench/brokers.js --kafka 127.0.0.1:9092 [--records 200000] [--bytes 1000] [--partitions 3] [--rounds 5]
 *     [--batch 1000000] [--durability fsync|os] [--cli build/src/cli/main.js] [--profile DIRECTORY]
 *
 * The embedded broker is `playhead broker --data`, a process of its own, as users run it; Kafka is what you started. The
 * client is Playhead's, with its defaults: `sendMany` of 1,000 records, ten calls at once; `batches()` of a consumer,
 * each value looked at. Who goes first changes with each round; told are medians, and the ratio of each round's pair.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { Playhead } from '../src/index.ts'

const { values: options } = parseArgs({
  options: {
    kafka: { type: 'string', default: '' },
    records: { type: 'string', default: '200000' },
    bytes: { type: 'string', default: '1000' },
    partitions: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '5' },
    batch: { type: 'string', default: '1000000' },
    durability: { type: 'string', default: 'fsync' },
    cli: { type: 'string', default: join(import.meta.dirname, '../src/cli/main.js') },
    profile: { type: 'string' }
  }
})
const count = Number(options.records)
const partitions = Number(options.partitions)
const value = Buffer.alloc(Number(options.bytes), 'x')
const chunk = 1000
const atOnce = 10

interface Peer {
  readonly name: string
  readonly kafka: Playhead
  /** Of the process, where it is ours. */
  readonly pid: number | undefined
  readonly produced: number[]
  readonly consumed: number[]
  cpuOfProducing: number
  cpuOfConsuming: number
}

async function embedded(dir: string) {
  const profile =
    options.profile === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', options.profile]
  const args = [...profile, options.cli, 'broker', '--data', dir, '--port', '0', '--json']
  const child = spawn(process.execPath, [...args, '--durability', options.durability], {
    stdio: ['ignore', 'pipe', 'ignore']
  })
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  const { bootstrap } = JSON.parse(line) as { bootstrap: string[] }
  const end = async () => {
    child.kill('SIGINT')
    await once(child, 'exit')
  }
  return { bootstrap, pid: child.pid, end }
}

function peer(name: string, bootstrap: readonly string[], pid?: number): Peer {
  const kafka = new Playhead({ bootstrap: [...bootstrap], clientId: 'bench' })
  const nothing = { produced: [], consumed: [], cpuOfProducing: 0, cpuOfConsuming: 0 }
  return { name, kafka, pid, ...nothing }
}

async function produce({ kafka }: Peer, topic: string): Promise<number> {
  await using producer = kafka.producer({ batchBytes: Number(options.batch) })
  // Connections, metadata and the producer id are not part of the throughput.
  await producer.sendMany(
    topic,
    Array.from({ length: partitions }, (_, partition) => ({ partition }))
  )
  const began = performance.now()
  let left = count
  const lane = async () => {
    while (left > 0) {
      const length = Math.min(chunk, left)
      left -= length
      await producer.sendMany(
        topic,
        Array.from({ length }, () => ({ value }))
      )
    }
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
  return count / (performance.now() - began)
}

async function consume({ kafka }: Peer, topic: string): Promise<number> {
  const assign = Array.from({ length: partitions }, (_, partition) => ({
    topic,
    partition,
    offset: 0
  }))
  const consumer = kafka.consumer({ assign })
  const began = performance.now()
  let [seen, sum] = [0, 0]
  for await (const batch of consumer.batches()) {
    for (const record of batch) {
      seen++
      sum += record.value?.[0] ?? 0
    }
    if (seen >= count + partitions) break
  }
  const rate = count / (performance.now() - began)
  await consumer.close()
  if (sum !== count * 'x'.charCodeAt(0)) throw new Error(`${sum} is not what was produced`)
  return rate
}

/** CPU seconds of a process so far. */
function cpuOf(pid: number | undefined): number {
  if (pid === undefined) return Number.NaN
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / 100
}

function memoryOf(pid: number): string {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const of = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) / 1024
  return `${of('VmRSS').toFixed(0)} MB, at most ${of('VmHWM').toFixed(0)} MB`
}

function median(of: readonly number[]): number {
  return of.toSorted((a, b) => a - b)[of.length >> 1] ?? Number.NaN
}

function tell(what: string, peers: readonly Peer[], of: (peer: Peer) => readonly number[]): void {
  const [ours, theirs] = peers
  const mb = (rate: number) => `${((rate * value.length) / 1000).toFixed(0)} MB/s`
  const each = peers.map(one => `${one.name} ${mb(median(of(one)))} [${of(one).map(mb).join(' ')}]`)
  const pairs = of(ours as Peer).map((rate, round) => rate / ((theirs && of(theirs)[round]) ?? NaN))
  const ratio = theirs === undefined ? '' : `; ratio ${median(pairs).toFixed(2)}`
  process.stdout.write(`${what}: ${each.join(', ')}${ratio}\n`)
}

async function round(one: Peer, number: number): Promise<void> {
  const topic = `bench-${process.pid}-${number}`
  const admin = one.kafka.admin()
  await admin.createTopics([{ topic, partitions }])
  const before = cpuOf(one.pid)
  one.produced.push(await produce(one, topic))
  const between = cpuOf(one.pid)
  one.consumed.push(await consume(one, topic))
  one.cpuOfProducing += between - before
  one.cpuOfConsuming += cpuOf(one.pid) - between
  await admin.deleteTopics([topic])
}

const dir = mkdtempSync(join(tmpdir(), 'playhead-bench-'))
const broker = await embedded(dir)
const peers = [peer(`embedded (${options.durability})`, broker.bootstrap, broker.pid)]
if (options.kafka !== '') peers.push(peer('kafka', options.kafka.split(',')))
try {
  // The first is for warming up all sides.
  for (let number = 0; number <= Number(options.rounds); number++) {
    const order = number % 2 === 0 ? peers : peers.toReversed()
    for (const one of order) await round(one, number)
    if (number > 0) continue
    for (const one of peers) {
      one.produced.length = 0
      one.consumed.length = 0
      one.cpuOfProducing = 0
      one.cpuOfConsuming = 0
    }
  }
  tell('produce', peers, one => one.produced)
  tell('consume', peers, one => one.consumed)
  const gigabytes = (count * value.length * Number(options.rounds)) / 1e9
  const [{ cpuOfProducing, cpuOfConsuming } = peers[0] as Peer] = peers
  const perGigabyte = (seconds: number) => `${(seconds / gigabytes).toFixed(2)} CPU s per GB`
  process.stdout.write(
    `embedded: producing ${perGigabyte(cpuOfProducing)}, consuming ${perGigabyte(cpuOfConsuming)}, ` +
      `${memoryOf(broker.pid ?? 0)}\n`
  )
} finally {
  for (const { kafka } of peers) await kafka.close()
  await broker.end()
  rmSync(dir, { recursive: true })
}
