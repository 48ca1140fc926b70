/**
 * kill -9 under load, hundreds of times on one directory (invariants D1, D3, D5–D7): nothing acknowledged is lost, no offset
 * is used twice, retries of an idempotent producer are not doubled, transactions are whole, members stay members.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { SeededRandom } from '../../sim/world/random.ts'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Wire } from '../broker/wire.ts'
import { Commits, Idempotent, type Load, Membership, Transactional } from './load.ts'

const env = nodeEnv({ cpu: nodeCpu() })
const script = join(import.meta.dirname, 'child.js')
const kills = Number(process.env['PLAYHEAD_KILLS'] ?? 150)
/** What a start may have to read again: a segment is full after half as many changes, and ends while others come. */
const mostReplayed = 65_536
const seed = Number(process.env['PLAYHEAD_SEED'] ?? Date.now() % 1e9)

for (const durability of ['fsync', 'os']) {
  test(`${kills} kills under load lose nothing acknowledged and double nothing (${durability}, seed ${seed})`, async t => {
    const dir = mkdtempSync(join(tmpdir(), 'playhead-kill-'))
    const random = new SeededRandom(seed)
    const [one, two, moves] = [new Idempotent(0), new Idempotent(1), new Transactional()]
    const loads: readonly Load[] = [one, two, moves, new Commits(), new Membership()]
    const opened: number[] = []
    try {
      for (let round = 0; round <= kills; round++) {
        const { address, openMs, replayed, kill } = await start(dir, durability)
        opened.push(openMs)
        // How long a start takes is this many changes, and a busy machine's chance. The second is only told.
        assert(replayed <= mostReplayed, `${replayed} changes are read again in round ${round}`)
        const wire = await Wire.connect(env, address)
        for (const load of loads) await load.recovered(wire)
        if (round === kills) {
          await moves.settle(wire)
          for (const load of [one, two, moves]) await load.check(wire)
        } else {
          await underLoad(address, loads, () => kill(), 5 + random.next() * 150)
        }
        await kill()
      }
    } finally {
      rmSync(dir, { recursive: true })
    }
    const sorted = opened.toSorted((a, b) => a - b)
    const [median = 0, most = 0] = [0.5, 0.95].map(part => sorted[Math.floor(sorted.length * part)])
    const acked = one.acked.size + two.acked.size
    t.diagnostic(
      `${acked} records and ${moves.outcomes.length} transactions; opened in ${median.toFixed(0)} ms ` +
        `(median), ${most.toFixed(0)} ms (95th percentile), ${sorted.at(-1)?.toFixed(0)} ms (longest)`
    )
    assert(acked > kills && moves.outcomes.includes('committed'), 'there was load')
  })
}

/** Each load on a connection of its own, until the kill ends them all. */
async function underLoad(
  address: string,
  loads: readonly Load[],
  kill: () => Promise<void>,
  afterMs: number
): Promise<void> {
  const wires = await Promise.all(loads.map(() => Wire.connect(env, address)))
  let killed = false
  const ends = loads.map((load, index) =>
    load.run(wires[index] as Wire).catch((error: unknown) => {
      // What fails before the kill is a finding.
      if (!killed || error instanceof assert.AssertionError) throw error
    })
  )
  const timer = setTimeout(() => {
    killed = true
    void kill()
  }, afterMs)
  try {
    await Promise.all(ends)
  } finally {
    clearTimeout(timer)
  }
}

interface Started {
  readonly address: string
  readonly openMs: number
  readonly replayed: number
  kill(): Promise<void>
}

async function start(dir: string, durability: string): Promise<Started> {
  const child = spawn(process.execPath, [script, dir, durability], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const exited = once(child, 'exit')
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  const { address, openMs, replayed } = JSON.parse(line) as Omit<Started, 'kill'>
  const kill = async () => {
    child.kill('SIGKILL')
    await exited
  }
  return { address, openMs, replayed, kill }
}
