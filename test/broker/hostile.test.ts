/**
 * Bytes that make no sense, on the listener (security.md S1–S5, invariants P1–P3): every one is answered or ends its
 * connection, the process lives, memory stays, and others are served all the while.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SeededRandom } from '../../sim/world/random.ts'
import type { Log } from '../../src/base/env.ts'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { mutated, requests } from '../fuzz/mutate.ts'
import { Wire, batchOf } from './wire.ts'

const faults: string[] = []
/** What the broker calls its own error is one: a bug that hostile bytes have found. */
const log: Log = {
  debug() {},
  info() {},
  warn() {},
  error: (message, fields) => faults.push(`${message}: ${String(fields?.['error'])}`)
}
const env = nodeEnv({ cpu: nodeCpu(), log })
const count = Number(process.env['PLAYHEAD_MUTATIONS'] ?? 3_000)
const seed = Number(process.env['PLAYHEAD_SEED'] ?? 1)

test(`${count} mutated requests harm nobody (seed ${seed})`, async () => {
  await using broker = await Broker.start({ topics: { t: 1 }, log })
  const at = broker.bootstrap[0] ?? ''
  const random = new SeededRandom(seed)
  const originals = requests()
  const before = process.memoryUsage()
  const bystander = await Wire.connect(env, at)
  let wire = await Wire.connect(env, at)
  for (let done = 0; done < count; done++) {
    const request = originals[Math.floor(random.next() * originals.length)] ?? Buffer.alloc(0)
    wire.send(mutated(request, random))
    if (done % 4 !== 3) continue
    // Answered or not, this connection has had enough: a half frame would wait for 30 s.
    wire.abort()
    wire = await Wire.connect(env, at)
    assert.equal((await bystander.offset('t', 0, -1)).errorCode, 0)
  }
  wire.abort()
  await bystander.close()
  const after = process.memoryUsage()
  const grown = after.heapUsed + after.external - before.heapUsed - before.external
  assert(grown < 150 * 1024 * 1024, `memory grew by ${grown} bytes`)
  assert.deepEqual(faults, [])
})

test('a frame that is declared large costs what has arrived of it, not what it claims', async () => {
  await using broker = await Broker.start({ log })
  const before = process.memoryUsage()
  const wires = await Promise.all(
    Array.from({ length: 50 }, () => Wire.connect(env, broker.bootstrap[0] ?? ''))
  )
  for (const wire of wires) wire.send(Buffer.from([0x06, 0, 0, 0, 0, 0]))
  const other = await Wire.connect(env, broker.bootstrap[0] ?? '')
  await other.produce('t', 0, batchOf(['x']))
  const grown = process.memoryUsage().external - before.external
  assert(grown < 30 * 1024 * 1024, `${grown} bytes for 50 claims of 100 MB`)
  for (const wire of wires) wire.abort()
  await other.close()
})
