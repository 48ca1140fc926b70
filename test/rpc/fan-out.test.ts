/** One question, many brokers: each item is asked where it belongs, and one bad item spoils no other. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApiVersions } from '../../src/protocol/api/api-versions.ts'
import { DescribeGroups } from '../../src/protocol/api/describe-groups.ts'
import { ListGroups } from '../../src/protocol/api/list-groups.ts'
import { ListOffsets } from '../../src/protocol/api/list-offsets.ts'
import { OffsetFetch } from '../../src/protocol/api/offset-fetch.ts'
import { describeClassicGroups, fetchOffsets, listGroups } from '../../src/rpc/groups.ts'
import { listOffsets } from '../../src/rpc/partition-offsets.ts'
import { type FakeBroker, everyApi, story } from './fake-broker.ts'

const topicId = 'aaaaaaaaaaaaaaaaaaaaaA'

/** Answers for the partitions it leads, with an offset that says where it came from. */
function leads(broker: FakeBroker, leaders: readonly number[]): void {
  broker.topics.set('t', { id: topicId, leaders: [...leaders], epoch: 1 })
  broker.on(ListOffsets, ({ body: { topics } }) => ({
    topics: topics.map(({ name, partitions }) => ({
      name,
      partitions: partitions.map(({ partitionIndex, timestamp }) => ({
        partitionIndex,
        errorCode: broker.topics.get('t')?.leaders[partitionIndex] === broker.id ? 0 : 6,
        offset: broker.id * 1000 + partitionIndex,
        timestamp
      }))
    }))
  }))
}

test('offsets are asked of each leader, a partition twice when asked twice, in the order asked', async () => {
  await story(3, {}, async (world, cluster) => {
    for (const broker of world.brokers) leads(broker, [0, 1, 2, 1])
    const queries = [3, 0, 1, 2, 3, 9].map(partition => ({ topic: 't', partition, timestamp: -1 }))
    const outcomes = await listOffsets(cluster, queries)
    assert.deepEqual(
      outcomes.map(o => o.value?.offset ?? o.error?.code),
      [1003, 0, 1001, 2002, 1003, 'UNKNOWN_PARTITION']
    )
    const asked = world.brokers[1]?.requests(ListOffsets) ?? []
    assert.deepEqual(
      asked.map(({ body }) => body.topics[0]?.partitions.map(p => p.partitionIndex)),
      [[3, 1], [3]]
    )
  })
})

test('only what failed in passing is asked again, at the new leader', async () => {
  await story(2, {}, async (world, cluster) => {
    const [first, second] = world.brokers
    assert(first && second)
    for (const broker of world.brokers) leads(broker, [0, 0])
    await cluster.topic('t')
    for (const broker of world.brokers) {
      broker.topics.set('t', { id: topicId, leaders: [0, 1], epoch: 2 })
    }
    const queries = [0, 1].map(partition => ({ topic: 't', partition, timestamp: 7 }))
    const outcomes = await listOffsets(cluster, queries)
    assert.deepEqual(
      outcomes.map(o => o.value?.offset),
      [0, 1001]
    )
    assert.deepEqual(
      first.requests(ListOffsets).map(({ body }) => body.topics[0]?.partitions.length),
      [2]
    )
  })
})

test('an error that does not pass is an outcome; one that never ends is one at the deadline', async () => {
  await story(1, {}, async (world, cluster) => {
    const [broker] = world.brokers
    assert(broker)
    leads(broker, [0, 0])
    broker.on(ListOffsets, ({ body: { topics } }) => ({
      topics: topics.map(({ name, partitions }) => ({
        name,
        partitions: partitions.map(({ partitionIndex }) => ({
          partitionIndex,
          errorCode: partitionIndex === 0 ? 29 : 78
        }))
      }))
    }))
    const queries = [0, 1].map(partition => ({ topic: 't', partition, timestamp: -1 }))
    const [denied, unavailable] = await listOffsets(cluster, queries, { timeoutMs: 5_000 })
    assert.equal(denied?.error?.code, 'AUTHORIZATION_FAILED')
    assert.equal(unavailable?.error?.kafkaError, 'OFFSET_NOT_AVAILABLE')
    assert(world.clock.monotonic() < 6_000)
    const count = broker.requests(ListOffsets).length
    assert(count > 4 && count < 20, `${count} requests in 5 s`)
  })
})

test('groups are asked of their coordinators, and again where they have moved', async () => {
  await story(2, {}, async (world, cluster) => {
    for (const broker of world.brokers) {
      broker.on(DescribeGroups, ({ body: { groups } }) => ({
        groups: groups.map(groupId => ({
          errorCode: broker.id === 1 ? 0 : 16,
          groupId,
          groupState: 'Stable',
          protocolType: 'consumer',
          protocolData: '',
          members: []
        }))
      }))
    }
    const described = describeClassicGroups(cluster, ['a', 'b', '__proto__'])
    // They move once the first broker has said that it isn't the coordinator.
    world.clock.after(20, () => {
      for (const broker of world.brokers) broker.coordinator = 1
    })
    assert.deepEqual(
      (await described).map(o => o.value?.groupId),
      ['a', 'b', '__proto__']
    )
  })
})

test('offsets of several groups are one request, or many for a broker that takes one at a time', async () => {
  for (const maxVersion of [9, 7]) {
    await story(1, {}, async (world, cluster) => {
      const [broker] = world.brokers
      assert(broker)
      broker.on(ApiVersions, () => ({
        errorCode: 0,
        apiKeys: everyApi.map(api =>
          api.apiKey === OffsetFetch.key ? { ...api, maxVersion } : api
        )
      }))
      const topics = (group: string) => {
        const offset = { partitionIndex: 0, committedOffset: group.length, metadata: group }
        return [{ name: 't', partitions: [{ ...offset, errorCode: 0 }] }]
      }
      broker.on(OffsetFetch, ({ body, version }) =>
        version >= 8
          ? { groups: body.groups.map(g => ({ groupId: g.groupId, topics: topics(g.groupId) })) }
          : { topics: topics(body.groupId) }
      )
      const outcomes = await fetchOffsets(cluster, [{ group: 'a' }, { group: 'bcd' }])
      assert.deepEqual(
        outcomes.map(o => o.value?.map(c => [c.offset, c.metadata])),
        [[[1, 'a']], [[3, 'bcd']]]
      )
      assert.equal(broker.requests(OffsetFetch).length, maxVersion >= 8 ? 1 : 2)
    })
  }
})

test('all brokers list their groups; one that cannot be asked is named, the others count', async () => {
  await story(3, {}, async (world, cluster) => {
    for (const broker of world.brokers) {
      const groupId = `of-${broker.id}`
      const group = {
        groupId,
        protocolType: 'consumer',
        groupState: 'Stable',
        groupType: 'classic'
      }
      broker.on(ListGroups, () => ({ errorCode: 0, groups: [group] }))
    }
    await world.brokers[2]?.die()
    const { groups, failed } = await listGroups(cluster, { timeoutMs: 5_000 })
    assert.deepEqual(
      groups.map(g => [g.group, g.coordinator]),
      [
        ['of-0', 0],
        ['of-1', 1]
      ]
    )
    assert.deepEqual([...failed.keys()], [2])
    assert.equal(failed.get(2)?.code, 'CONNECTION_FAILED')
  })
})
