/** Stories of offsets in transactions, by id, and of deleted topics, told to any broker: ours and Kafka's answer alike. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DeleteTopics } from '../../src/protocol/api/delete-topics.ts'
import { OffsetCommit } from '../../src/protocol/api/offset-commit.ts'
import { OffsetFetch } from '../../src/protocol/api/offset-fetch.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import {
  Member,
  type Site,
  Transaction,
  commit,
  committed,
  coordinated,
  newTopic,
  unique,
  until,
  withWire
} from './group-wire.ts'
import type { Wire } from './wire.ts'

interface Names {
  readonly group: string
  readonly topic: string
  readonly topicId: string
}

export function offsetStories(site: () => Site): void {
  const story = (name: string, run: (wire: Wire, names: Names) => Promise<void>): void => {
    test(name, () =>
      withWire(site(), async wire => {
        const names = { group: unique('group'), topic: unique('topic') }
        await coordinated(wire, names.group)
        await run(wire, { ...names, topicId: await newTopic(wire, names.topic, 2) })
      })
    )
  }
  /** Until what a transaction decided is there. */
  const untilCommitted = async (wire: Wire, group: string, expected: Record<string, number>) => {
    for (let round = 0; ; round++) {
      const found = await committed(wire, group, null, true)
      if (JSON.stringify(found) === JSON.stringify(expected)) return
      assert(round < 10_000, `${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`)
    }
  }

  story(
    'offsets of a transaction are unstable until it is decided',
    async (wire, { group, topic }) => {
      const transaction = new Transaction(wire)
      await commit(wire, group, topic, { 0: 1, 1: 1 })
      assert.equal(await transaction.commit(group, topic, { 0: 5 }), 'NONE')
      assert.deepEqual(await committed(wire, group), { [`${topic}-0`]: 1, [`${topic}-1`]: 1 })
      assert.deepEqual(await committed(wire, group, { [topic]: [0, 1] }, true), {
        [`${topic}-0`]: 'UNSTABLE_OFFSET_COMMIT',
        [`${topic}-1`]: 1
      })
      await transaction.end(true)
      await untilCommitted(wire, group, { [`${topic}-0`]: 5, [`${topic}-1`]: 1 })
      assert.equal(await transaction.commit(group, topic, { 0: 9 }), 'NONE')
      await transaction.end(false)
      await untilCommitted(wire, group, { [`${topic}-0`]: 5, [`${topic}-1`]: 1 })
    }
  )

  story(
    'a plain commit made after one in a transaction survives the transaction',
    async (wire, { group, topic }) => {
      const transaction = new Transaction(wire)
      assert.equal(await transaction.commit(group, topic, { 0: 5, 1: 5 }), 'NONE')
      assert.deepEqual(await commit(wire, group, topic, { 0: 3 }), ['NONE'])
      await transaction.end(true)
      await untilCommitted(wire, group, { [`${topic}-0`]: 3, [`${topic}-1`]: 5 })
    }
  )

  story(
    'a producer commits for a member of the epoch it names, or for nobody in particular',
    async (wire, { group, topic }) => {
      const one = new Member(wire, group, [topic])
      await until([one], () => one.count === 2)
      const transaction = new Transaction(wire)
      const by = (memberId: string, epoch: number) =>
        transaction.commit(group, topic, { 0: 5 }, { memberId, generationIdOrMemberEpoch: epoch })
      assert.equal(await by(one.id, one.epoch), 'NONE')
      assert.equal(await by('', -1), 'NONE')
      assert.equal(await by('nobody', one.epoch), 'UNKNOWN_MEMBER_ID')
      assert.equal(await by(one.id, one.epoch + 1), 'ILLEGAL_GENERATION')
      await transaction.end(true)
    }
  )

  story('offsets go with their topic', async (wire, { group, topic }) => {
    const other = unique('topic')
    await newTopic(wire, other, 1)
    await commit(wire, group, topic, { 0: 1 })
    await commit(wire, group, other, { 0: 2 })
    await wire.ask(DeleteTopics, 5, { topicNames: [topic], timeoutMs: 10_000 })
    for (;;) {
      const found = await committed(wire, group)
      if (JSON.stringify(found) === JSON.stringify({ [`${other}-0`]: 2 })) break
    }
    await newTopic(wire, topic, 2)
    assert.deepEqual(await committed(wire, group, { [topic]: [0] }), { [`${topic}-0`]: -1 })
  })

  story('since version 10 topics go by id', async (wire, { group, topicId }) => {
    const none = Buffer.alloc(16, 7).toString('base64url')
    const ask = async (id: string) => {
      const partitions = [{ partitionIndex: 1, committedOffset: 4, committedMetadata: 'm' }]
      const answer = await wire.ask(OffsetCommit, 10, {
        groupId: group,
        memberId: '',
        topics: [{ topicId: id, partitions }]
      })
      return answer.topics.map(found => [found.topicId, found.partitions.map(p => p.errorCode)])
    }
    assert.deepEqual(await ask(topicId), [[topicId, [0]]])
    assert.deepEqual(await ask(none), [[none, [KafkaError.UNKNOWN_TOPIC_ID]]])
    const topics = [
      { topicId, partitionIndexes: [0, 1] },
      { topicId: none, partitionIndexes: [0] }
    ]
    const fetched = await wire.ask(OffsetFetch, 10, { groups: [{ groupId: group, topics }] })
    const found = fetched.groups[0]?.topics.map(({ topicId: id, partitions }) => [
      id,
      partitions.map(p => [p.partitionIndex, p.committedOffset, p.metadata, p.errorCode])
    ])
    assert.deepEqual(
      new Map(found as [string, unknown][]),
      new Map<string, unknown>([
        [
          topicId,
          [
            [0, -1, '', 0],
            [1, 4, 'm', 0]
          ]
        ],
        [none, [[0, -1, '', KafkaError.UNKNOWN_TOPIC_ID]]]
      ])
    )
    const all = await wire.ask(OffsetFetch, 10, { groups: [{ groupId: group, topics: null }] })
    assert.deepEqual(
      all.groups[0]?.topics.map(({ topicId: id }) => id),
      [topicId]
    )
  })

  story(
    'several groups are asked for at once, each with its own answer',
    async (wire, { group, topic }) => {
      const [other, none] = [unique('group'), unique('group')]
      await coordinated(wire, other)
      await commit(wire, group, topic, { 0: 1 })
      const one = new Member(wire, other, [topic])
      await until([one], () => one.count === 2)
      await commit(wire, other, topic, { 1: 2 }, { memberId: one.id, epoch: one.epoch })
      const topics = [{ name: topic, partitionIndexes: [0] }]
      const answer = await wire.ask(OffsetFetch, 9, {
        groups: [
          { groupId: group, topics: null },
          { groupId: other, topics, memberId: one.id, memberEpoch: one.epoch },
          { groupId: other, topics, memberId: one.id, memberEpoch: one.epoch + 1 },
          { groupId: other, topics, memberId: 'nobody', memberEpoch: 1 },
          { groupId: none, topics: null },
          { groupId: none, topics, memberId: 'nobody', memberEpoch: 1 }
        ]
      })
      assert.deepEqual(
        answer.groups.map(({ errorCode, topics: found }) => [
          errorCode,
          found.flatMap(({ partitions }) => partitions.map(p => p.committedOffset))
        ]),
        [
          [0, [1]],
          [0, [-1]],
          [KafkaError.STALE_MEMBER_EPOCH, []],
          [KafkaError.UNKNOWN_MEMBER_ID, []],
          [0, []],
          [0, [-1]]
        ]
      )
    }
  )
}
