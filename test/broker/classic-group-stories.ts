/** Stories of classic groups, told to any broker: ours and Kafka's answer alike. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DeleteGroups } from '../../src/protocol/api/delete-groups.ts'
import { DescribeGroups } from '../../src/protocol/api/describe-groups.ts'
import { JoinGroup } from '../../src/protocol/api/join-group.ts'
import { ListGroups } from '../../src/protocol/api/list-groups.ts'
import { OffsetDelete } from '../../src/protocol/api/offset-delete.ts'
import { kafkaErrorName } from '../../src/protocol/errors.ts'
import type { RequestOf } from '../../src/protocol/schema.ts'
import { Classic } from './classic-wire.ts'
import {
  Member,
  type Site,
  commit,
  committed,
  coordinated,
  newTopic,
  unique,
  until
} from './group-wire.ts'
import { Wire } from './wire.ts'

interface Stage {
  readonly group: string
  readonly topic: string
  readonly wire: Wire
  /** A member with a connection of its own. */
  member(instanceId?: string): Promise<Classic>
}

async function state({ wire, group }: Stage): Promise<string> {
  const { groups } = await wire.ask(DescribeGroups, 5, {
    groups: [group],
    includeAuthorizedOperations: false
  })
  return groups[0]?.groupState ?? ''
}

async function untilState(stage: Stage, wanted: string): Promise<void> {
  for (let round = 0; (await state(stage)) !== wanted; round++)
    assert(round < 100_000, `not ${wanted}`)
}

export function classicGroupStories(site: () => Site): void {
  const story = (name: string, run: (stage: Stage) => Promise<void>): void => {
    test(name, async () => {
      const { env, bootstrap } = site()
      const wires: Wire[] = []
      const connect = async () => {
        const wire = await Wire.connect(env, bootstrap)
        wires.push(wire)
        return wire
      }
      const wire = await connect()
      const names = { group: unique('group'), topic: unique('topic') }
      try {
        await coordinated(wire, names.group)
        await newTopic(wire, names.topic, 2)
        const member = async (instanceId?: string) =>
          new Classic(await connect(), names.group, names.topic, instanceId)
        await run({ ...names, wire, member })
      } finally {
        await Promise.all(wires.map(each => each.close()))
      }
    })
  }

  /** Two members in a stable group: the leader, and the other. */
  async function two(stage: Stage): Promise<readonly [leader: Classic, other: Classic]> {
    const [one, other] = [await stage.member(), await stage.member()]
    await one.join()
    await one.sync({ [one.id]: 'all' })
    const joining = other.join()
    await untilState(stage, 'PreparingRebalance')
    const [first] = await Promise.all([one.join(), joining])
    assert.equal(first.leader, one.id)
    const synced = [other.sync(), one.sync({ [one.id]: 'p0', [other.id]: 'p1' })]
    assert.deepEqual(await Promise.all(synced), ['p1', 'p0'])
    return [one, other]
  }

  story('a new member first gets its id, then leads a group of one', async stage => {
    const one = await stage.member()
    const first = await one.wire.ask(JoinGroup, 9, {
      groupId: stage.group,
      sessionTimeoutMs: 10_000,
      memberId: '',
      protocolType: 'consumer',
      protocols: one.protocols
    })
    assert.equal(kafkaErrorName(first.errorCode), 'MEMBER_ID_REQUIRED')
    assert.match(first.memberId, /^wire-/)
    const joined = await one.join({ memberId: first.memberId })
    assert.deepEqual([joined.errorCode, joined.generationId, joined.leader], [0, 1, first.memberId])
    assert.deepEqual([joined.protocolType, joined.protocolName], ['consumer', 'range'])
    assert.deepEqual(
      joined.members.map(({ memberId }) => memberId),
      [first.memberId]
    )
    assert.equal(await state(stage), 'CompletingRebalance')
    assert.equal(await one.sync({ [one.id]: 'all' }), 'all')
    assert.equal(await state(stage), 'Stable')
    assert.equal(await one.beat(), 'NONE')
  })

  story('clients of before KIP-394 join at once', async stage => {
    const one = await stage.member()
    const joined = await one.join({}, 2)
    assert.deepEqual([joined.errorCode, joined.generationId], [0, 1])
  })

  story(
    'a second member makes the group rebalance, and both get what the leader gave',
    async stage => {
      const [one, other] = await two(stage)
      assert.deepEqual([one.generation, other.generation], [2, 2])
      assert.deepEqual([await one.beat(), await other.beat()], ['NONE', 'NONE'])
      assert.equal(await other.sync(), 'p1')
    }
  )

  story('while a group rebalances, heartbeats say so and commits of members count', async stage => {
    const [one, other] = await two(stage)
    const third = await stage.member()
    const joining = third.join()
    await untilState(stage, 'PreparingRebalance')
    assert.equal(await one.beat(), 'REBALANCE_IN_PROGRESS')
    assert.equal(await one.sync(), 'REBALANCE_IN_PROGRESS')
    const by = { memberId: one.id, epoch: one.generation }
    assert.deepEqual(await commit(stage.wire, stage.group, stage.topic, { 0: 4 }, by), ['NONE'])
    const [first] = await Promise.all([one.join(), other.join(), joining])
    assert.deepEqual([first.generationId, first.members.length], [3, 3])
    const now = { memberId: one.id, epoch: one.generation }
    assert.deepEqual(await commit(stage.wire, stage.group, stage.topic, { 0: 5 }, now), [
      'REBALANCE_IN_PROGRESS'
    ])
    assert.equal(await one.beat(), 'NONE')
    await Promise.all([one.sync({}), other.sync(), third.sync()])
    assert.deepEqual(await commit(stage.wire, stage.group, stage.topic, { 0: 5 }, now), ['NONE'])
    assert.deepEqual(await commit(stage.wire, stage.group, stage.topic, { 0: 5 }, by), [
      'ILLEGAL_GENERATION'
    ])
    assert.deepEqual(await commit(stage.wire, stage.group, stage.topic, { 0: 5 }), [
      'UNKNOWN_MEMBER_ID'
    ])
    assert.deepEqual(await committed(stage.wire, stage.group), { [`${stage.topic}-0`]: 5 })
  })

  story('requests of who is no member, or of another generation, are refused', async stage => {
    const [one] = await two(stage)
    const nobody = { memberId: 'nobody' }
    assert.deepEqual(
      [
        await one.beat(nobody),
        await one.beat({ generationId: 1 }),
        await one.beat({ groupId: unique('none') }),
        await one.beat({ groupId: '' }),
        await one.sync({}, nobody),
        await one.sync({}, { generationId: 1 }),
        await one.sync({}, { protocolType: null }),
        await one.sync({}, { protocolType: 'other' }),
        await one.sync({}, { protocolName: 'other' }),
        await one.sync({}, { groupId: unique('none') })
      ],
      [
        'UNKNOWN_MEMBER_ID',
        'ILLEGAL_GENERATION',
        'UNKNOWN_MEMBER_ID',
        'INVALID_GROUP_ID',
        'UNKNOWN_MEMBER_ID',
        'ILLEGAL_GENERATION',
        'INCONSISTENT_GROUP_PROTOCOL',
        'INCONSISTENT_GROUP_PROTOCOL',
        'INCONSISTENT_GROUP_PROTOCOL',
        'UNKNOWN_MEMBER_ID'
      ]
    )
    const wrong = await stage.member()
    const names = async (body: Partial<RequestOf<typeof JoinGroup>>) =>
      kafkaErrorName((await wrong.join(body)).errorCode)
    assert.deepEqual(
      [
        await names({ sessionTimeoutMs: 1 }),
        await names({ memberId: 'nobody' }),
        await names({ protocolType: 'other' }),
        await names({ protocols: [{ name: 'other', metadata: Buffer.alloc(0) }] }),
        await names({ protocols: [] }),
        await names({ protocolType: '' }),
        await names({ groupId: '' })
      ],
      [
        'INVALID_SESSION_TIMEOUT',
        'UNKNOWN_MEMBER_ID',
        'INCONSISTENT_GROUP_PROTOCOL',
        'INCONSISTENT_GROUP_PROTOCOL',
        'INCONSISTENT_GROUP_PROTOCOL',
        'INCONSISTENT_GROUP_PROTOCOL',
        'INVALID_GROUP_ID'
      ]
    )
  })

  story('who leaves is gone, and the last one leaves an empty group', async stage => {
    const [one, other] = await two(stage)
    assert.deepEqual(await other.leave(), ['NONE', 'NONE'])
    assert.equal(await one.beat(), 'REBALANCE_IN_PROGRESS')
    assert.deepEqual(await other.leave(), ['NONE', 'UNKNOWN_MEMBER_ID'])
    const again = await one.join()
    assert.deepEqual([again.generationId, again.members.length], [3, 1])
    await one.sync({ [one.id]: 'all' })
    const by = { memberId: one.id, epoch: one.generation }
    assert.deepEqual(await one.leave(), ['NONE', 'NONE'])
    assert.equal(await state(stage), 'Empty')
    assert.deepEqual(await commit(stage.wire, stage.group, stage.topic, { 0: 1 }, by), [
      'UNKNOWN_MEMBER_ID'
    ])
    assert.deepEqual(await commit(stage.wire, stage.group, stage.topic, { 0: 2 }), ['NONE'])
  })

  story('a known member that joins for the same again is told where the group is', async stage => {
    const [one, other] = await two(stage)
    const told = await other.join()
    assert.deepEqual(
      [told.errorCode, told.generationId, told.leader, told.members.length],
      [0, 2, one.id, 0]
    )
    assert.equal(await one.beat(), 'NONE')
    // But a leader that joins again wants a rebalance.
    const joining = one.join()
    await untilState(stage, 'PreparingRebalance')
    const [led] = await Promise.all([joining, other.join()])
    assert.deepEqual([led.generationId, led.members.length], [3, 2])
  })

  story(
    'a static member that comes back in a stable group takes its place without a rebalance',
    async stage => {
      const [one, other] = [await stage.member('one'), await stage.member('other')]
      await one.join()
      await one.sync({ [one.id]: 'all' })
      const joining = other.join()
      await untilState(stage, 'PreparingRebalance')
      await Promise.all([one.join(), joining])
      await Promise.all([other.sync(), one.sync({ [one.id]: 'p0', [other.id]: 'p1' })])
      const back = await stage.member('other')
      const told = await back.join()
      assert.deepEqual([told.errorCode, told.generationId, told.members.length], [0, 2, 0])
      assert.notEqual(back.id, other.id)
      assert.equal(await back.sync(), 'p1')
      assert.equal(await other.beat(), 'FENCED_INSTANCE_ID')
      assert.equal(await one.beat(), 'NONE')
      const leader = await stage.member('one')
      const led = await leader.join()
      assert.deepEqual(
        [led.generationId, led.leader, led.skipAssignment, led.members.length],
        [2, leader.id, true, 2]
      )
      const older = await stage.member('one')
      const misled = await older.join({}, 8)
      assert.deepEqual(
        [misled.generationId, misled.leader, misled.members.length],
        [2, leader.id, 0]
      )
    }
  )

  story('groups are listed and described', async stage => {
    const [one, other] = await two(stage)
    const { groups } = await stage.wire.ask(DescribeGroups, 6, {
      groups: [stage.group, 'none-such'],
      includeAuthorizedOperations: false
    })
    // In any order: Kafka answers by the coordinator's partitions, not as it was asked.
    const found = groups.find(({ groupId }) => groupId === stage.group)
    const none = groups.find(({ groupId }) => groupId === 'none-such')
    assert(found && none)
    assert.deepEqual(
      [found.groupState, found.protocolType, found.protocolData],
      ['Stable', 'consumer', 'range']
    )
    assert.deepEqual(
      new Set(found.members.map(({ memberId }) => memberId)),
      new Set([one.id, other.id])
    )
    const mine = found.members.find(({ memberId }) => memberId === one.id)
    assert.deepEqual(
      [
        mine?.clientId,
        mine?.clientHost,
        mine?.memberAssignment.toString(),
        mine?.memberMetadata.equals(one.protocols[0]?.metadata as Buffer)
      ],
      ['wire', '/127.0.0.1', 'p0', true]
    )
    assert.deepEqual(
      [kafkaErrorName(none.errorCode), none.errorMessage, none.groupState],
      ['GROUP_ID_NOT_FOUND', 'Group none-such not found.', 'Dead']
    )
    const listed = async (statesFilter: string[], typesFilter: string[]) => {
      const all = await stage.wire.ask(ListGroups, 5, { statesFilter, typesFilter })
      return all.groups.find(({ groupId }) => groupId === stage.group)
    }
    const entry = {
      groupId: stage.group,
      protocolType: 'consumer',
      groupState: 'Stable',
      groupType: 'classic'
    }
    assert.deepEqual({ ...(await listed([], [])), groupType: 'classic' }, entry)
    assert(await listed(['stable'], ['Classic']))
    assert.equal(await listed(['Empty'], []), undefined)
    assert.equal(await listed([], ['consumer']), undefined)
  })

  story(
    'a group with members is not deleted, and one without is, with its offsets',
    async stage => {
      const { wire, group, topic } = stage
      const remove = async () => {
        const { results } = await wire.ask(DeleteGroups, 2, { groupsNames: [group] })
        return results.map(({ errorCode }) => kafkaErrorName(errorCode))
      }
      assert.deepEqual(await remove(), ['GROUP_ID_NOT_FOUND'])
      const one = await stage.member()
      await one.join()
      await one.sync({})
      await commit(wire, group, topic, { 0: 1 }, { memberId: one.id, epoch: one.generation })
      assert.deepEqual(await remove(), ['NON_EMPTY_GROUP'])
      await one.leave()
      assert.deepEqual(await remove(), ['NONE'])
      assert.deepEqual(await committed(wire, group), {})
      assert.deepEqual(await remove(), ['GROUP_ID_NOT_FOUND'])
    }
  )

  story('offsets are deleted one by one, but not of topics that the group reads', async stage => {
    const { wire, group, topic } = stage
    const other = unique('topic')
    await newTopic(wire, other, 2)
    await commit(wire, group, topic, { 0: 1, 1: 2 })
    await commit(wire, group, other, { 0: 3 })
    const one = await stage.member()
    await one.join()
    await one.sync({})
    const remove = async (groupId: string, names: readonly string[]) => {
      const topics = names.map(name => ({
        name,
        partitions: [{ partitionIndex: 0 }, { partitionIndex: 1 }]
      }))
      const answer = await wire.ask(OffsetDelete, 0, { groupId, topics })
      // Kafka answers for what it doesn't know first.
      const inOrder = names.map(name => answer.topics.find(found => found.name === name))
      const codes = inOrder.flatMap(found => found?.partitions.map(p => p.errorCode) ?? [])
      return [answer.errorCode, ...codes].map(kafkaErrorName)
    }
    assert.deepEqual(await remove(unique('none'), [topic]), ['GROUP_ID_NOT_FOUND'])
    assert.deepEqual(await remove(group, [topic, other]), [
      'NONE',
      'GROUP_SUBSCRIBED_TO_TOPIC',
      'GROUP_SUBSCRIBED_TO_TOPIC',
      'NONE',
      'NONE'
    ])
    assert.deepEqual(await committed(wire, group), { [`${topic}-0`]: 1, [`${topic}-1`]: 2 })
    await one.leave()
    assert.deepEqual(await remove(group, [topic, unique('none')]), [
      'NONE',
      'NONE',
      'NONE',
      'UNKNOWN_TOPIC_OR_PARTITION',
      'UNKNOWN_TOPIC_OR_PARTITION'
    ])
    assert.deepEqual(await committed(wire, group), {})
  })

  story('a group without members takes up either protocol, and keeps its offsets', async stage => {
    const { wire, group, topic } = stage
    await commit(wire, group, topic, { 0: 11 })
    const modern = new Member(wire, group, [topic])
    await until([modern], () => modern.count === 2)
    assert.deepEqual(await committed(wire, group), { [`${topic}-0`]: 11 })
    await modern.send({ memberEpoch: -1, topicPartitions: null })
    const one = await stage.member()
    assert.equal((await one.join()).errorCode, 0)
    await one.sync({})
    assert.deepEqual(await committed(wire, group), { [`${topic}-0`]: 11 })
    await one.leave()
    const again = new Member(wire, group, [topic])
    await until([again], () => again.count === 2)
  })
}
