/** Metadata is fresh enough, and asked for no more often than needed, whatever brokers do. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Metadata } from '../../src/protocol/api/metadata.ts'
import { story, wait } from './fake-broker.ts'

const topicId = 'aaaaaaaaaaaaaaaaaaaaaA'

test('when no known broker can be reached, the bootstrap list is used again', async () => {
  await story(2, { bootstrap: ['b0:9092'] }, async (world, cluster) => {
    const [seed, named] = world.brokers
    assert(seed && named)
    const only = (id: number) => () => [{ nodeId: id, host: `b${id}`, port: 9092, rack: null }]
    seed.named = only(1)
    named.named = only(1)
    await cluster.refresh()
    assert.deepEqual([...cluster.metadata.brokers.keys()], [1])
    await named.die()
    seed.named = only(0)
    await wait(world, 5_000)
    assert.deepEqual([...(await cluster.refresh()).brokers.keys()], [0])
  })
})

test('refreshes at the same time are one request; one for another topic follows', async () => {
  await story(1, {}, async (world, cluster) => {
    const [broker] = world.brokers
    broker?.topics.set('t', { id: topicId, leaders: [0], epoch: 0 })
    await cluster.refresh()
    const before = broker?.requests(Metadata).length ?? 0
    const all = [
      cluster.refresh(),
      cluster.refresh(),
      cluster.refresh({ topics: ['t'] }),
      cluster.refresh({ topics: ['t', 'later'] }),
      cluster.topic('t')
    ]
    await Promise.all(all)
    assert.deepEqual(
      broker
        ?.requests(Metadata)
        .slice(before)
        .map(({ body }) => body.topics?.map(t => t.name)),
      [[], ['t', 'later']]
    )
    assert.deepEqual([...cluster.metadata.topics.keys()], ['t'])
  })
})

test('metadata is asked for again before it is too old, and listeners get each new value', async () => {
  await story(1, { metadataMaxAgeMs: 60_000 }, async (world, cluster) => {
    const seen: number[] = []
    await cluster.refresh()
    const stop = cluster.watch(({ at }) => void seen.push(at))
    cluster.watch(() => {
      throw new Error('a listener of the user fails')
    })
    await wait(world, 121_000)
    stop()
    await wait(world, 61_000)
    assert.equal(seen.length, 2)
    for (const at of seen) assert(at % 60_000 > 0)
    assert.equal(world.brokers[0]?.requests(Metadata).length, 4)
  })
})

test('however often metadata is called stale, it is asked for with back-off', async () => {
  await story(1, {}, async (world, cluster) => {
    await cluster.refresh()
    const end = world.clock.monotonic() + 10_000
    while (world.clock.monotonic() < end) {
      cluster.stale('a test says so')
      await wait(world, 1)
    }
    const count = world.brokers[0]?.requests(Metadata).length ?? 0
    assert(count > 8 && count < 25, `${count} in 10 s`)
  })
})

test('a refresh that fails is tried again: what was stale still is', async () => {
  await story(1, { requestTimeoutMs: 5_000 }, async (world, cluster) => {
    const [broker] = world.brokers
    broker?.topics.set('t', { id: topicId, leaders: [-1], epoch: 0 })
    await cluster.refresh({ topics: ['t'] })
    await broker?.die()
    cluster.stale('a test says so, once')
    await wait(world, 20_000)
    await broker?.listen()
    broker?.topics.set('t', { id: topicId, leaders: [0], epoch: 1 })
    await wait(world, 8_000)
    assert.equal(cluster.metadata.topics.get('t')?.partitions[0]?.leader, 0)
  })
})

test('a topic that is being made is waited for; one that is not there is not', async () => {
  await story(1, {}, async (world, cluster) => {
    const [broker] = world.brokers
    const found = cluster.topic('t')
    world.clock.after(200, () => {
      broker?.topics.set('t', { id: topicId, leaders: [0], epoch: 0 })
    })
    assert.equal((await found).topicId, topicId)
    await assert.rejects(cluster.topic('nix'), { code: 'UNKNOWN_TOPIC', topic: 'nix' })
    await cluster.refresh()
    const last = broker?.requests(Metadata).at(-1)
    assert.deepEqual(
      last?.body.topics?.map(t => t.name),
      ['t'],
      'what was not found is not asked for ever after'
    )
    broker?.topics.delete('t')
    await cluster.refresh()
    await cluster.refresh()
    assert.deepEqual(broker?.requests(Metadata).at(-1)?.body.topics, [])
  })
})

test("a topic's deadline is kept although the question goes on for others, and says what the trouble is", async () => {
  await story(1, {}, async (world, cluster) => {
    await world.brokers[0]?.die()
    const begun = world.clock.monotonic()
    await assert.rejects(
      cluster.topic('t', { timeoutMs: 700 }),
      /not within the time given: .*b0:9092/
    )
    assert.equal(Math.round(world.clock.monotonic() - begun), 700)
  })
})

test('a hanging broker does not keep the metadata from being asked of another', async () => {
  await story(2, { bootstrap: ['b0:9092', 'b1:9092'] }, async (world, cluster) => {
    await cluster.refresh()
    world.brokers[0]?.on(Metadata, () => undefined)
    for (let i = 0; i < 4; i++) await cluster.refresh()
    assert(world.clock.monotonic() < 25_000, `${world.clock.monotonic()} ms`)
  })
})
