/** The low-level RPC API against a real Kafka: addressing, lanes, failures, SASL. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nodeEnv } from '../../src/base/node/env.ts'
import { PlayheadError } from '../../src/base/error.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { Fetch } from '../../src/protocol/api/fetch.ts'
import { Heartbeat } from '../../src/protocol/api/heartbeat.ts'
import { ListGroups } from '../../src/protocol/api/list-groups.ts'
import { OffsetCommit } from '../../src/protocol/api/offset-commit.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { answerError } from '../../src/rpc/answer-errors.ts'
import { Cluster } from '../../src/rpc/cluster.ts'
import {
  describeClassicGroups,
  describeConsumerGroups,
  fetchOffsets,
  listGroups
} from '../../src/rpc/groups.ts'
import type { ClusterOptions } from '../../src/rpc/options.ts'
import { listOffsets } from '../../src/rpc/partition-offsets.ts'
import { Again } from '../../src/rpc/retry.ts'
import { kafka } from './cluster.ts'

function connect(options: Partial<ClusterOptions> = {}): Cluster {
  return new Cluster(nodeEnv(), { bootstrap: kafka.bootstrap, ...options })
}

async function createTopic(cluster: Cluster, partitions: number): Promise<string> {
  const name = kafka.uniqueName('rpc')
  const topic = { name, numPartitions: partitions, replicationFactor: 1 }
  const body = { topics: [{ ...topic, assignments: [], configs: [] }], timeoutMs: 10_000 }
  const answer = await cluster.request(CreateTopics, body)
  assert.equal(answer.topics[0]?.errorCode, 0)
  return name
}

/** Heartbeats of a member that the group does not know; the answer shows that its coordinator was asked. */
async function strangeBeat(cluster: Cluster, group: string, timeoutMs?: number): Promise<number> {
  const body = { groupId: group, generationId: 1, memberId: 'nobody' }
  return await cluster.retrying({ timeoutMs: timeoutMs ?? 30_000 }, async () => {
    const { errorCode } = await cluster.request(Heartbeat, body, { to: { group } })
    const passing = [
      KafkaError.NOT_COORDINATOR,
      KafkaError.COORDINATOR_NOT_AVAILABLE,
      KafkaError.COORDINATOR_LOAD_IN_PROGRESS
    ] as readonly number[]
    return passing.includes(errorCode) ? new Again(answerError(errorCode, 'beat')) : errorCode
  })
}

test('leaders, coordinators, the controller and single brokers are found', async () => {
  await using cluster = connect()
  const topic = await createTopic(cluster, 3)
  const { partitions, topicId } = await cluster.topic(topic)
  assert.equal(partitions.length, 3)
  assert.equal(topicId.length, 22)
  const node = partitions[0]?.leader ?? -1
  const { groups } = await cluster.request(ListGroups, {}, { to: { node } })
  assert(Array.isArray(groups))
  const code = await strangeBeat(cluster, kafka.uniqueName('group'))
  assert.equal(code, KafkaError.UNKNOWN_MEMBER_ID)
  assert.equal(await cluster.supports(Heartbeat, 4), true)
})

test('a fetch that waits ten seconds at the broker holds up no heartbeat', async () => {
  await using cluster = connect()
  const topic = await createTopic(cluster, 1)
  const group = kafka.uniqueName('group')
  await strangeBeat(cluster, group)
  const { topicId, partitions } = await cluster.topic(topic)
  const node = partitions[0]?.leader ?? -1
  const fetch = cluster.send(
    Fetch,
    {
      maxWaitMs: 10_000,
      minBytes: 1,
      topics: [
        { topicId, partitions: [{ partition: 0, fetchOffset: 0, partitionMaxBytes: 1024 }] }
      ],
      forgottenTopicsData: []
    },
    { to: { node }, minVersion: 13 }
  )
  await fetch.written
  const before = performance.now()
  for (let i = 0; i < 5; i++) await strangeBeat(cluster, group, 5_000)
  assert(performance.now() - before < 5_000)
  fetch.cancel()
})

test('offsets of partitions and of groups come from wherever they are, each with its own outcome', async () => {
  await using cluster = connect()
  const topic = await createTopic(cluster, 2)
  const group = kafka.uniqueName('group')
  const ask = (partition: number, timestamp: number) => ({ topic, partition, timestamp })
  const [end, start, none] = await listOffsets(cluster, [ask(0, -1), ask(0, -2), ask(7, -1)])
  assert.deepEqual([end?.value?.offset, start?.value?.offset], [0, 0])
  assert.equal(none?.error?.code, 'UNKNOWN_PARTITION')

  await strangeBeat(cluster, group)
  const partitions = [
    { partitionIndex: 1, committedOffset: 42, committedLeaderEpoch: -1, committedMetadata: 'm' }
  ]
  const commit = {
    groupId: group,
    generationIdOrMemberEpoch: -1,
    memberId: '',
    topics: [{ name: topic, partitions }]
  }
  const committed = await cluster.request(OffsetCommit, commit, { to: { group }, maxVersion: 9 })
  assert.equal(committed.topics[0]?.partitions[0]?.errorCode, 0)
  const [all, some, unknown] = await fetchOffsets(cluster, [
    { group },
    { group, partitions: [{ topic, partition: 0 }] },
    { group: kafka.uniqueName('unknown') }
  ])
  const brief = (offsets: typeof all) =>
    offsets?.value?.map(o => [o.topic, o.partition, o.offset, o.metadata])
  assert.deepEqual(brief(all), [[topic, 1, 42, 'm']])
  assert.deepEqual(brief(some), [[topic, 0, -1, '']])
  assert.deepEqual(brief(unknown), [])

  const listed = await listGroups(cluster)
  assert(listed.groups.some(g => g.group === group && g.state === 'Empty'))
  assert.equal(listed.failed.size, 0)
  const [described] = await describeClassicGroups(cluster, [group])
  assert.equal(described?.value?.groupState, 'Empty')
  const [modern] = await describeConsumerGroups(cluster, [group])
  assert.equal(modern?.error?.code, 'UNKNOWN_GROUP')
})

test('a broker that is killed, started again, stopped in time and resumed is found again', async () => {
  await using own = await kafka.startOwn()
  await using cluster = connect({ bootstrap: own.bootstrap, requestTimeoutMs: 60_000 })
  const ask = (timeoutMs = 60_000) =>
    cluster.send(ListGroups, {}, { to: { node: cluster.metadata.controller }, timeoutMs }).response
  await cluster.refresh()
  const first = await ask()
  await own.kill(0)
  await assert.rejects(ask(), error => {
    assert(error instanceof PlayheadError)
    return error.code === 'CONNECTION_FAILED' || error.code === 'CONNECTION_LOST'
  })
  await own.start(0)
  const listening = performance.now()
  await cluster.refresh()
  const second = await ask()
  // Back-off is at most 2 s; then the broker itself needs a moment.
  assert(performance.now() - listening < 20_000)
  assert.notEqual(second.connection, first.connection)

  await own.pause(0)
  await assert.rejects(ask(4_000), { code: 'TIMED_OUT', retriable: false })
  await own.resume(0)
  const third = await ask()
  assert.notEqual(third.connection, second.connection, 'a silent connection is given up')
})

test('SASL: right passwords are taken, wrong ones refused, sessions renewed in place', async () => {
  await using own = await kafka.startOwn({
    sasl: true,
    extra: { 'connections.max.reauth.ms': '2000' }
  })
  for (const mechanism of ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'] as const) {
    const login = (password: string) => {
      const sasl = { mechanism, username: 'alice', password, allowPlaintext: true } as const
      return connect({ bootstrap: own.saslBootstrap, sasl })
    }
    await using wrong = login('not-alice-secret')
    await assert.rejects(wrong.refresh(), { code: 'AUTHENTICATION_FAILED', retriable: false })
    await using right = login('alice-secret')
    const { brokers } = await right.refresh()
    assert.equal(brokers.size, 1)
    const node = [...brokers.keys()][0] ?? -1
    const connections = new Set<number>()
    // One mechanism shows it; it costs seconds.
    const until = performance.now() + (mechanism === 'SCRAM-SHA-256' ? 5_000 : 100)
    while (performance.now() < until) {
      const { connection } = await right.send(ListGroups, {}, { to: { node } }).response
      connections.add(connection)
    }
    assert.equal(connections.size, 1, 'two sessions have ended, and the connection has not')
  }
})
