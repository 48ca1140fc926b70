/** Topics that change under a consumer: leaders that move, and topics that are made anew. In virtual time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Admin } from '../../../src/client/admin/admin.ts'
import { Producer } from '../../../src/client/producer/producer.ts'
import { CreateTopics } from '../../../src/protocol/api/create-topics.ts'
import { DeleteTopics } from '../../../src/protocol/api/delete-topics.ts'
import { Cluster } from '../../../src/rpc/cluster.ts'
import { noTopicId as zeroTopicId } from '../../../src/rpc/metadata.ts'
import { numbered, VirtualWorld, type Watched } from './virtual.ts'

/** Deletes topic t and makes another of its name. */
async function makeAnew(world: VirtualWorld, partitions = 2): Promise<void> {
  const { clock, cluster } = world
  const { topicId } = cluster.metadata.topics.get('t') ?? {}
  await clock.play(
    cluster.request(DeleteTopics, {
      topics: [{ name: 't', topicId: zeroTopicId }],
      timeoutMs: 1_000
    })
  )
  await clock.play(
    cluster.request(CreateTopics, {
      topics: [
        { name: 't', numPartitions: partitions, replicationFactor: 1, assignments: [], configs: [] }
      ],
      timeoutMs: 1_000
    })
  )
  const after = await clock.play(cluster.refresh({ topics: ['t'] }))
  assert.notEqual(after.topics.get('t')?.topicId, topicId)
}

test('a leader that moved is followed by what the old one answers, without asking for metadata (KIP-951)', async () => {
  const world = await new VirtualWorld().start({ brokers: 2 })
  await world.clock.play(world.broker.moveLeader('t', 0, 1))
  const alone = world.alone({ fetchMaxWaitMs: 100 }).read()
  const producer = new Producer(world.cluster)
  const send = async (value: string) => {
    const at = world.clock.monotonic()
    await world.clock.play(producer.send('t', { partition: 0, value }))
    return world.clock.monotonic() - at
  }
  await send('a')
  await world.clock.runUntil(() => alone.seen.length === 1)
  const stop = world.broker.control.on('Metadata', {}, 'drop')
  for (const [at, value] of ['b', 'c', 'd'].entries()) {
    await world.clock.play(world.broker.moveLeader('t', 0, 1 + ((at + 1) % 2)))
    const tookMs = await send(value)
    assert.ok(tookMs < 50, `the producer took ${tookMs} ms`)
    const sentAt = world.clock.monotonic()
    await world.clock.runUntil(() => alone.seen.length === at + 2)
    const heardMs = world.clock.monotonic() - sentAt
    assert.ok(heardMs < 200, `the consumer took ${heardMs} ms`)
  }
  assert.deepEqual(alone.values(), ['a', 'b', 'c', 'd'])
  stop()
  await world.clock.play(producer.close())
  await world.end(alone)
})

for (const kind of ['classic', 'consumer', 'controller', 'alone'] as const) {
  test(`${kind}: a topic that is made anew is read from its beginning, whatever is known of the old one`, async () => {
    const world = await new VirtualWorld().start()
    await world.produce(0, 0, 10)
    const committed: unknown[] = []
    const options = { commitIntervalMs: 100, startFrom: 'latest' as const, fetchMaxWaitMs: 500 }
    const watched: Watched =
      kind === 'alone' ? world.alone() : world.member({ ...options, protocol: kind })
    watched.read()
    await world.clock.runUntil(() => watched.events.includes('assigned 0'))
    if (kind !== 'alone') {
      await world.clock.advance(2_000)
      await world.produce(0, 10, 10)
    }
    await world.clock.runUntil(() => watched.seen.length === 10)
    await world.clock.advance(1_000)
    world.broker.control.on('OffsetCommit', ({ body }) => {
      const topics = body['topics'] as { partitions: { committedOffset: number }[] }[]
      committed.push(...topics.flatMap(t => t.partitions.map(p => p.committedOffset)))
    })
    await makeAnew(world)
    await world.produce(0, 0, 3)
    await world.clock.runUntil(() => watched.seen.length === 13, 30_000)
    await world.clock.advance(2_000)
    assert.deepEqual(watched.values().slice(10), numbered(0, 0, 3))
    assert.deepEqual(
      committed.filter(offset => offset !== 3 && offset !== 0),
      [],
      'no offset of the old topic'
    )
    await world.end(watched)
  })
}

test('what was read of a topic that is made anew meanwhile is never committed to the new one', async () => {
  for (const protocol of ['classic', 'consumer'] as const) {
    const world = await new VirtualWorld().start()
    await world.produce(0, 0, 10)
    const member = world.member({ protocol, commit: 'manual' }).read()
    await world.clock.runUntil(() => member.seen.length === 10)
    const last = member.seen.at(-1)?.record
    await makeAnew(world)
    await assert.rejects(world.clock.play(Promise.resolve(last?.commit())), ({ code }) => {
      return code === 'UNKNOWN_TOPIC' || code === 'STALE_GENERATION'
    })
    await world.produce(0, 0, 2)
    await world.clock.runUntil(() => member.seen.length === 12, 30_000)
    await world.clock.play(member.consumer.close())
    const next = world.member({ protocol }).read()
    await world.clock.runUntil(() => next.seen.length === 2, 30_000)
    assert.deepEqual(next.values(), numbered(0, 0, 2))
    await world.end(next)
  }
})

/** As `makeAnew`, by somebody else: the consumer's own client hears of it when what this returns is called. */
async function remadeUnseen(world: VirtualWorld): Promise<() => void> {
  const { control } = world.broker
  let tell = () => {}
  const hold = new Promise<void>(resolve => {
    tell = resolve
  })
  const rules = ['Metadata', 'Fetch'].map(api =>
    control.on(api, { clientId: 'playhead' }, { hold })
  )
  const other = new Cluster(world.env('other'), { bootstrap: ['b:9092'], clientId: 'other' })
  const admin = new Admin(other)
  await world.clock.play(admin.deleteTopics(['t']))
  await world.clock.play(admin.createTopics([{ topic: 't', partitions: 2 }]))
  await world.clock.play(other.close())
  return () => {
    for (const stop of rules) stop()
    tell()
  }
}

for (const protocol of ['classic', 'consumer'] as const) {
  for (const startFrom of ['earliest', 'latest'] as const) {
    test(`${protocol}, ${startFrom}: before commits go by id (Kafka 4.1), one of a deleted topic counts for nothing in another of its name`, async () => {
      const maxVersions = { OffsetCommit: 9, ControllerListGroups: -1 }
      const world = await new VirtualWorld().start({ maxVersions })
      const first = world.member({ protocol, startFrom, commit: 'manual' }).read()
      await world.clock.runUntil(() => first.events.includes('assigned 0'))
      await world.clock.advance(1_000)
      await world.produce(0, 0, 10)
      await world.clock.runUntil(() => first.seen.length === 10)
      const tell = await remadeUnseen(world)
      // The consumer has not heard of it, and the coordinator takes the commit: it has a topic of that name.
      await world.clock.play(Promise.resolve(first.seen.at(-1)?.record.commit()))
      const [stored] = await world.clock.play(new Admin(world.cluster).offsets('g'))
      assert.equal(stored?.offset, 10)
      tell()
      await world.produce(0, 0, 20)
      await world.clock.runUntil(() => first.seen.length >= 30, 60_000)
      assert.deepEqual(first.values().slice(10), numbered(0, 0, 20))
      await world.clock.play(first.consumer.close())
      const next = world.member({ protocol, startFrom }).read()
      await world.clock.runUntil(() => next.seen.length >= 20, 60_000)
      assert.deepEqual(next.values(), numbered(0, 0, 20))
      await world.end(next)
    })
  }
}
