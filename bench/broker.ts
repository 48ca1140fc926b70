/**
 * The embedded broker by itself: how soon it answers, what it takes in and gives out, what it costs, and how it holds
 * up under many. Asked by bare requests, so that no client's cost is in it.
 *
 *   node build/bench/broker.js [--megabytes 300] [--durability memory|os|fsync] [--connections 998] [--rounds 3]
 *     [--partitions 1000]
 *
 * The broker runs in a process of its own, whose CPU time is what is told. On a shared machine the figures mean
 * something beside others of the same minute only.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { nodeCpu } from '../src/base/node/cpu.ts'
import { nodeEnv } from '../src/base/node/env.ts'
import { Broker } from '../src/broker.ts'
import { Heartbeat } from '../src/protocol/api/heartbeat.ts'
import { JoinGroup } from '../src/protocol/api/join-group.ts'
import { SyncGroup } from '../src/protocol/api/sync-group.ts'
import { BatchReader } from '../src/protocol/records/batch.ts'
import { Wire, batchOf } from '../test/broker/wire.ts'

const { values: options } = parseArgs({
  options: {
    megabytes: { type: 'string', default: '300' },
    durability: { type: 'string', default: 'os' },
    connections: { type: 'string', default: '998' },
    rounds: { type: 'string', default: '3' },
    partitions: { type: 'string', default: '1000' },
    serve: { type: 'string' }
  }
})
const env = nodeEnv({ cpu: nodeCpu() })
const say = (line: string) => process.stdout.write(`${line}\n`)

/** The broker's own process. */
async function serve(dataDir: string): Promise<void> {
  const began = performance.now()
  const topics = { t: 1, many: Number(options.partitions) }
  const { durability } = options
  const stored = durability === 'os' || durability === 'fsync' ? { dataDir, durability } : {}
  const broker = await Broker.start({ ...stored, topics } as Parameters<typeof Broker.start>[0])
  say(`${broker.bootstrap[0]} ${performance.now() - began}`)
  process.on('SIGTERM', () => void broker.close())
}

async function begin(dir: string) {
  const script = process.argv[1] ?? ''
  const { durability, partitions } = options
  const args = [script, '--serve', dir, '--durability', durability, '--partitions', partitions]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  const [at = '', startMs = ''] = line.split(' ')
  const end = async () => {
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
  return { at, startMs: Number(startMs), end, pid: child.pid ?? 0 }
}

/** CPU seconds of a process so far. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / 100
}

function memoryOf(pid: number): number {
  const kilobytes = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kilobytes) / 1024
}

async function measure(): Promise<void> {
  await firstAnswer()
  const dir = mkdtempSync(join(tmpdir(), 'playhead-bench-'))
  try {
    const broker = await begin(dir)
    for (let round = 0; round < Number(options.rounds); round++)
      await throughput(broker.at, broker.pid)
    await latency(broker.at)
    await many(broker.at, broker.pid)
    await broker.end()
    if (options.durability !== 'memory') {
      const again = await begin(dir)
      say(`start with all of that on disk: ${again.startMs.toFixed(0)} ms`)
      await again.end()
    }
  } finally {
    rmSync(dir, { recursive: true })
  }
}

async function firstAnswer(): Promise<void> {
  const times: number[] = []
  for (let round = 0; round < 20; round++) {
    const began = performance.now()
    await using broker = await Broker.start({ topics: { t: 1 } })
    const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
    await wire.produce('t', 0, batchOf(['x']))
    times.push(performance.now() - began)
    await wire.close()
  }
  const first = times[0] ?? 0
  say(
    `Broker.start() to its first Produce answered: ${first.toFixed(1)} ms, then ${middle(times).toFixed(1)} ms`
  )
}

async function throughput(at: string, pid: number): Promise<void> {
  const wire = await Wire.connect(env, at)
  const batch = batchOf(Array.from({ length: 16 }, () => 'x'.repeat(1000)))
  const count = Math.round((Number(options.megabytes) * 1e6) / batch.length)
  const from = (await wire.offset('t', 0, -1)).offset
  await timed('produce', count * batch.length, pid, async () => {
    const sent: Promise<unknown>[] = []
    for (let index = 0; index < count; index++) {
      sent.push(wire.produce('t', 0, Buffer.from(batch)))
      if (sent.length >= 20) await sent.shift()
    }
    await Promise.all(sent)
  })
  await timed('fetch', count * batch.length, pid, async () => {
    for (let offset = from; offset < from + count * 16; ) {
      const { records } = await wire.fetch('t', 0, offset, {
        maxBytes: 1e7,
        partitionMaxBytes: 1e6
      })
      for (const { nextOffset } of new BatchReader(records)) offset = nextOffset
    }
  })
  await wire.close()
}

async function timed(what: string, bytes: number, pid: number, run: () => Promise<void>) {
  const cpu = cpuOf(pid)
  const began = performance.now()
  await run()
  const seconds = (performance.now() - began) / 1000
  const perGigabyte = ((cpuOf(pid) - cpu) / bytes) * 1e9
  const speed = (bytes / 1e6 / seconds).toFixed(0)
  say(
    `${what} (${options.durability}): ${speed} MB/s, ${perGigabyte.toFixed(2)} CPU s per GB, ${memoryOf(pid).toFixed(0)} MB`
  )
}

/** One record at a time: from the call to the acknowledgement, and from there until a waiting fetch has it. */
async function latency(at: string): Promise<void> {
  const [writer, reader] = [await Wire.connect(env, at), await Wire.connect(env, at)]
  const [acknowledged, seen]: [number[], number[]] = [[], []]
  for (let round = 0; round < 500; round++) {
    const { offset } = await writer.offset('t', 0, -1)
    const waiting = reader.fetch('t', 0, offset, { maxWaitMs: 5000 })
    const began = performance.now()
    await writer.produce('t', 0, batchOf(['x'.repeat(1000)]))
    acknowledged.push(performance.now() - began)
    await waiting
    seen.push(performance.now() - began)
  }
  say(`one record at a time: acknowledged ${spread(acknowledged)}; read ${spread(seen)}`)
  await writer.close()
  await reader.close()
}

/** As many connections as are allowed, in groups of two, joining all at once, with a heartbeat a second each. */
async function many(at: string, pid: number): Promise<void> {
  const count = Number(options.connections)
  const members: Member[] = []
  for (let index = 0; index < count; index++) {
    members.push(new Member(await Wire.connect(env, at), `g${index >> 1}`))
  }
  const storm: number[] = []
  const calm: number[] = []
  let joining = count
  let until = Infinity
  let cpu = 0
  const began = performance.now()
  let stormMs = 0
  await Promise.all(
    members.map(async (member, index) => {
      await member.settle()
      if (--joining === 0) {
        stormMs = performance.now() - began
        until = performance.now() + 6000
        cpu = cpuOf(pid)
      }
      await sleep(index % 1000)
      while (performance.now() < until) {
        const times = joining === 0 ? calm : storm
        const from = performance.now()
        await member.beat()
        times.push(performance.now() - from)
        await sleep(1000)
      }
    })
  )
  const busy = ((cpuOf(pid) - cpu) / 7) * 100
  say(
    `${count} members in ${count / 2} groups, ${options.partitions} partitions: joined within ${stormMs.toFixed(0)} ms; ` +
      `heartbeats ${spread([...storm, ...calm])} in all (${storm.length} while others joined: ${spread(storm)}), ` +
      `CPU ${busy.toFixed(1)} %`
  )
  const idle = cpuOf(pid)
  await sleep(5000)
  say(
    `idle with them connected: CPU ${(((cpuOf(pid) - idle) / 5) * 100).toFixed(2)} %, ${memoryOf(pid).toFixed(0)} MB`
  )
  await Promise.all(members.map(member => member.wire.close()))
}

function spread(times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number) => (sorted[Math.floor(sorted.length * share)] ?? Number.NaN).toFixed(1)
  return `p50 ${at(0.5)}, p99 ${at(0.99)} ms`
}

class Member {
  readonly wire: Wire
  readonly #groupId: string
  #memberId = ''
  #generationId = -1

  constructor(wire: Wire, groupId: string) {
    this.wire = wire
    this.#groupId = groupId
  }

  /** Joins until the group is stable. */
  async settle(): Promise<void> {
    do await this.#join()
    while ((await this.beat()) !== 0)
  }

  async beat(): Promise<number> {
    const body = {
      groupId: this.#groupId,
      generationId: this.#generationId,
      memberId: this.#memberId
    }
    return (await this.wire.ask(Heartbeat, 3, body)).errorCode
  }

  async #join(): Promise<void> {
    const groupId = this.#groupId
    const joined = await this.wire.ask(JoinGroup, 5, {
      groupId,
      sessionTimeoutMs: 30_000,
      rebalanceTimeoutMs: 30_000,
      memberId: this.#memberId,
      protocolType: 'consumer',
      protocols: [{ name: 'range', metadata: Buffer.from([0, 1]) }]
    })
    this.#memberId = joined.memberId
    if (joined.errorCode !== 0) return
    const { generationId, memberId, members } = joined
    this.#generationId = generationId
    const assignments = members.map(one => ({
      memberId: one.memberId,
      assignment: Buffer.from([1])
    }))
    await this.wire.ask(SyncGroup, 3, { groupId, generationId, memberId, assignments })
  }
}

function middle(times: readonly number[]): number {
  return [...times].sort((a, b) => a - b)[times.length >> 1] ?? 0
}

function sleep(ms: number): Promise<void> {
  return new Promise(resolve => {
    setTimeout(resolve, ms)
  })
}

if (options.serve !== undefined) await serve(options.serve)
else await measure()
