/** What goes wrong around a consumer, and what it does then: against the embedded broker, in virtual time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { numbered, VirtualWorld } from './virtual.ts'

test('while the coordinator cannot say what is committed nothing starts, and no policy takes its place', async () => {
  const world = await new VirtualWorld().start()
  await world.produce(0, 0, 5)
  const first = world.member().read()
  await world.clock.runUntil(() => first.seen.length === 5)
  await world.clock.play(first.consumer.close())
  await world.produce(0, 5, 5)
  const stop = world.broker.control.on('OffsetFetch', {}, { error: 'COORDINATOR_LOAD_IN_PROGRESS' })
  const second = world.member({ startFrom: 'latest' }).read()
  await world.clock.advance(60_000)
  assert.deepEqual(second.values(), [])
  assert.ok(second.events.includes('stalled start offset not found'))
  stop()
  await world.clock.runUntil(() => second.seen.length === 5)
  assert.deepEqual(second.values(), numbered(0, 5, 5))
  await world.end(second)
})

test('a member that the coordinator no longer knows loses its partitions, joins again, and goes on', async () => {
  const world = await new VirtualWorld().start()
  await world.produce(0, 0, 3)
  const member = world.member({ commitIntervalMs: 100 }).read()
  await world.clock.runUntil(() => member.seen.length === 3)
  await world.clock.advance(1_000)
  for (const error of ['UNKNOWN_MEMBER_ID', 'FENCED_MEMBER_EPOCH'] as const) {
    member.events.length = 0
    world.broker.control.on('ConsumerGroupHeartbeat', { count: 1 }, { error })
    await world.clock.runUntil(() => member.events.includes('assigned 0'))
    assert.deepEqual(member.events, ['lost 0', 'lost 1', 'assigned 0', 'assigned 1'])
  }
  await world.produce(0, 3, 3)
  await world.clock.runUntil(() => member.seen.length === 6)
  assert.deepEqual(member.values(), numbered(0, 0, 6))
  await world.end(member)
})

test('a member without a heartbeat answer for its session time-out delivers nothing before the next', async () => {
  const world = await new VirtualWorld().start()
  const member = world.member().read()
  await world.clock.runUntil(() => member.events.includes('assigned 0'))
  const stop = world.broker.control.on('ConsumerGroupHeartbeat', {}, 'drop')
  await world.produce(0, 0, 1)
  await world.clock.runUntil(() => member.seen.length === 1)
  // Its session is over, though fetching goes on.
  await world.clock.advance(60_000)
  await world.produce(0, 1, 3)
  await world.clock.advance(10_000)
  assert.equal(member.seen.length, 1)
  stop()
  await world.clock.runUntil(() => member.seen.length >= 4)
  assert.deepEqual(new Set(member.values()), new Set(numbered(0, 0, 4)))
  assert.ok(member.events.includes('lost 0'), 'it had been expelled')
  await world.end(member)
})

test('a commit whose answer is lost is sent again; one of an older epoch never is', async () => {
  const world = await new VirtualWorld().start()
  await world.produce(0, 0, 10)
  const member = world.member({ commitIntervalMs: 100 }).read()
  const committed: number[] = []
  world.broker.control.on('OffsetCommit', ({ body }) => {
    const topics = body['topics'] as { partitions: { committedOffset: number }[] }[]
    committed.push(...topics.flatMap(t => t.partitions.map(p => p.committedOffset)))
    return committed.length === 1 ? 'drop answer' : undefined
  })
  await world.clock.runUntil(() => member.seen.length === 10)
  await world.clock.runUntil(() => committed.length === 2)
  assert.deepEqual(committed, [10, 10])
  member.consumer.seek({ topic: 't', partition: 0, offset: 3 })
  await world.clock.runUntil(() => member.seen.length === 17)
  await world.clock.advance(1_000)
  assert.deepEqual(new Set(committed.slice(2)), new Set(), 'it ends where it was: nothing to say')
  let done = () => {}
  member.handle = ({ offset }) =>
    offset === 5
      ? new Promise<void>(resolve => {
          done = resolve
        })
      : undefined
  member.consumer.seek({ topic: 't', partition: 0, offset: 3 })
  await world.clock.runUntil(() => member.seen.length === 20)
  await world.clock.advance(1_000)
  assert.deepEqual(committed.slice(2), [5], 'below where it was, and not behind the one in hand')
  done()
  await world.end(member)
})

test('a look-up that comes late undoes no seek', async () => {
  const world = await new VirtualWorld().start()
  await world.produce(0, 0, 10)
  let release = () => {}
  const hold = new Promise<void>(resolve => {
    release = resolve
  })
  world.broker.control.on('ListOffsets', { count: 1 }, { hold })
  const assign = [{ topic: 't', partition: 0, offset: 'latest' as const }]
  const alone = world.alone({ assign }).read()
  await world.clock.runUntil(() => alone.events.includes('assigned 0'))
  alone.consumer.seek({ topic: 't', partition: 0, offset: 4 })
  await world.clock.runUntil(() => alone.seen.length === 6)
  release()
  await world.clock.advance(10_000)
  assert.deepEqual(alone.values(), numbered(0, 4, 6))
  await world.end(alone)
})

test('a fetch from before a seek delivers nothing, and the seek does not wait for it', async () => {
  const world = await new VirtualWorld().start()
  await world.produce(0, 0, 10)
  const alone = world.alone({ fetchMaxWaitMs: 10_000 }).read()
  await world.clock.runUntil(() => alone.seen.length === 10)
  // Now a fetch waits at the broker, for ten seconds.
  await world.clock.advance(1_000)
  const at = world.clock.monotonic()
  alone.consumer.seek({ topic: 't', partition: 0, offset: 7 })
  await world.clock.runUntil(() => alone.seen.length === 13)
  assert.ok(world.clock.monotonic() - at < 100, `${world.clock.monotonic() - at} ms`)
  await world.produce(0, 10, 2)
  await world.clock.runUntil(() => alone.seen.length === 15)
  await world.clock.advance(30_000)
  assert.deepEqual(alone.values(), [...numbered(0, 0, 10), ...numbered(0, 7, 5)])
  await world.end(alone)
})

test('leaders move, fetches fail, sessions are forgotten: each record comes once and in order', async () => {
  const world = await new VirtualWorld().start({ brokers: 2 })
  const alone = world.alone().read()
  let next = 0
  const more = async () => {
    await world.produce(0, next, 5)
    next += 5
  }
  const faults = [
    'close',
    'reset after',
    'drop answer',
    { error: 'NOT_LEADER_OR_FOLLOWER' }
  ] as const
  for (const fault of faults) {
    world.broker.control.on('Fetch', { count: 2 }, fault)
    await more()
    await world.clock.runUntil(() => alone.seen.length === next)
    await world.clock.play(world.broker.moveLeader('t', 0, 1 + (next % 2)))
    await more()
    await world.clock.runUntil(() => alone.seen.length === next)
  }
  for (const error of ['FETCH_SESSION_ID_NOT_FOUND', 'INVALID_FETCH_SESSION_EPOCH'] as const) {
    world.broker.control.on('Fetch', { count: 1 }, { error })
    await more()
    await world.clock.runUntil(() => alone.seen.length === next)
  }
  assert.deepEqual(alone.values(), numbered(0, 0, next))
  await world.end(alone)
})

test('close leaves the group though its first leave is lost, and ends though nobody answers', async () => {
  const world = await new VirtualWorld().start()
  const first = world.member().read()
  await world.clock.runUntil(() => first.events.includes('assigned 0'))
  const epochs: number[] = []
  world.broker.control.on('ConsumerGroupHeartbeat', ({ body }) => {
    epochs.push(body['memberEpoch'] as number)
    return epochs.filter(e => e === -1).length === 1 && epochs.at(-1) === -1 ? 'reset' : undefined
  })
  await world.clock.play(first.consumer.close())
  assert.deepEqual(
    epochs.filter(e => e < 0),
    [-1, -1]
  )
  const second = world.member().read()
  await world.clock.runUntil(() => second.events.includes('assigned 1'), 10_000)
  world.broker.control.on('*', {}, 'drop')
  const at = world.clock.monotonic()
  await world.clock.play(second.consumer.close({ timeoutMs: 5_000 }))
  assert.ok(world.clock.monotonic() - at <= 5_100)
  await world.end(first, second)
})

test('a slow broker of one partition holds up no other', async () => {
  const world = await new VirtualWorld().start({ brokers: 2 })
  await world.clock.play(world.broker.moveLeader('t', 0, 1))
  await world.clock.play(world.broker.moveLeader('t', 1, 2))
  const assign = [0, 1].map(partition => ({ topic: 't', partition, offset: 0 }))
  world.broker.control.on('Fetch', { node: 1 }, { delayMs: 20_000 })
  const alone = world.alone({ assign }).read()
  await world.produce(0, 0, 1)
  await world.produce(1, 0, 5)
  const at = world.clock.monotonic()
  await world.clock.runUntil(() => alone.seen.length === 5)
  assert.ok(world.clock.monotonic() - at < 1_000)
  assert.deepEqual(alone.values(), numbered(1, 0, 5))
  await world.end(alone)
})

test('a client that is closed ends its consumers with CLOSED, and they leave nothing behind', async () => {
  const world = await new VirtualWorld().start()
  await world.produce(0, 0, 3)
  const member = world.member().read()
  const alone = world.alone().read()
  await world.clock.runUntil(() => member.seen.length === 3 && alone.seen.length === 3)
  await world.clock.play(world.cluster.close())
  await world.clock.runUntil(() => member.ended && alone.ended, 1_000)
  for (const { failure } of [member, alone]) {
    assert.equal((failure as { code?: string } | undefined)?.code, 'CLOSED')
  }
  await world.end()
})

test('when a handler fails, what was handled before it is committed, and nothing behind', async () => {
  for (const order of ['partition', 'key'] as const) {
    const world = await new VirtualWorld().start()
    await world.produce(0, 0, 10)
    const failing = world.member()
    const run = failing.consumer.run(
      async ({ offset }) => {
        if (offset === 6) throw new Error('cannot')
      },
      { order, concurrency: 2 }
    )
    await assert.rejects(world.clock.play(run), { message: 'cannot' })
    await world.clock.play(failing.consumer.close())
    const next = world.member().read()
    await world.clock.runUntil(() => next.seen.length === 4)
    assert.deepEqual(next.values(), numbered(0, 6, 4))
    await world.end(next)
  }
})

test('what was fetched before a pause is delivered after it without being fetched again', async () => {
  const world = await new VirtualWorld().start()
  await world.produce(0, 0, 20)
  const alone = world.alone()
  alone.handle = ({ offset }) => {
    if (offset === 4) alone.consumer.pause()
  }
  alone.read()
  await world.clock.runUntil(() => alone.seen.length === 5)
  await world.clock.advance(60_000)
  assert.equal(alone.seen.length, 5)
  const stop = world.broker.control.on('Fetch', {}, 'drop')
  alone.consumer.resume()
  await world.clock.runUntil(() => alone.seen.length === 20, 1_000)
  assert.deepEqual(alone.values(), numbered(0, 0, 20))
  stop()
  await world.end(alone)
})
