/** Stories of KIP-848 groups and of committed offsets, told to any broker: ours and Kafka's answer alike. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KafkaError } from '../../src/protocol/errors.ts'
import {
  Member,
  type Site,
  assertOneOwner,
  commit,
  committed,
  coordinated,
  newTopic,
  unique,
  until,
  withWire
} from './group-wire.ts'
import type { Wire } from './wire.ts'

export function consumerGroupStories(site: () => Site): void {
  const story = (
    name: string,
    run: (wire: Wire, names: { group: string; topic: string }) => Promise<void>
  ): void => {
    test(name, () =>
      withWire(site(), async wire => {
        const names = { group: unique('group'), topic: unique('topic') }
        await coordinated(wire, names.group)
        await run(wire, names)
      })
    )
  }

  story('the first member of a group gets every partition', async (wire, { group, topic }) => {
    await newTopic(wire, topic, 6)
    const one = new Member(wire, group, [topic])
    await until([one], () => one.count === 6)
  })

  story(
    'members share evenly, and nobody gets what another has not given up',
    async (wire, { group, topic }) => {
      await newTopic(wire, topic, 7)
      const [one, two, three] = [1, 2, 3].map(() => new Member(wire, group, [topic])) as [
        Member,
        Member,
        Member
      ]
      await until([one], () => one.count === 7)
      await until([one, two], () => one.count + two.count === 7 && two.count >= 3)
      const all = [one, two, three]
      await until(
        all,
        () => all.every(({ count }) => count >= 2) && one.count + two.count + three.count === 7
      )
      const [epoch] = all.map(member => member.epoch)
      assert(all.every(member => member.epoch === epoch))
    }
  )

  story('what a member that leaves had goes to the others', async (wire, { group, topic }) => {
    await newTopic(wire, topic, 4)
    const [one, two] = [new Member(wire, group, [topic]), new Member(wire, group, [topic])]
    await until([one, two], () => one.count === 2 && two.count === 2)
    const left = await two.send({ memberEpoch: -1, topicPartitions: null })
    assert.deepEqual([left.errorCode, left.memberEpoch], [0, -1])
    await until([one], () => one.count === 4)
    assert.equal(await two.beat(), 'UNKNOWN_MEMBER_ID')
  })

  story(
    'a partition in revocation is nobody else’s until a heartbeat says that it was given up',
    async (wire, { group, topic }) => {
      await newTopic(wire, topic, 2)
      const [one, two] = [new Member(wire, group, [topic]), new Member(wire, group, [topic])]
      await until([one], () => one.count === 2)
      const all = [...one.owned]
      await two.beat()
      // Until the first member is told to give one up.
      for (;;) {
        await two.beat()
        const { errorCode, assignment } = await one.send({ topicPartitions: null })
        assert.equal(errorCode, 0)
        if (assignment !== null) break
      }
      for (let again = 0; again < 5; again++) {
        assert.equal(await two.beat(), 'NONE')
        assert.equal(two.count, 0, 'the first has said nothing')
      }
      assert.deepEqual([...one.owned], all)
      // As after a lost answer: the member says everything, and is told everything.
      await one.beat({ rebalanceTimeoutMs: 30_000, subscribedTopicNames: [topic] })
      await until([one, two], () => one.count === 1 && two.count === 1)
    }
  )

  story(
    'an epoch that the group does not know fences the member',
    async (wire, { group, topic }) => {
      await newTopic(wire, topic, 1)
      const one = new Member(wire, group, [topic])
      await until([one], () => one.count === 1)
      const answers = [
        await one.send({ memberEpoch: one.epoch + 1 }),
        await one.send({ memberId: 'nobody', memberEpoch: one.epoch }),
        await one.send({ groupId: unique('none'), memberEpoch: 3 })
      ]
      assert.deepEqual(
        answers.map(({ errorCode }) => errorCode),
        [
          KafkaError.FENCED_MEMBER_EPOCH,
          KafkaError.UNKNOWN_MEMBER_ID,
          KafkaError.GROUP_ID_NOT_FOUND
        ]
      )
    }
  )

  story('heartbeats that make no sense are told what is wrong', async (wire, { group, topic }) => {
    const one = new Member(wire, group, [topic])
    const joining = { rebalanceTimeoutMs: 1000, subscribedTopicNames: [topic], topicPartitions: [] }
    const answers = [
      await one.send({ groupId: '' }),
      await one.send({ ...joining, memberId: '' }),
      await one.send({ ...joining, rebalanceTimeoutMs: -1 }),
      await one.send({ ...joining, topicPartitions: null }),
      await one.send({ ...joining, subscribedTopicNames: null }),
      await one.send({ ...joining, instanceId: '' }),
      await one.send({ ...joining, rackId: '' }),
      await one.send({ ...joining, memberEpoch: -3 }),
      await one.send({ ...joining, memberEpoch: -2 }),
      await one.send({ ...joining, serverAssignor: 'none' }),
      await one.send({ ...joining, subscribedTopicRegex: '(' })
    ]
    const invalid = KafkaError.INVALID_REQUEST
    assert.deepEqual(
      answers.map(({ errorCode }) => errorCode),
      [
        ...Array.from({ length: 9 }, () => invalid),
        KafkaError.UNSUPPORTED_ASSIGNOR,
        KafkaError.INVALID_REGULAR_EXPRESSION
      ]
    )
    assert.equal(answers[9]?.errorMessage?.startsWith('ServerAssignor none is not supported'), true)
  })

  story(
    'a pattern subscribes to what matches, also to topics to come',
    async (wire, { group, topic }) => {
      await newTopic(wire, `${topic}.a`, 1)
      const one = new Member(wire, group, [])
      assert.equal(
        await one.beat({ subscribedTopicNames: null, subscribedTopicRegex: `${topic}\\.[a-c]` }),
        'NONE'
      )
      await until([one], () => one.count === 1)
      await newTopic(wire, `${topic}.b`, 2)
      await newTopic(wire, `${topic}.d`, 2)
      await until([one], () => one.count === 3)
    }
  )

  story(
    'a static member that comes back in time has what it had, and costs no rebalance',
    async (wire, { group, topic }) => {
      await newTopic(wire, topic, 4)
      const instanceId = unique('instance')
      const [one, two] = [new Member(wire, group, [topic]), new Member(wire, group, [topic])]
      await one.beat({ instanceId })
      await until([one, two], () => one.count === 2 && two.count === 2)
      const before = new Set(one.owned)
      const stays = two.epoch
      const heir = new Member(wire, group, [topic])
      assert.equal(await heir.beat({ instanceId }), 'UNRELEASED_INSTANCE_ID')
      const left = await one.send({ memberEpoch: -2, instanceId, topicPartitions: null })
      assert.deepEqual([left.errorCode, left.memberEpoch], [0, -2])
      assert.equal(await heir.beat({ instanceId }), 'NONE')
      assert.deepEqual(heir.owned, before)
      assert.equal(await one.beat({ instanceId }), 'FENCED_INSTANCE_ID')
      await two.beat()
      assert.equal(two.epoch, stays)
      assertOneOwner([heir, two])
    }
  )

  story(
    'a member commits with its epoch, and nobody else while there are members',
    async (wire, { group, topic }) => {
      await newTopic(wire, topic, 2)
      assert.deepEqual(await commit(wire, group, topic, { 0: 3 }), ['NONE'])
      const one = new Member(wire, group, [topic])
      await until([one], () => one.count === 2)
      const by = (epoch: number, memberId = one.id) =>
        commit(wire, group, topic, { 0: 5, 1: 6 }, { memberId, epoch })
      assert.deepEqual(await by(one.epoch), ['NONE', 'NONE'])
      assert.deepEqual(await by(one.epoch + 1), ['STALE_MEMBER_EPOCH', 'STALE_MEMBER_EPOCH'])
      assert.deepEqual(await by(one.epoch, 'nobody'), ['UNKNOWN_MEMBER_ID', 'UNKNOWN_MEMBER_ID'])
      assert.deepEqual(await commit(wire, group, topic, { 0: 9 }), ['UNKNOWN_MEMBER_ID'])
      assert.deepEqual(
        await commit(
          wire,
          group,
          topic,
          { 0: 9 },
          { memberId: one.id, epoch: one.epoch, version: 8 }
        ),
        ['UNSUPPORTED_VERSION']
      )
      assert.deepEqual(await committed(wire, group), { [`${topic}-0`]: 5, [`${topic}-1`]: 6 })
    }
  )

  story(
    'a late commit counts for partitions that the member had then and has still (KIP-1251)',
    async (wire, { group, topic }) => {
      await newTopic(wire, topic, 2)
      const [one, two] = [new Member(wire, group, [topic]), new Member(wire, group, [topic])]
      await until([one], () => one.count === 2)
      const late = one.epoch
      await until([one, two], () => one.count === 1 && two.count === 1 && one.epoch === two.epoch)
      assert(one.epoch > late)
      const [mine] = [...one.owned].map(tp => Number(tp.split(':')[1]))
      const [theirs] = [...two.owned].map(tp => Number(tp.split(':')[1]))
      assert(mine !== undefined && theirs !== undefined)
      const by = { memberId: one.id, epoch: late }
      assert.deepEqual(await commit(wire, group, topic, { [mine]: 7 }, by), ['NONE'])
      assert.deepEqual(await commit(wire, group, topic, { [theirs]: 7 }, by), [
        'STALE_MEMBER_EPOCH'
      ])
      assert.deepEqual(await commit(wire, group, topic, { 0: 8, 1: 8 }, by), [
        'STALE_MEMBER_EPOCH',
        'STALE_MEMBER_EPOCH'
      ])
      assert.deepEqual(await committed(wire, group), { [`${topic}-${mine}`]: 7 })
    }
  )

  story('anybody may commit to a group without members', async (wire, { group, topic }) => {
    await newTopic(wire, topic, 3)
    assert.deepEqual(await committed(wire, group, { [topic]: [0] }), { [`${topic}-0`]: -1 })
    assert.deepEqual(await commit(wire, group, topic, { 0: 5, 2: 7 }), ['NONE', 'NONE'])
    assert.deepEqual(await committed(wire, group), { [`${topic}-0`]: 5, [`${topic}-2`]: 7 })
    assert.deepEqual(await committed(wire, group, { [topic]: [1, 2] }), {
      [`${topic}-1`]: -1,
      [`${topic}-2`]: 7
    })
    assert.deepEqual(await commit(wire, group, unique('none'), { 0: 1 }), [
      'UNKNOWN_TOPIC_OR_PARTITION'
    ])
    assert.deepEqual(await commit(wire, group, topic, { 0: 5 }, { epoch: 4, memberId: 'x' }), [
      'UNKNOWN_MEMBER_ID'
    ])
    const none = unique('none')
    assert.deepEqual(await commit(wire, none, topic, { 0: 5 }, { epoch: 4, memberId: 'x' }), [
      'GROUP_ID_NOT_FOUND'
    ])
    assert.deepEqual(
      await commit(wire, none, topic, { 0: 5 }, { epoch: 4, memberId: 'x', version: 8 }),
      ['ILLEGAL_GENERATION']
    )
  })

  story(
    'metadata of more than 4,096 UTF-16 units is refused, of that partition only',
    async (wire, { group, topic }) => {
      await newTopic(wire, topic, 2)
      const { OffsetCommit } = await import('../../src/protocol/api/offset-commit.ts')
      const partitions = [
        { partitionIndex: 0, committedOffset: 1, committedMetadata: '𝄞'.repeat(2048) },
        { partitionIndex: 1, committedOffset: 1, committedMetadata: `${'𝄞'.repeat(2048)}x` }
      ]
      const answer = await wire.ask(OffsetCommit, 9, {
        groupId: group,
        topics: [{ name: topic, partitions }],
        memberId: ''
      })
      assert.deepEqual(
        answer.topics[0]?.partitions.map(({ errorCode }) => errorCode),
        [0, KafkaError.OFFSET_METADATA_TOO_LARGE]
      )
      assert.deepEqual(await committed(wire, group), { [`${topic}-0`]: 1 })
    }
  )
}
