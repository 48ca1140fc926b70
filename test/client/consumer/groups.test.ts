/** What becomes of a member of a group, whatever the group's protocol: in virtual time, on the embedded broker. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PlayheadError } from '../../../src/base/error.ts'
import { describeGroups } from '../../../src/client/admin/groups.ts'
import type { StallReason } from '../../../src/client/consumer/events.ts'
import { numbered, VirtualWorld, type Watched } from './virtual.ts'

const protocols = ['consumer', 'classic'] as const

for (const protocol of protocols) {
  test(`${protocol}: topics of a pattern that come later are found, by the broker's expressions or ours, and read from their beginning`, async () => {
    // The second is one that RE2 doesn't have: it is matched on this side.
    for (const pattern of [/^audit\./, /^audit\.(?!never)/]) {
      const world = await new VirtualWorld().start({ topics: { t: 1, 'audit.a': 1 } })
      await world.produce(0, 0, 1, 'audit.a')
      const member = world.member({ protocol, topics: [pattern], startFrom: 'latest' }).read()
      await world.clock.runUntil(() => member.events.includes('assigned 0'))
      await world.createTopic('audit.b')
      await world.createTopic('other.b')
      await world.produce(0, 5, 2, 'audit.b')
      await world.clock.runUntil(() => member.seen.length === 2)
      assert.deepEqual(member.values(), numbered(0, 5, 2))
      assert.deepEqual(member.consumer.assignment.map(({ topic }) => topic).sort(), [
        'audit.a',
        'audit.b'
      ])
      await world.end(member)
    }
  })

  test(`${protocol}: who seeks as soon as it is assigned stays where it sought, though the group was once rewound`, async () => {
    const world = await new VirtualWorld().start({ topics: { t: 1 } })
    await world.produce(0, 0, 10)
    const at = { topic: 't', partition: 0 }
    const options = { protocol, rewindCheckMs: 100, commitIntervalMs: 100 }
    const first = world.member(options).read()
    await world.clock.runUntil(() => first.seen.length === 10)
    const { id } = await world.clock.play(first.consumer.rewind([{ ...at, offset: 2 }]))
    await world.clock.runUntil(() => first.seen.length === 18)
    await world.clock.play(first.consumer.close())
    for (const [offset, count] of [
      [7, 3],
      ['earliest', 10]
    ] as const) {
      const next = world.member(options)
      next.consumer.on('assigned', () => next.consumer.seek({ ...at, offset }))
      next.read()
      await world.clock.runUntil(() => next.seen.length === count)
      await world.clock.advance(5_000)
      assert.deepEqual(next.values(), numbered(0, 10 - count, count), 'and no rewind takes it away')
      assert.equal(next.consumer.rewindOf(at), id, 'so that what it commits counts')
      await world.clock.play(next.consumer.close())
    }
    await world.end()
  })

  test(`${protocol}: startFrom is looked at where nothing is committed: a time, a duration, either end, nowhere`, async () => {
    const world = await new VirtualWorld().start({ topics: { t: 1 } })
    await world.produce(0, 0, 2)
    await world.clock.advance(3_600_000)
    const then = world.clock.now()
    await world.produce(0, 2, 2)
    const starts = [
      ['earliest', 4],
      [{ time: then }, 2],
      [{ ago: '30m' }, 2],
      [{ ago: '2h' }, 4]
    ] as const
    for (const [startFrom, count] of starts) {
      const group = JSON.stringify(startFrom)
      const member = world.member({ protocol, group, startFrom }).read()
      await world.clock.runUntil(() => member.seen.length === count)
      assert.deepEqual(member.values(), numbered(0, 4 - count, count))
      await world.clock.play(member.consumer.close())
    }
    const nowhere = world.member({ protocol, group: 'nowhere', startFrom: 'none' }).read()
    await world.clock.runUntil(() => nowhere.ended)
    assert.equal((nowhere.failure as { code?: string }).code, 'OFFSET_OUT_OF_RANGE')
    await world.end(nowhere)
  })

  test(`${protocol}: says why nothing comes, whatever it is`, async () => {
    const told = async (
      reason: StallReason,
      bring: (world: VirtualWorld, member: Watched) => unknown
    ): Promise<void> => {
      const world = await new VirtualWorld().start({ topics: { t: 1 } })
      const member = world.member({ protocol, stalledAfterMs: 5_000 })
      let detail = ''
      member.consumer.on('stalled', stalled => {
        if (stalled.reason === reason) detail ||= stalled.detail
      })
      await bring(world, member)
      await world.clock.runUntil(() => member.events.includes(`stalled ${reason}`))
      assert.notEqual(detail, '')
      await world.clock.play(member.consumer.close({ timeoutMs: 1_000 }))
    }
    const joined = async (world: VirtualWorld, member: Watched): Promise<void> => {
      member.read()
      await world.clock.runUntil(() => member.events.includes('assigned 0'))
    }
    const join = protocol === 'classic' ? 'JoinGroup' : 'ConsumerGroupHeartbeat'
    await told('not in the group', (world, member) => {
      world.broker.control.on(join, {}, { error: 'COORDINATOR_LOAD_IN_PROGRESS' })
      member.read()
    })
    await told('no partitions', async (world, member) => {
      const other = world.member({ protocol }).read()
      await world.clock.runUntil(() => other.events.includes('assigned 0'))
      member.read()
    })
    await told('all partitions paused', async (world, member) => {
      await world.produce(0, 0, 2)
      member.handle = () => member.consumer.pause()
      member.read()
    })
    await told('handler running', async (world, member) => {
      await world.produce(0, 0, 1)
      member.handle = () => new Promise(resolve => world.clock.after(60_000, () => resolve(null)))
      member.read()
    })
    await told('session expired', async (world, member) => {
      await joined(world, member)
      const beat = protocol === 'classic' ? 'Heartbeat' : 'ConsumerGroupHeartbeat'
      world.broker.control.on(beat, {}, 'drop')
    })
    await told('start offset not found', (world, member) => {
      world.broker.control.on('OffsetFetch', {}, { error: 'COORDINATOR_LOAD_IN_PROGRESS' })
      member.read()
    })
    await told('fetch not answered', async (world, member) => {
      await joined(world, member)
      world.broker.control.on('Fetch', {}, 'drop')
    })
  })
}

test('a classic member that the coordinator no longer knows loses what it has, says why, and joins again', async () => {
  const world = await new VirtualWorld().start()
  await world.produce(0, 0, 3)
  const member = world.member({ protocol: 'classic', commitIntervalMs: 100 })
  const why: string[] = []
  const joined: string[] = []
  member.consumer.on('lost', lost => void why.push(lost.why))
  member.consumer.on(
    'joined',
    ({ protocol, memberId }) => void joined.push(`${protocol} ${memberId}`)
  )
  member.read()
  await world.clock.runUntil(() => member.seen.length === 3)
  await world.clock.advance(1_000)
  const moves = () => member.events.filter(event => !event.startsWith('stalled'))
  for (const error of ['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION'] as const) {
    member.events.length = 0
    world.broker.control.on('Heartbeat', { count: 1 }, { error })
    await world.clock.runUntil(() => member.events.includes('assigned 0'))
    assert.deepEqual(moves(), ['lost 0', 'lost 1', 'assigned 0', 'assigned 1'])
  }
  assert.deepEqual(new Set(why), new Set(['the coordinator no longer knows this member']))
  assert.equal(joined.length, 3)
  assert.equal(joined.at(-1), `classic ${member.consumer.memberId}`)
  await world.produce(0, 3, 3)
  await world.clock.runUntil(() => member.seen.length === 6)
  assert.deepEqual(member.values(), numbered(0, 0, 6))
  await world.end(member)
})

test("'auto' asks what the group is until it is told, and is KIP-848 where it may not look", async () => {
  const world = await new VirtualWorld().start({ maxVersions: { ControllerListGroups: -1 } })
  const first = world.member({ protocol: 'classic' }).read()
  await world.clock.runUntil(() => first.events.includes('assigned 0'))
  world.broker.control.on('DescribeGroups', { count: 3 }, { error: 'COORDINATOR_LOAD_IN_PROGRESS' })
  const second = world.member({ protocol: 'auto' }).read()
  await world.clock.runUntil(() => second.consumer.assignment.length === 1)
  assert.equal(second.consumer.protocol, 'classic')
  world.broker.control.on('DescribeGroups', {}, { error: 'GROUP_AUTHORIZATION_FAILED' })
  const third = world.member({ protocol: 'auto', group: 'other' }).read()
  await world.clock.runUntil(() => third.consumer.assignment.length === 2)
  assert.equal(third.consumer.protocol, 'consumer')
  await world.end(first, second, third)
})

test('where brokers say that they have KIP-848 and have it switched off, as Kafka 3.9, groups are classic', async () => {
  const world = await new VirtualWorld().start({ maxVersions: { ControllerListGroups: -1 } })
  for (const api of ['ConsumerGroupHeartbeat', 'ConsumerGroupDescribe'] as const) {
    world.broker.control.on(api, {}, { error: 'UNSUPPORTED_VERSION' })
  }
  const member = world.member({ protocol: 'auto' }).read()
  await world.clock.runUntil(() => member.consumer.assignment.length === 2)
  assert.equal(member.consumer.protocol, 'classic')
  const [group] = await world.clock.play(describeGroups(world.cluster, ['g']))
  assert.deepEqual([group?.type, group?.members.length], ['classic', 1])
  const insists = world.member({ protocol: 'consumer', group: 'other' }).read()
  await world.clock.runUntil(() => insists.ended)
  const { code, message } = insists.failure as PlayheadError
  assert.equal(code, 'UNSUPPORTED_VERSION')
  assert.match(message, /switched off, join it with protocol: 'classic'/)
  await world.end(member, insists)
})
