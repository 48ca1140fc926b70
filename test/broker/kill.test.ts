/** kill -9 during load, again and again, on one directory: what was acknowledged is there, once. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Wire, batchOf, recordsOf } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })
const script = join(import.meta.dirname, 'child-broker.js')
const kills = Number(process.env['PLAYHEAD_KILLS'] ?? 6)

async function start(
  dir: string,
  durability: string
): Promise<{ child: ChildProcess; at: string }> {
  const stdio = ['ignore', 'pipe', 'inherit'] as const
  const child = spawn(process.execPath, [script, dir, durability], { stdio: [...stdio] })
  assert(child.stdout)
  const lines = createInterface(child.stdout)
  const [at] = (await once(lines, 'line')) as [string]
  return { child, at }
}

interface Sent {
  readonly value: string
  readonly sequence: number
  readonly partition: number
}

for (const durability of ['fsync', 'os']) {
  test(`nothing acknowledged is lost by ${kills} kills, and retries are not doubled (${durability})`, async () => {
    const dir = mkdtempSync(join(tmpdir(), 'playhead-kill-'))
    const acked = new Map<string, string>()
    const sequences = [0, 0, 0]
    let unknown: Sent[] = []
    let count = 0
    try {
      for (let round = 0; round <= kills; round++) {
        const { child, at } = await start(dir, durability)
        const wire = await Wire.connect(env, at)
        const send = async (sent: Sent) => {
          const header = { producerId: 77n, producerEpoch: 0, baseSequence: sent.sequence }
          const answer = await wire.produce('t', sent.partition, batchOf([sent.value], header))
          assert.equal(answer.errorCode, 0, `round ${round}: ${JSON.stringify(sent)}`)
          acked.set(`${sent.partition}:${answer.baseOffset}`, sent.value)
        }
        // As an idempotent producer does: what has no answer goes out again, in order, before anything new.
        for (const sent of unknown) await send(sent)
        unknown = []
        if (round === kills) {
          await check(wire, acked)
          await wire.close()
        } else {
          await load(send)
        }
        child.kill('SIGKILL')
        await once(child, 'exit')

        async function load(sendOne: (sent: Sent) => Promise<void>): Promise<void> {
          const until = acked.size + 20 + ((round * 37) % 100)
          let dead = false
          const worker = async (partition: number) => {
            while (!dead) {
              // Up to five on their way, which the broker must be able to tell apart.
              const burst = Array.from({ length: 1 + (count % 5) }, () => ({
                value: `v${count++}`,
                sequence: (sequences[partition] as number)++,
                partition
              }))
              unknown.push(...burst)
              await Promise.allSettled(
                burst.map(async sent => {
                  await sendOne(sent)
                  unknown = unknown.filter(other => other !== sent)
                  if (acked.size >= until && !dead) {
                    dead = true
                    child.kill('SIGKILL')
                  }
                })
              )
            }
          }
          await Promise.all([0, 1, 2].map(worker))
        }
      }
    } finally {
      rmSync(dir, { recursive: true })
    }
  })
}

async function check(wire: Wire, acked: ReadonlyMap<string, string>): Promise<void> {
  const found = new Map<string, string>()
  const values = new Set<string>()
  for (const partition of [0, 1, 2]) {
    let offset = 0
    for (;;) {
      const { records } = await wire.fetch('t', partition, offset)
      const batch = recordsOf(records)
      if (batch.length === 0) break
      for (const record of batch) {
        const [at = '', value = ''] = record.split(':')
        assert.equal(Number(at), offset, 'no holes')
        assert(!values.has(value), `${value} is there once`)
        values.add(value)
        found.set(`${partition}:${at}`, value)
        offset++
      }
    }
  }
  for (const [place, value] of acked) assert.equal(found.get(place), value, place)
}
