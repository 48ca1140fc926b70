/** Admin against a real Kafka, checked by Kafka's own tools. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Playhead, PlayheadError } from '../../src/index.ts'
import { kafka } from './cluster.ts'
import { fill } from './rewind/team.ts'

const client = new Playhead({ bootstrap: kafka.bootstrap, clientId: 'admin-test' })
const admin = client.admin()
after(() => client.close())

test('topics are created, grown, described and deleted, and Kafka agrees', async () => {
  const topic = kafka.uniqueName('admin')
  await admin.createTopics([{ topic, partitions: 2, configs: { 'retention.ms': '1234567' } }])
  await assert.rejects(admin.createTopics([{ topic }]), { code: 'TOPIC_EXISTS' })
  await admin.addPartitions(topic, 3)
  const described = await kafka.tool('topics', '--describe', '--topic', topic)
  assert.match(described, /PartitionCount: 3/)
  const [found] = await admin.describeTopics([topic])
  assert.equal(found?.partitions.length, 3)
  assert.ok(described.includes(found?.topicId ?? 'none'))
  const configs = await admin.describeConfigs({ topic }, { names: ['retention.ms'] })
  assert.deepEqual(configs, [
    { name: 'retention.ms', value: '1234567', own: true, readOnly: false }
  ])
  await admin.deleteTopics([topic])
  // The controller has deleted it; the broker that is asked hears of it a moment later.
  let gone: unknown = null
  while (gone === null) {
    await admin.describeTopics([topic]).catch((error: unknown) => {
      gone = error
    })
  }
  assert(gone instanceof PlayheadError && gone.code === 'UNKNOWN_TOPIC')
})

test('the cluster and its APIs are described', async () => {
  const { brokers, clusterId } = await admin.describeCluster()
  assert.ok(brokers.length > 0 && clusterId !== null)
  const fetch = (await admin.apiVersions()).find(api => api.name === 'Fetch')
  assert.ok(fetch?.playhead && fetch.broker[1] >= fetch.playhead[0])
})

test("W11: a group without members is rewound at once, by a commit that Kafka's tools see", async () => {
  const topic = kafka.uniqueName('admin')
  const group = kafka.uniqueName('empty')
  await admin.createTopics([{ topic, partitions: 1 }])
  await fill(client, topic, 1, 100)
  await admin.rewind(await admin.planRewind(group, { create: true, topics: [topic], to: 'latest' }))
  const sum = async () => (await admin.offsets(group)).reduce((all, { offset }) => all + offset, 0)
  assert.equal(await sum(), 100)

  const plan = await admin.planRewind(group, { to: { shift: -10 } })
  assert.deepEqual(
    plan.partitions.map(({ again }) => again),
    [10]
  )
  assert.match(plan.warnings.join(), /no members: its offsets expire after 10080 minutes/)
  const result = await admin.rewind(plan, { reason: 'test', who: 'me' })
  assert.deepEqual(new Set(result.partitions.map(({ state }) => state)), new Set(['applied']))
  assert.equal(await sum(), 90)
  const told = await kafka.tool('consumer-groups', '--describe', '--group', group)
  const offsets = [...told.matchAll(new RegExp(`${topic} +\\d +(\\d+)`, 'g'))]
  assert.equal(
    offsets.reduce((all, [, offset]) => all + Number(offset), 0),
    90
  )
  const lag = await admin.lag(group)
  assert.equal(
    lag.reduce((all, partition) => all + (partition.lag ?? 0), 0),
    10
  )

  const [last] = await admin.rewinds(group)
  assert.deepEqual([last?.id, last?.who, last?.reason], [result.id, 'me', 'test'])
  await admin.undoRewind(group)
  assert.equal(await sum(), 100)
  await admin.deleteGroups([group])
  assert.deepEqual(await admin.rewinds(group), [])
})

test('a plan names a partition that is not there, and then nothing is planned', async () => {
  const topic = kafka.uniqueName('admin')
  const group = kafka.uniqueName('nothing')
  await admin.createTopics([{ topic, partitions: 1 }])
  const to = [0, 1].map(partition => ({ topic, partition, offset: 0 }))
  await assert.rejects(admin.planRewind(group, { create: true, to }), {
    code: 'UNKNOWN_PARTITION',
    partition: 1
  })
  await assert.rejects(admin.planRewind(group, { to: 'earliest' }), { code: 'UNKNOWN_GROUP' })
})

test('a reset by another tool after a rewind counts, and a rewind after that counts again', async () => {
  const topic = kafka.uniqueName('admin')
  const group = kafka.uniqueName('foreign')
  await admin.createTopics([{ topic, partitions: 1 }])
  await fill(client, topic, 1, 50)
  await admin.rewind(
    await admin.planRewind(group, { create: true, topics: [topic], to: { offset: 30 } })
  )
  const reset = ['--reset-offsets', '--execute', '--topic', topic, '--group', group]
  await kafka.tool('consumer-groups', ...reset, '--to-offset', '20')
  const committed = async () => (await admin.lag(group))[0]?.committed
  assert.equal(await committed(), 20)
  await admin.rewind(await admin.planRewind(group, { to: { shift: -5 } }))
  assert.equal(await committed(), 15)
})

test('skipping forward is refused unless it is allowed', async () => {
  const topic = kafka.uniqueName('admin')
  const group = kafka.uniqueName('skip')
  await admin.createTopics([{ topic, partitions: 1 }])
  await fill(client, topic, 1, 10)
  await admin.rewind(
    await admin.planRewind(group, { create: true, topics: [topic], to: 'earliest' })
  )
  const plan = await admin.planRewind(group, { to: 'latest' })
  await assert.rejects(admin.rewind(plan), { code: 'REWIND_REFUSED', message: /skip 10 offsets/ })
  await admin.rewind(plan, { allowSkip: true })
  assert.equal((await admin.lag(group))[0]?.lag, 0)
})
