/** Classic groups on the embedded broker, as it is and as it plays older Kafkas: what applications see. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { JoinGroup } from '../../src/protocol/api/join-group.ts'
import { SyncGroup } from '../../src/protocol/api/sync-group.ts'
import { Crew, reading } from '../led/crew.ts'
import { older } from './older.ts'

for (const [name, maxVersions] of Object.entries(older)) {
  test(`${name}: 'auto' is a classic group; members share, come and go, each record is handled once`, async () => {
    await using crew = await Crew.start({ partitions: 4, maxVersions })
    const auto = { protocol: 'auto', heartbeatIntervalMs: 20 } as const
    const a = crew.join(auto)
    await crew.until(() => a.owned.length === 4)
    assert.equal(a.consumer.protocol, 'classic')
    const b = crew.join(auto)
    await crew.until(() => a.owned.length === 2 && b.owned.length === 2)
    await crew.produce(100)
    await crew.until(() => a.seen.length + b.seen.length === 100)
    await b.consumer.close()
    await crew.until(() => a.owned.length === 4)
    await crew.produce(100)
    await crew.until(() => a.seen.length + b.seen.length === 200)
    crew.assertEachOnce()
  })

  for (const assignors of [['cooperative-sticky'], ['range'], ['sticky']] as const) {
    test(`${name}, ${assignors.join()}: a live group is rewound, replayed, and the rewind undone`, async () => {
      await using crew = await Crew.start({ partitions: 2, maxVersions })
      const options = { protocol: 'classic', assignors, heartbeatIntervalMs: 20 } as const
      const hands = [0, 1].map(() => crew.join({ ...options, rewindCheckMs: 20 }))
      await crew.until(() => hands.every(({ owned }) => owned.length === 1))
      await crew.produce(60)
      const counts = () => hands.map(({ seen }) => seen.length)
      const seen = (since = [0, 0]) =>
        hands.flatMap((hand, i) => hand.seen.slice(since[i]).map(reading)).sort()
      await crew.until(() => seen().length === 60)
      const before = counts()
      const admin = crew.kafka.admin()
      const to = [{ topic: 't', partition: 0, offset: 10 }]
      const result = await admin.rewind(await admin.planRewind('g', { to }))
      assert.deepEqual(
        result.partitions.map(p => [p.state, p.from, p.to]),
        [['applied', 30, 10]]
      )
      await crew.until(() => seen(before).length === 20)
      assert.deepEqual(
        seen(before),
        Array.from({ length: 20 }, (_, i) => `t/0@${10 + i}`)
      )
      await admin.undoRewind('g')
      const after = counts()
      for (const { consumer } of hands) await consumer.commit()
      await admin.replay('g', { topics: ['t'], from: { offset: 5 }, until: { offset: 8 } })
      await crew.until(() => seen(after).length === 6)
      await crew.produce(2)
      await crew.until(() => seen(after).length === 8)
      const expected = [0, 1].flatMap(p => [30, 5, 6, 7].map(offset => `t/${p}@${offset}`))
      assert.deepEqual(seen(after), expected)
    })
  }

  test(`${name}: the group protocols that it doesn't have are refused by name`, async () => {
    await using crew = await Crew.start({ partitions: 1, maxVersions })
    for (const protocol of ['consumer', 'controller'] as const) {
      const consumer = crew.kafka.consumer({ group: 'g', topics: ['t'], protocol })
      await assert.rejects(consumer.poll({ timeoutMs: 10_000 }), {
        code: 'UNSUPPORTED_VERSION',
        message: new RegExp(`'${protocol}'`)
      })
      await consumer.close()
    }
  })
}

test('Kafka 2.8: a static member that comes back moves nothing; Kafka 2.1 refuses it by name', async () => {
  for (const [name, maxVersions] of Object.entries(older)) {
    await using crew = await Crew.start({ partitions: 2, maxVersions })
    const options = { protocol: 'classic', heartbeatIntervalMs: 20 } as const
    if (name === 'Kafka 2.1') {
      const consumer = crew.kafka.consumer({
        ...options,
        group: 'g',
        topics: ['t'],
        instanceId: 'one'
      })
      await assert.rejects(consumer.poll({ timeoutMs: 10_000 }), {
        code: 'UNSUPPORTED_VERSION',
        message: /groupInstanceId/
      })
      await consumer.close()
      continue
    }
    const stays = crew.join(options)
    await crew.until(() => stays.owned.length === 2)
    const before = crew.join({ ...options, instanceId: 'one' })
    await crew.until(() => stays.owned.length === 1 && before.owned.length === 1)
    const had = before.owned
    const { changes } = stays
    await before.consumer.close()
    const back = crew.join({ ...options, instanceId: 'one' })
    await crew.until(() => back.owned.length === 1)
    assert.deepEqual([back.owned, stays.changes], [had, changes])
  }
})

test('a replay is of what the group has committed: a partition with nothing of it is left out, and the plan says so', async () => {
  await using crew = await Crew.start({ partitions: 2 })
  const admin = crew.kafka.admin()
  await crew.produce(20)
  const to = [0, 1].map(partition => ({ topic: 't', partition, offset: 3 + 5 * partition }))
  await admin.rewind(await admin.planRewind('g', { create: true, to }))
  const range = { topics: ['t'], from: { offset: 5 }, until: { offset: 7 } } as const
  const { partitions, warnings } = await admin.planReplay('g', range)
  assert.deepEqual(
    partitions.map(({ partition, target, until }) => [partition, target, until]),
    [[1, 5, 7]]
  )
  assert.match(warnings.join(), /committed nothing of the range: t-0/)
})

test('groups of others are described: what cannot be read of their members is empty', async () => {
  await using crew = await Crew.start({})
  const { cluster } = crew.kafka
  const words = Buffer.from('00010000000100017400000000', 'hex')
  const members = [
    ['connect', 'connect', Buffer.from('what Connect writes')],
    ['consumer', 'mine', Buffer.from('no subscription')],
    ['consumer', 'RoundRobinAssigner', words]
  ] as const
  for (const [protocolType, name, metadata] of members) {
    const times = { sessionTimeoutMs: 10_000, rebalanceTimeoutMs: 10_000 }
    const protocols = [{ name, metadata }]
    const body = { ...times, groupId: name, memberId: '', protocolType, protocols }
    const to = { group: name }
    const { memberId } = await cluster.request(JoinGroup, body, { to })
    const joined = await cluster.request(JoinGroup, { ...body, memberId }, { to })
    assert.equal(joined.errorCode, 0)
    const { generationId, protocolName } = joined
    const assignments = [{ memberId, assignment: Buffer.from('what only they know') }]
    const mine = { groupId: name, generationId, memberId, protocolType, protocolName, assignments }
    await cluster.request(SyncGroup, mine, { to })
    const [group] = await crew.kafka.admin().describeGroups([name])
    const [member] = group?.members ?? []
    assert.deepEqual(
      [group?.assignor, member?.memberId, member?.topics, member?.partitions, member?.rewindable],
      [name, memberId, metadata === words ? ['t'] : [], [], false]
    )
  }
})

test('a shift counts from what is committed: where nothing is, a partition is left out, and the plan says so', async () => {
  await using crew = await Crew.start({ partitions: 2 })
  const admin = crew.kafka.admin()
  await crew.produce(20)
  const partitions = [{ topic: 't', partition: 0 }]
  await admin.rewind(await admin.planRewind('g', { create: true, partitions, to: 'latest' }))
  const plan = await admin.planRewind('g', { topics: ['t'], to: { shift: -4 } })
  assert.deepEqual(
    plan.partitions.map(({ partition, target }) => [partition, target]),
    [[0, 6]]
  )
  assert.match(plan.warnings.join(), /left out.* no committed offset to count -4 from: t-1/)
  await assert.rejects(
    admin.planRewind('g', { partitions: [{ topic: 't', partition: 1 }], to: { shift: -4 } }),
    { code: 'INVALID_ARGUMENT', message: /no committed offset to count -4 from: t-1/ }
  )
  await assert.rejects(admin.planRewind('nobody', { to: 'earliest' }), {
    code: 'UNKNOWN_GROUP',
    message: "there is no group 'nobody': it has neither members nor offsets"
  })
})
