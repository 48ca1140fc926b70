/** The simulated world: what a process sees of a pause, its end and a loss of power. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Changes } from '../../src/base/store.ts'
import { MemoryNetwork } from '../../src/net/memory.ts'
import { VirtualClock } from '../../sim/world/clock.ts'
import { simulatedCpu } from '../../sim/world/cpu.ts'
import { Process } from '../../sim/world/process.ts'
import { SeededRandom } from '../../sim/world/random.ts'
import { TransactionDisk } from '../../sim/world/store.ts'

function world(seed = 1) {
  const clock = new VirtualClock()
  const random = new SeededRandom(seed)
  const network = new MemoryNetwork({ clock, random: random.split('net') })
  const uncaught: unknown[] = []
  const start = (node: string) =>
    new Process(node, 1, {
      clock,
      net: network.node(node),
      cpu: simulatedCpu,
      random: random.split(node),
      wallOffsetMs: () => 0,
      uncaught: (_, error) => uncaught.push(error),
      logged: () => {}
    })
  return { clock, network, random, start, uncaught }
}

test('a paused process finds its timers late and together, in order', async () => {
  const { clock, start } = world()
  const process = start('a')
  const seen: string[] = []
  for (const ms of [10, 20, 500]) {
    process.env.clock.after(ms, () => seen.push(`${ms} at ${process.env.clock.monotonic()}`))
  }
  process.pause()
  await clock.advance(100)
  assert.deepEqual(seen, [])
  process.resume()
  await clock.runUntil(() => seen.length === 3)
  assert.deepEqual(seen, ['10 at 100', '20 at 100', '500 at 500'])
  assert.equal(process.leftovers, '')
})

test('a paused process gets the bytes that came meanwhile, whole', async () => {
  const { clock, start } = world()
  const [server, client] = [start('b'), start('a')]
  let got = ''
  const sink = { onData: (chunk: Buffer) => (got += chunk.toString()), onClose: () => {} }
  await clock.play(
    (async () => void (await server.env.net.listen({ host: 'b', port: 1 }, () => sink)))()
  )
  server.pause()
  const socket = client.env.net.connect(
    { host: 'b', port: 1 },
    { onData: () => {}, onClose: () => {} }
  )
  socket.write([Buffer.from('hello '), Buffer.from('world')])
  await clock.advance(1_000)
  assert.equal(got, '')
  server.resume()
  await clock.advance(1_000)
  assert.equal(got, 'hello world')
})

test('a dead process is called no more, and an error in a live one is reported', async () => {
  const { clock, start, uncaught } = world()
  const process = start('a')
  process.env.clock.after(1, () => {
    throw new Error('mine')
  })
  await clock.advance(10)
  assert.equal(String(uncaught[0]), 'Error: mine')
  process.env.clock.after(1, () => assert.fail('called after its end'))
  process.kill()
  await clock.advance(10)
})

test('what the process holds on to is known', async () => {
  const { clock, start } = world()
  const process = start('a')
  const timer = process.env.clock.after(1_000, () => {})
  const listener = await process.env.net.listen({ host: 'a', port: 1 }, () => ({
    onData: () => {},
    onClose: () => {}
  }))
  assert.equal(process.leftovers, '1 timers, 1 listeners')
  timer.cancel()
  await listener.close()
  assert.equal(process.leftovers, '')
  assert.equal(clock.pending, 0)
})

/** Writes 0, 1, 2 … and loses it all somewhere: what is found again, and how many were reported. */
async function lose(durability: 'fsync' | 'os', how: 'crashed' | 'lostPower', seed: number) {
  const clock = new VirtualClock()
  const disk = new TransactionDisk(durability, new SeededRandom(seed))
  const store = await disk.open({ clock })
  let reported = 0
  for (let i = 0; i < 20; i++) {
    void store.commit(new Changes().put(Buffer.from([i]), Buffer.from('x'))).then(() => reported++)
  }
  await clock.advance(10)
  disk[how]()
  const found = [
    ...(await disk.open({ clock })).range({ from: Buffer.from([0]), to: Buffer.from([99]) })
  ]
  // A prefix, without holes.
  found.forEach(({ key }, i) => assert.equal(key[0], i))
  return { found: found.length, reported }
}

test('a crash and a power loss keep what was reported, and of the rest a prefix', async () => {
  let more = 0
  for (let seed = 1; seed <= 30; seed++) {
    for (const how of ['crashed', 'lostPower'] as const) {
      const { found, reported } = await lose('fsync', how, seed)
      assert(found >= reported, `${found} of ${reported} are left`)
      if (found > reported) more++
    }
  }
  assert(more > 10)
})

test('without fsync a crash keeps what was reported, and a power loss may not', async () => {
  let lost = 0
  for (let seed = 1; seed <= 30; seed++) {
    const crash = await lose('os', 'crashed', seed)
    assert(crash.found >= crash.reported)
    const loss = await lose('os', 'lostPower', seed)
    if (loss.found < loss.reported) lost++
  }
  assert(lost > 5)
})

test('a disk that fails writes nothing, and the process cannot write again', async () => {
  const clock = new VirtualClock()
  const disk = new TransactionDisk('fsync', new SeededRandom(1))
  const store = await disk.open({ clock })
  disk.failing = true
  const failed = store.commit(new Changes().put(Buffer.from('a'), Buffer.from('x')))
  await assert.rejects(clock.play(failed), { code: 'STORAGE_FAILED' })
  disk.failing = false
  const after = store.commit(new Changes().put(Buffer.from('a'), Buffer.from('x')))
  await assert.rejects(clock.play(after), { code: 'STORAGE_FAILED' })
  assert.equal(store.get(Buffer.from('a')), undefined)
})
