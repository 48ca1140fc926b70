/** What becomes of a member of a group, whatever the group's protocol: in virtual time, on the embedded broker. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PlayheadError } from '../../../src/base/error.ts'
import { describeGroups } from '../../../src/client/admin/groups.ts'
import type { StallReason } from '../../../src/client/consumer/events.ts'
import { Producer } from '../../../src/client/producer/producer.ts'
import { ApiVersions } from '../../../src/protocol/api/api-versions.ts'
import { ConsumerGroupHeartbeat } from '../../../src/protocol/api/consumer-group-heartbeat.ts'
import { ControllerHeartbeat } from '../../../src/protocol/api/controller-heartbeat.ts'
import { ControllerListGroups } from '../../../src/protocol/api/controller-list-groups.ts'
import { Heartbeat } from '../../../src/protocol/api/heartbeat.ts'
import { JoinGroup } from '../../../src/protocol/api/join-group.ts'
import { RegisterConsumer } from '../../../src/protocol/api/register-consumer.ts'
import { KafkaError } from '../../../src/protocol/errors.ts'
import type { Api } from '../../../src/protocol/schema.ts'
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

  const joined = async (world: VirtualWorld, member: Watched): Promise<void> => {
    member.read()
    await world.clock.runUntil(() => member.events.includes('assigned 0'))
  }

  const stalls: readonly (readonly [
    StallReason,
    (world: VirtualWorld, member: Watched) => unknown
  ])[] = [
    [
      'not in the group',
      (world, member) => {
        const join = protocol === 'classic' ? 'JoinGroup' : 'ConsumerGroupHeartbeat'
        world.broker.control.on(join, {}, { error: 'COORDINATOR_LOAD_IN_PROGRESS' })
        member.read()
      }
    ],
    [
      'no partitions',
      async (world, member) => {
        const other = world.member({ protocol }).read()
        await world.clock.runUntil(() => other.events.includes('assigned 0'))
        member.read()
      }
    ],
    [
      'all partitions paused',
      async (world, member) => {
        await world.produce(0, 0, 2)
        member.handle = () => member.consumer.pause()
        member.read()
      }
    ],
    [
      'handler running',
      async (world, member) => {
        await world.produce(0, 0, 1)
        const hang = () => new Promise(resolve => world.clock.after(60_000, () => resolve(null)))
        member.handle = hang
        member.read()
      }
    ],
    [
      'session expired',
      async (world, member) => {
        await joined(world, member)
        const beat = protocol === 'classic' ? 'Heartbeat' : 'ConsumerGroupHeartbeat'
        world.broker.control.on(beat, {}, 'drop')
      }
    ],
    [
      'start offset not found',
      (world, member) => {
        world.broker.control.on('OffsetFetch', {}, { error: 'COORDINATOR_LOAD_IN_PROGRESS' })
        member.read()
      }
    ],
    [
      'fetch not answered',
      async (world, member) => {
        await joined(world, member)
        world.broker.control.on('Fetch', {}, 'drop')
      }
    ],
    [
      'no leader',
      async (world, member) => {
        await joined(world, member)
        world.broker.control.on('Metadata', { topic: 't' }, { answer: leaderless(world) })
        world.broker.control.on('Fetch', {}, { error: 'NOT_LEADER_OR_FOLLOWER' })
      }
    ],
    [
      'nobody asks for records',
      async (world, member) => {
        // The application has nothing in hand: it polled once, and its loop ended.
        await world.clock.play(member.consumer.poll({ timeoutMs: 1_000 }))
        await world.clock.runUntil(() => member.events.includes('assigned 0'))
        await world.produce(0, 0, 1)
      }
    ]
  ]
  for (const [reason, bring] of stalls) {
    test(`${protocol}: when nothing comes because of '${reason}', the consumer says so`, async () => {
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
    })
  }
}

/** What Metadata says of 't' while it has no leader. */
function leaderless({ cluster }: VirtualWorld) {
  const { brokers, controller, topics } = cluster.metadata
  const { topicId = null } = topics.get('t') ?? {}
  const errorCode = KafkaError.LEADER_NOT_AVAILABLE
  const nobody = { leaderId: -1, leaderEpoch: 1, replicaNodes: [1], isrNodes: [1] }
  return {
    brokers: [...brokers.values()].map(({ id: nodeId, host, port }) => ({ nodeId, host, port })),
    controllerId: controller,
    topics: [
      {
        errorCode: 0,
        name: 't',
        topicId,
        partitions: [{ errorCode, partitionIndex: 0, ...nobody }]
      }
    ]
  }
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

/** What a broker says that doesn't speak these requests. */
async function older(world: VirtualWorld, without: readonly Api[]) {
  const who = { clientSoftwareName: 'test', clientSoftwareVersion: '1' }
  const table = await world.clock.play(world.cluster.request(ApiVersions, who, { to: 'any' }))
  const keys = without.map(({ key }) => key)
  const apiKeys = table.apiKeys.filter(({ apiKey }) => !keys.includes(apiKey))
  return { answer: { ...table, apiKeys } }
}

for (const [protocol, without] of [
  ['consumer', [ConsumerGroupHeartbeat]],
  ['classic', [Heartbeat, JoinGroup]],
  ['controller', [ControllerHeartbeat, RegisterConsumer]],
  ['controller', [ControllerListGroups]]
] as const) {
  const names = without.map(({ name }) => name).join(' and ')
  test(`${protocol}: a member whose brokers don’t speak ${names} any more is told so once, and tries no further`, async () => {
    const world = await new VirtualWorld().start({ topics: { t: 1 } })
    await world.produce(0, 0, 2)
    const member = world.member({ protocol }).read()
    await world.clock.runUntil(() => member.seen.length === 2)
    world.broker.control.on('ApiVersions', {}, await older(world, without))
    await world.clock.play(world.broker.stopListener(1))
    await world.clock.advance(1_000)
    await world.clock.play(world.broker.startListener(1))
    await world.clock.runUntil(() => member.ended)
    const { code, message } = member.failure as PlayheadError
    assert.equal(code, 'UNSUPPORTED_VERSION')
    assert.match(
      message,
      /^group 'g': this consumer is no member any more: \w+: .*does not speak it/
    )
    assert.ok(member.events.includes('lost 0'))
    let asked = 0
    world.broker.control.on('*', ({ body }) => void (asked += Number('groupId' in body)))
    await world.clock.advance(60_000)
    const errors = member.events.filter(event => event.startsWith('error'))
    assert.deepEqual([errors, asked], [['error UNSUPPORTED_VERSION'], 0])
    await world.end(member)
  })
}

test("while a cluster is upgraded, 'auto' is a classic member where the coordinator doesn’t speak KIP-848 yet", async () => {
  const maxVersions = { ControllerListGroups: -1 }
  const world = await new VirtualWorld().start({ brokers: 2, maxVersions })
  let group = 'g'
  const coordinator = () => world.clock.play(world.cluster.coordinator({ group }))
  while ((await coordinator()) !== 2) group += 'g'
  world.broker.control.on('ApiVersions', { node: 2 }, await older(world, [ConsumerGroupHeartbeat]))
  await world.produce(0, 0, 2)
  const member = world.member({ protocol: 'auto', group }).read()
  await world.clock.runUntil(() => member.seen.length === 2)
  assert.equal(member.consumer.protocol, 'classic')
  await world.end(member)
})

test('what a poll has gathered when close is called, while it waits for more to be decompressed, is for the next owner', async () => {
  const world = await new VirtualWorld().start()
  const producer = new Producer(world.cluster, { compression: 'gzip' })
  const send = (value: string) => world.clock.play(producer.send('t', { partition: 0, value }))
  const member = world.member()
  await send('0-0')
  const [first] = await world.clock.play(member.consumer.poll())
  // What comes now is there at once, what comes behind the first has yet to be decompressed.
  await world.produce(1, 0, 3)
  await send('0-1')
  await world.clock.play(producer.close())
  await world.clock.advance(1_000)
  world.broker.control.on('OffsetCommit', {}, { delayMs: 100 })
  const polled = member.consumer.poll()
  await new Promise(resolve => setImmediate(resolve))
  const closed = member.consumer.close()
  assert.deepEqual(await world.clock.play(polled), [])
  await world.clock.play(closed)
  const next = world.member().read()
  await world.clock.runUntil(() => next.seen.length === 4)
  const values = [first?.value, ...next.values()]
  assert.equal(values.length, 5)
  assert.deepEqual(new Set(values), new Set([...numbered(0, 0, 2), ...numbered(1, 0, 3)]))
  await world.end(member, next)
})

test('a KIP-848 member that has just joined has its partitions as soon as the others have let go of them', async () => {
  const world = await new VirtualWorld().start({ topics: { t: 2 } })
  const first = world.member().read()
  await world.clock.runUntil(() => first.consumer.assignment.length === 2)
  // Its heartbeats are 5 s apart: the next is near, and tells it to let go of one.
  await world.clock.advance(4_500)
  const second = world.member().read()
  const at = world.clock.monotonic()
  await world.clock.runUntil(() => second.consumer.assignment.length === 1)
  const tookMs = world.clock.monotonic() - at
  assert.ok(tookMs < 1_100, `${tookMs} ms`)
  await world.end(first, second)
})

test('a KIP-848 member for which nothing is left looks more often for ten seconds, and then as often as it is told', async () => {
  const world = await new VirtualWorld().start({ topics: { t: 1 } })
  const owner = world.member().read()
  await world.clock.runUntil(() => owner.consumer.assignment.length === 1)
  const idle = world.member()
  const beats: number[] = []
  world.broker.control.on('ConsumerGroupHeartbeat', ({ body }) => {
    if (body['memberId'] === idle.consumer.memberId) beats.push(world.clock.monotonic())
  })
  idle.read()
  await world.clock.advance(60_000)
  const [at = 0] = beats
  const within = (fromMs: number, toMs: number) =>
    beats.filter(beat => beat >= at + fromMs && beat < at + toMs).length
  assert.ok(within(0, 10_000) <= 22, `${within(0, 10_000)} in ten seconds`)
  assert.ok(within(10_000, 60_000) <= 10, `${within(10_000, 60_000)} in the fifty after`)
  await world.end(owner, idle)
})
