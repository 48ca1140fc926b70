/**
 * Throws strange requests at a broker, and fails when it dies, hangs, keeps memory, or finds an error of its own
 * (invariants P1–P3, P5).
 *
 *   node build/test/fuzz/main.js [--count 1000000] [--seconds 180] [--seed 1] [--lanes 32]
 *
 * Most requests are well-formed with odd fields, the others damaged bytes; see mutate.ts. What they made (topics,
 * groups) is deleted from time to time, so that memory that stays is memory that leaks. Each lane sends the same for a
 * seed; how the lanes meet is chance.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type Socket, connect } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { SeededRandom } from '../../sim/world/random.ts'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { DeleteGroups } from '../../src/protocol/api/delete-groups.ts'
import { DeleteTopics } from '../../src/protocol/api/delete-topics.ts'
import { ListGroups } from '../../src/protocol/api/list-groups.ts'
import { Metadata } from '../../src/protocol/api/metadata.ts'
import { Wire } from '../broker/wire.ts'
import { mutated, requests, strange } from './mutate.ts'

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: String(Date.now() % 1e9) },
    seconds: { type: 'string', default: 'Infinity' },
    lanes: { type: 'string', default: '32' }
  }
})
const [count, seconds] = [Number(values.count), Number(values.seconds)]
const [seed, lanes] = [Number(values.seed), Number(values.lanes)]
const noId = 'AAAAAAAAAAAAAAAAAAAAAA'
const env = nodeEnv({ cpu: nodeCpu() })

/** Sent at once on a connection: well-formed ones, then damaged ones, as one that makes no sense ends it. */
const burst = 54
const damagedBurst = 6
/** For answers that are due later, as of a group's members that wait for each other. */
const patienceMs = 20
/** How often what was made is deleted, and the broker looked at. */
const roundRequests = 50_000
const mostBytes = 150 * 1024 * 1024
/** P1: nobody waits longer for an answer. Loaded machines are slow, but not so slow. */
const bystanderMs = 10_000

interface Health {
  /** Requests so far: those handled, and those that made no sense. */
  readonly read: number
  readonly bytes: number
  readonly rss: number
  readonly longestMs: number
  readonly faults: readonly string[]
}

const child = spawn(process.execPath, ['--expose-gc', join(import.meta.dirname, 'child.js')], {
  stdio: ['pipe', 'pipe', 'inherit']
})
const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
const address = String((await lines.next()).value)
const startedAt = performance.now()
try {
  await fuzz(child)
} finally {
  child.kill('SIGKILL')
}

async function fuzz(broker: ChildProcess): Promise<void> {
  const died = once(broker, 'exit').then(([code, signal]) =>
    assert.fail(`the broker died: ${String(code ?? signal)}, seed ${seed}`)
  )
  died.catch(() => {})
  // One each, so that what a lane sends does not hang on what the others do meanwhile.
  const randoms = Array.from({ length: lanes }, (_, lane) => new SeededRandom(seed * 1000 + lane))
  const originals = requests()
  const bystander = await Wire.connect(env, address)
  const id = (await bystander.ask(Metadata, 12, { topics: [{ name: 't' }] })).topics[0]?.topicId
  const base = await health(broker)
  let [done, slowest, longest, most] = [0, 0, 0, 0]
  const odd = strange(id ?? '')
  const damaged = (random: SeededRandom) => {
    const original = originals[Math.floor(random.next() * originals.length)]
    return mutated(original ?? Buffer.alloc(0), random)
  }
  const inTime = () => performance.now() - startedAt < seconds * 1000
  while (done < count && inTime()) {
    const lane = async (random: SeededRandom, index: number) => {
      for (let sent = 0; sent < roundRequests / lanes && inTime(); sent += burst + damagedBurst) {
        await thrown([
          ...Array.from({ length: burst }, () => odd(random)),
          ...Array.from({ length: damagedBurst }, () => damaged(random))
        ])
        // And somebody who did nothing wrong, all the while.
        if (index === 0) slowest = Math.max(slowest, await answerMs(bystander))
      }
    }
    await Promise.race([Promise.all(randoms.map(lane)), died])
    await tidy(bystander)
    const now = await health(broker)
    done = now.read - base.read
    longest = Math.max(longest, now.longestMs)
    most = Math.max(most, now.bytes - base.bytes)
    const rate = (done / ((performance.now() - startedAt) / 1000)).toFixed(0)
    process.stdout.write(
      `${done} requests, ${rate}/s; ${mib(now.bytes - base.bytes)} over the base, rss ${mib(now.rss)}; ` +
        `bystander ${slowest.toFixed(0)} ms, longest turn ${longest.toFixed(0)} ms\n`
    )
    assert.deepEqual(now.faults, [], `seed ${seed}`)
    assert(most < mostBytes, `${mib(most)} more than before, seed ${seed}`)
    assert(slowest < bystanderMs, `somebody else waited ${slowest} ms, seed ${seed}`)
  }
  await bystander.close()
  process.stdout.write(`fuzz: ${done} requests, seed ${seed}: nothing died, hung or leaked\n`)
}

/** Sends requests on a connection of their own, and resolves when the broker has closed it, in order or not. */
function thrown(some: readonly Buffer[]): Promise<void> {
  return new Promise(resolve => {
    let answers = 0
    let rest = Buffer.alloc(0)
    const at = address.lastIndexOf(':')
    const socket: Socket = connect(Number(address.slice(at + 1)), address.slice(0, at))
    const timer = setTimeout(() => socket.end(), patienceMs)
    socket.on('connect', () => socket.write(Buffer.concat(some)))
    socket.on('data', chunk => {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
        rest = rest.subarray(4 + rest.readInt32BE(0))
        answers++
      }
      if (answers === some.length) socket.end()
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}

async function answerMs(wire: Wire): Promise<number> {
  const from = performance.now()
  await wire.offset('t', 0, -1)
  return performance.now() - from
}

async function tidy(wire: Wire): Promise<void> {
  const { topics } = await wire.ask(Metadata, 12, { topics: null, allowAutoTopicCreation: false })
  const names = topics.flatMap(({ name }) =>
    name === 't' || name === null ? [] : [{ name, topicId: noId }]
  )
  await wire.ask(DeleteTopics, 6, { topics: names, timeoutMs: 10_000 })
  const { groups } = await wire.ask(ListGroups, 4, { statesFilter: ['Empty'] })
  await wire.ask(DeleteGroups, 2, { groupsNames: groups.map(({ groupId }) => groupId) })
}

async function health(broker: ChildProcess): Promise<Health> {
  broker.stdin?.write('\n')
  const { value } = await lines.next()
  return JSON.parse(String(value)) as Health
}

function mib(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`
}
