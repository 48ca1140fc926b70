/** The connections to one broker: opened when needed, one for each lane, ended when idle. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fetch } from '../../src/protocol/api/fetch.ts'
import { Heartbeat } from '../../src/protocol/api/heartbeat.ts'
import type { Cluster } from '../../src/rpc/cluster.ts'
import { type Asked, World, story, wait } from './fake-broker.ts'

const beat = { groupId: 'g', generationId: 1, memberId: 'm' }
const node0 = { to: { node: 0 } } as const

async function closed(cluster: Cluster, world: World): Promise<void> {
  await cluster.close()
  for (const broker of world.brokers) await broker.die()
}

test('a long poll never stands before a heartbeat: each lane has its connection', async () => {
  const world = new World()
  const broker = await world.start()
  broker.on(Fetch, () => undefined)
  broker.on(Heartbeat, () => ({ errorCode: 0 }))
  await world.play(async () => {
    const cluster = world.cluster()
    const poll = { maxWaitMs: 500, minBytes: 1, topics: [], forgottenTopicsData: [] }
    const fetches = ['fetch', 'fetch:other'].map(lane =>
      cluster.send(Fetch, poll, { ...node0, lane: lane as 'fetch' })
    )
    await Promise.all(fetches.map(f => f.written))
    await cluster.request(Heartbeat, beat, node0)
    const lanes = new Set(broker.asked.map(({ from }) => from))
    assert.equal(lanes.size, 3)
    for (const fetch of fetches) fetch.cancel()
    await closed(cluster, world)
  })
})

test('a connection that carries nothing ends after its idle time, one that is used does not', async () => {
  const world = new World()
  const broker = await world.start()
  broker.on(Heartbeat, () => ({ errorCode: 0 }))
  await world.play(async () => {
    const cluster = world.cluster({ connectionsMaxIdleMs: 60_000 })
    const first = await cluster.send(Heartbeat, beat, node0).response
    await wait(world, 50_000)
    const second = await cluster.send(Heartbeat, beat, node0).response
    assert.equal(second.connection, first.connection)
    await wait(world, 50_000)
    assert.deepEqual(
      broker.connections.map(c => c.closed),
      [false]
    )
    await wait(world, 20_000)
    assert.deepEqual(
      broker.connections.map(c => c.closed),
      [true]
    )
    const third = await cluster.send(Heartbeat, beat, node0).response
    assert.notEqual(third.connection, first.connection)
    await closed(cluster, world)
  })
})

test('a lane that one user had for itself ends when told to, once its answers have come', async () => {
  await story(1, {}, async (world, cluster) => {
    const [broker] = world.brokers
    assert(broker)
    const held: Asked[] = []
    broker.on(Heartbeat, asked => {
      held.push(asked)
      return undefined
    })
    const own = { ...node0, lane: 'group:mine' } as const
    const call = cluster.send(Heartbeat, beat, own)
    await call.written
    cluster.endLane('group:mine')
    while (held.length === 0) await wait(world, 1)
    for (const asked of held) asked.from.reply(asked, { errorCode: 7 })
    assert.equal((await call.response).body.errorCode, 7)
    await wait(world, 50)
    assert.equal(held[0]?.from.closed, true)
    assert.deepEqual(
      broker.connections.map(c => c.closed),
      [false, true]
    )
  })
})
