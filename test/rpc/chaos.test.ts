/**
 * Brokers that misbehave at random, from a seed: they cut, stall, garble, throttle, die and come back. Whatever
 * they do, each call settles within its deadline (C1), no error calls itself harmless when a broker has seen the
 * request (C3), and when they behave again, so does the cluster, with nothing left behind (X1).
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PlayheadError } from '../../src/base/error.ts'
import { Heartbeat } from '../../src/protocol/api/heartbeat.ts'
import type { Target } from '../../src/rpc/call.ts'
import type { Cluster } from '../../src/rpc/cluster.ts'
import { Again } from '../../src/rpc/retry.ts'
import type { SeededRandom } from '../../sim/world/random.ts'
import { type Asked, type FakeBroker, World, wait } from './fake-broker.ts'

const seeds = Array.from({ length: 50 }, (_, i) => i + 1)
const topicId = 'aaaaaaaaaaaaaaaaaaaaaA'
const timeoutMs = 8_000

/** Which requests reached a broker, by the group they name. */
type Seen = Set<string>

function misbehave(broker: FakeBroker, random: SeededRandom, seen: Seen, world: World): void {
  broker.on(Heartbeat, async asked => {
    seen.add(asked.body.groupId)
    const kind = random.next()
    if (kind < 0.5) return { errorCode: 0 }
    if (kind < 0.6) return undefined
    if (kind < 0.7) {
      await wait(world, random.between(1, 12_000))
      return asked.from.closed ? undefined : { errorCode: 0 }
    }
    if (kind < 0.75) return { errorCode: 16 }
    if (kind < 0.8) return { errorCode: 0, throttleTimeMs: random.between(1, 5_000) }
    vandalise(asked, random)
    return undefined
  })
}

function vandalise({ from, ...asked }: Asked, random: SeededRandom): void {
  const kind = random.next()
  if (kind < 0.3) from.socket.destroy()
  else if (kind < 0.5) from.socket.end()
  else if (kind < 0.7) from.reply({ from, ...asked }, { errorCode: 0 }, random.between(0, 50))
  else from.socket.write([Buffer.from(Array.from({ length: 9 }, () => random.between(0, 255)))])
}

function somebody(random: SeededRandom, group: string): Target {
  return random.pick<Target>([
    { node: random.between(0, 2) },
    { group },
    { leader: { topic: 't', partition: random.between(0, 2) } },
    'any',
    'controller'
  ])
}

async function call(cluster: Cluster, to: Target, group: string, seen: Seen): Promise<void> {
  const begun = cluster.env.clock.monotonic()
  const body = { groupId: group, generationId: 1, memberId: 'm' }
  const error: unknown = await cluster.request(Heartbeat, body, { to, timeoutMs }).then(
    () => null,
    (e: unknown) => e
  )
  const tookMs = cluster.env.clock.monotonic() - begun
  assert(tookMs <= timeoutMs + 100, `settled after ${tookMs} ms`)
  if (error === null) return
  assert(error instanceof PlayheadError, 'a PlayheadError')
  assert(error.code !== 'CLOSED' && error.code !== 'ABORTED', error.code)
  if (error.retriable) assert(!seen.has(group), `a broker has seen it, yet: ${error.message}`)
}

for (const seed of seeds) {
  test(`seed ${seed}: calls settle, errors are honest, the cluster recovers`, async () => {
    const world = new World(seed)
    const random = world.random.split('chaos')
    await world.start(3)
    const seen: Seen = new Set()
    for (const broker of world.brokers) {
      broker.topics.set('t', { id: topicId, leaders: [0, 1, 2], epoch: 1 })
      misbehave(broker, random, seen, world)
    }
    await world.play(async () => {
      const bootstrap = world.brokers.map(b => `${b.host}:9092`)
      const cluster = world.cluster({ bootstrap })
      await cluster.refresh({ topics: ['t'] })
      const calls: Promise<void>[] = []
      for (let i = 0; i < 120; i++) {
        const group = `group-${i}`
        calls.push(call(cluster, somebody(random, group), group, seen))
        if (random.chance(0.3)) await wait(world, random.between(0, 400))
        if (random.chance(0.04)) {
          const broker = random.pick(world.brokers)
          if (!broker.alive) continue
          await broker.die()
          world.clock.after(random.between(1, 5_000), () => void broker.listen())
        }
      }
      await Promise.all(calls)
      await wait(world, 15_000)
      for (const broker of world.brokers) broker.on(Heartbeat, () => ({ errorCode: 0 }))
      for (let node = 0; node < 3; node++) {
        const body = { groupId: 'last', generationId: 1, memberId: 'm' }
        // The first may still meet the gap that a swallowed answer has left.
        const answer = await cluster.retrying({}, async attempt => {
          const given = cluster.request(Heartbeat, body, { to: { node }, timeoutMs: 5_000 })
          return await given.catch((e: PlayheadError) =>
            attempt < 4 ? new Again(e) : assert.fail(e)
          )
        })
        assert.equal(answer.errorCode, 0)
      }
      await cluster.close()
      for (const broker of world.brokers) await broker.die()
    })
    assert.equal(world.clock.pending, 0)
  })
}
