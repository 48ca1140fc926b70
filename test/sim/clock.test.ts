/** Virtual time: the order of events is all that a simulation rests on. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { VirtualClock } from '../../sim/world/clock.ts'
import { SeededRandom } from '../../sim/world/random.ts'

test('timers fire in the order of their moments, then of asking, at their moment', async () => {
  const delays = fc.array(fc.integer({ min: 0, max: 20 }).map(ms => ms / 4))
  await fc.assert(
    fc.asyncProperty(delays, async list => {
      const clock = new VirtualClock()
      const fired: [number, number, number][] = []
      list.forEach((ms, i) => clock.after(ms, () => fired.push([ms, i, clock.monotonic()])))
      await clock.runUntilIdle()
      const wanted = list.map((ms, i): [number, number, number] => [ms, i, ms])
      assert.deepEqual(
        fired,
        wanted.sort((a, b) => a[0] - b[0] || a[1] - b[1])
      )
      assert.equal(clock.pending, 0)
    })
  )
})

test('cancelled timers never fire and are not counted, and the rest keep their order', async () => {
  const plan = fc.array(fc.tuple(fc.nat(1000), fc.boolean()), { minLength: 200, maxLength: 400 })
  await fc.assert(
    fc.asyncProperty(plan, async list => {
      const clock = new VirtualClock()
      const fired: number[] = []
      const timers = list.map(([ms]) => clock.after(ms, () => fired.push(ms)))
      list.forEach(([, keep], i) => {
        if (keep) return
        timers[i]?.cancel()
        timers[i]?.cancel()
      })
      const kept = list.filter(([, keep]) => keep).map(([ms]) => ms)
      assert.equal(clock.pending, kept.length)
      await clock.runUntilIdle()
      assert.deepEqual(
        fired,
        kept.sort((a, b) => a - b)
      )
    }),
    { numRuns: 20 }
  )
})

test('soon comes before the timers of its moment, and promise jobs before the next event', async () => {
  const clock = new VirtualClock()
  const order: string[] = []
  clock.after(0, () => order.push('timer'))
  clock.soon(() => {
    order.push('soon')
    clock.soon(() => order.push('soon in soon'))
    void (async () => {
      for (let i = 0; i < 100; i++) await null
      order.push('promises')
    })()
  })
  await clock.runUntilIdle()
  assert.deepEqual(order, ['soon', 'promises', 'soon in soon', 'timer'])
})

test('advance stops exactly where it was told, with what is due then done', async () => {
  const clock = new VirtualClock({ startMs: 1_000_000 })
  const fired: number[] = []
  const tick = () => {
    fired.push(clock.now())
    clock.after(10, tick)
  }
  clock.after(10, tick)
  await clock.advance(25)
  assert.deepEqual([clock.monotonic(), clock.now()], [25, 1_000_025])
  assert.deepEqual(fired, [1_000_010, 1_000_020])
  await clock.advance(5)
  assert.equal(fired.length, 3)
})

test('a program written with promises plays in virtual time', async () => {
  const clock = new VirtualClock()
  const sleep = (ms: number) => new Promise<void>(resolve => clock.after(ms, resolve))
  const day = async () => {
    for (let hour = 0; hour < 24; hour++) await sleep(3_600_000)
    return clock.monotonic()
  }
  assert.equal(await clock.play(day(), 1e9), 86_400_000)
  await assert.rejects(clock.play(Promise.reject(new Error('its own'))), /its own/)
})

test('waiting for what cannot happen ends with the condition in the message', async () => {
  const clock = new VirtualClock()
  await assert.rejects(
    clock.runUntil(() => clock.now() < 0),
    /clock\.now\(\) < 0.*nothing is left/
  )
  const tick = () => {
    clock.after(1, tick)
  }
  tick()
  await assert.rejects(
    clock.runUntil(() => clock.now() < 0, 100),
    /100 ms were not enough/
  )
})

test('ties between timers are broken by the seed, the same each time', async () => {
  const order = async (seed: number) => {
    const clock = new VirtualClock({ ties: new SeededRandom(seed) })
    const fired: number[] = []
    for (let i = 0; i < 20; i++) clock.after(1, () => fired.push(i))
    await clock.runUntilIdle()
    return fired
  }
  assert.deepEqual(await order(1), await order(1))
  assert.notDeepEqual(await order(1), await order(2))
})

test('the seeded generator is xorshift128+', () => {
  const mask = (1n << 64n) - 1n
  const splitmix = (state: bigint) => {
    let z = ((state ^ (state >> 30n)) * 0xbf58476d1ce4e5b9n) & mask
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & mask
    return z ^ (z >> 31n)
  }
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: mask }), seed => {
      let x = splitmix((seed + 0x9e3779b97f4a7c15n) & mask)
      let y = splitmix((seed + 2n * 0x9e3779b97f4a7c15n) & mask)
      const random = new SeededRandom(seed)
      for (let i = 0; i < 50; i++) {
        const wanted = Number(((x + y) & mask) >> 11n) / 2 ** 53
        assert.equal(random.next(), wanted)
        const before = x
        x = y
        y = (before ^ (before << 23n)) & mask
        y = y ^ (y >> 17n) ^ x ^ (x >> 26n)
      }
    })
  )
})

test('streams split from one seed by name differ, and depend on nothing else', () => {
  const draw = (name: string) => new SeededRandom(42).split(name).next()
  assert.equal(draw('net'), draw('net'))
  assert.equal(new Set(['net', 'store', 'ties', 'plan'].map(draw)).size, 4)
})
