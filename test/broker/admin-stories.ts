/** Stories of what tools ask a cluster, told to any broker: ours and Kafka's answer alike. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AlterConfigs } from '../../src/protocol/api/alter-configs.ts'
import { DescribeCluster } from '../../src/protocol/api/describe-cluster.ts'
import { DescribeConfigs } from '../../src/protocol/api/describe-configs.ts'
import { DescribeLogDirs } from '../../src/protocol/api/describe-log-dirs.ts'
import { DescribeProducers } from '../../src/protocol/api/describe-producers.ts'
import { DescribeTopicPartitions } from '../../src/protocol/api/describe-topic-partitions.ts'
import { Fetch } from '../../src/protocol/api/fetch.ts'
import { InitProducerId } from '../../src/protocol/api/init-producer-id.ts'
import { ListTransactions } from '../../src/protocol/api/list-transactions.ts'
import { KafkaError, kafkaErrorName } from '../../src/protocol/errors.ts'
import { type Site, Transaction, coordinated, ledTopic, unique, withWire } from './group-wire.ts'
import { type Wire, batchOf, recordsOf } from './wire.ts'

type Story = (wire: Wire, topic: string) => Promise<void>

export function adminStories(site: () => Site): void {
  const story = (name: string, run: Story): void => {
    test(name, () => withWire(site(), wire => run(wire, unique('topic'))))
  }

  story('a cluster has an id, a controller, and brokers where one reaches them', async wire => {
    for (const version of [0, 1, 2]) {
      const found = await wire.ask(DescribeCluster, version, {
        includeClusterAuthorizedOperations: false
      })
      assert.equal(found.errorCode, 0)
      assert.match(found.clusterId, /^[\w-]{22}$/)
      const { bootstrap } = site()
      assert(found.brokers.some(({ host, port }) => `${host}:${port}` === bootstrap))
      assert(found.brokers.some(({ brokerId }) => brokerId === found.controllerId))
      assert.equal(found.clusterAuthorizedOperations, -(2 ** 31))
    }
    const other = { includeClusterAuthorizedOperations: false, endpointType: 2 }
    const { errorCode } = await wire.ask(DescribeCluster, 1, other)
    assert.equal(kafkaErrorName(errorCode), 'MISMATCHED_ENDPOINT_TYPE')
  })

  story('topics are described page by page', async (wire, topic) => {
    const names = [`${topic}-a`, `${topic}-b`]
    for (const name of names) await ledTopic(wire, name, 3)
    const topics = [...names, `${topic}-none`].toReversed().map(name => ({ name }))
    const seen: string[] = []
    let cursor: { topicName: string; partitionIndex: number } | null = null
    do {
      const page: Awaited<ReturnType<typeof ask>> = await ask(cursor)
      seen.push(page.topics.map(described).join(' '))
      cursor = page.nextCursor
    } while (cursor !== null)
    const [a, b] = names
    assert.deepEqual(
      seen,
      [`${a}:0,1`, `${a}:2 ${b}:0`, `${b}:1,2`, `${topic}-none!`]
        .slice(0, seen.length - 1)
        .concat(seen.at(-1) ?? '')
    )
    assert(seen.join(' ').endsWith(`${topic}-none!`))

    function ask(from: typeof cursor) {
      return wire.ask(DescribeTopicPartitions, 0, {
        topics,
        responsePartitionLimit: 2,
        cursor: from
      })
    }
  })

  story(
    'AlterConfigs sets what it names, and what it does not name is as by default',
    async (wire, topic) => {
      await ledTopic(wire, topic, 1)
      const alter = async (configs: Readonly<Record<string, string>>, validateOnly = false) => {
        const all = Object.entries(configs).map(([name, value]) => ({ name, value }))
        const resources = [{ resourceType: 2, resourceName: topic, configs: all }]
        const { responses } = await wire.ask(AlterConfigs, 2, { resources, validateOnly })
        return kafkaErrorName(responses[0]?.errorCode ?? -1)
      }
      const own = async () => {
        const resources = [{ resourceType: 2, resourceName: topic, configurationKeys: null }]
        const { results } = await wire.ask(DescribeConfigs, 4, { resources })
        const configs = results[0]?.configs ?? []
        const dynamic = configs.filter(({ configSource }) => configSource === 1)
        return dynamic.map(({ name, value }) => `${name}=${value}`).toSorted()
      }
      const becomes = async (...expected: string[]) => {
        while (JSON.stringify(await own()) !== JSON.stringify(expected)) await undefined
      }
      assert.equal(await alter({ 'retention.ms': '1000', 'max.message.bytes': '5000' }), 'NONE')
      await becomes('max.message.bytes=5000', 'retention.ms=1000')
      assert.equal(await alter({ 'retention.ms': '1' }, true), 'NONE')
      assert.equal(await alter({ 'retention.ms': 'soon' }), 'INVALID_CONFIG')
      assert.equal(await alter({ 'no.such.thing': '1' }), 'INVALID_CONFIG')
      assert.equal(await alter({ 'max.message.bytes': '6000' }), 'NONE')
      await becomes('max.message.bytes=6000')
    }
  )

  story('a partition takes the bytes of its batches in a directory', async (wire, topic) => {
    await ledTopic(wire, topic, 2)
    const batch = batchOf(['x'.repeat(1000)])
    await wire.produce(topic, 1, batch)
    const body = { topics: [{ topic, partitions: [0, 1] }] }
    const { results, errorCode } = await wire.ask(DescribeLogDirs, 4, body)
    assert.equal(errorCode, 0)
    const sizes = results.flatMap(({ topics }) => topics.flatMap(found => found.partitions))
    assert.deepEqual(
      sizes
        .toSorted((a, b) => a.partitionIndex - b.partitionIndex)
        .map(one => [one.partitionIndex, one.partitionSize, one.offsetLag, one.isFutureKey]),
      [
        [0, 0, 0, false],
        [1, batch.length, 0, false]
      ]
    )
  })

  story(
    'who writes to a partition is described, and since which offset a transaction is open',
    async (wire, topic) => {
      await ledTopic(wire, topic, 1)
      const describe = async () => {
        const asked = [{ name: topic, partitionIndexes: [0, 7] }]
        const { topics } = await wire.ask(DescribeProducers, 0, { topics: asked })
        const [first, none] =
          topics[0]?.partitions.toSorted((a, b) => a.partitionIndex - b.partitionIndex) ?? []
        assert.equal(kafkaErrorName(none?.errorCode ?? 0), 'UNKNOWN_TOPIC_OR_PARTITION')
        return first?.activeProducers.map(one => [
          one.producerId,
          one.producerEpoch,
          one.lastSequence,
          one.lastTimestamp,
          one.currentTxnStartOffset
        ])
      }
      assert.deepEqual(await describe(), [])
      await wire.produce(topic, 0, batchOf(['before']))
      const plain = { transactionalId: null, transactionTimeoutMs: 0 }
      const { producerId, producerEpoch } = await wire.ask(InitProducerId, 4, plain)
      const header = { producerId, producerEpoch, baseSequence: 0 }
      await wire.produce(topic, 0, batchOf(['a', 'b', 'c'], header))
      assert.deepEqual(await describe(), [[producerId, 0, 2, 1000, -1]])
    }
  )

  story('open transactions are listed by state, producer, age and name', async (wire, topic) => {
    await ledTopic(wire, topic, 1)
    const transaction = new Transaction(wire)
    const group = unique('group')
    await coordinated(wire, group)
    await coordinated(wire, transaction.id, 'transaction')
    assert.equal(await transaction.commit(group, topic, { 0: 1 }), 'NONE')
    const list = async (filter: object) => {
      const body = { stateFilters: [], producerIdFilters: [transaction.producerId], ...filter }
      const found = await wire.ask(ListTransactions, 2, body)
      const states = found.transactionStates.map(
        one => `${one.transactionState} ${one.transactionalId}`
      )
      return [kafkaErrorName(found.errorCode), ...found.unknownStateFilters, ...states]
    }
    const open = `Ongoing ${transaction.id}`
    assert.deepEqual(await list({}), ['NONE', open])
    assert.deepEqual(await list({ stateFilters: ['Ongoing', 'Strange'] }), [
      'NONE',
      'Strange',
      open
    ])
    assert.deepEqual(await list({ stateFilters: ['Empty'] }), ['NONE'])
    assert.deepEqual(await list({ producerIdFilters: [-7n] }), ['NONE'])
    assert.deepEqual(await list({ durationFilter: 100_000 }), ['NONE'])
    assert.deepEqual(await list({ transactionalIdPattern: `${transaction.id}.*` }), ['NONE', open])
    assert.deepEqual(await list({ transactionalIdPattern: 'nobody.*' }), ['NONE'])
    assert.deepEqual(await list({ transactionalIdPattern: '(' }), ['INVALID_REGULAR_EXPRESSION'])
    await transaction.end(false)
  })

  story('an offset is found by its time, or by what it is: -1 to -5', async (wire, topic) => {
    await ledTopic(wire, topic, 1)
    const records = [
      { value: 'a', timestamp: 1000 },
      { value: 'b', timestamp: 3000 },
      { value: 'c', timestamp: 2000 }
    ]
    for (const record of records) await wire.produce(topic, 0, batchOf([record]))
    const found: unknown[] = []
    for (const time of [-1, -2, -3, -4, -5, 0, 1500, 3000, 3001]) {
      const { offset, timestamp, errorCode } = await wire.offset(topic, 0, time)
      found.push([time, offset, timestamp, kafkaErrorName(errorCode)])
    }
    assert.deepEqual(found, [
      [-1, 3, -1, 'NONE'],
      [-2, 0, -1, 'NONE'],
      [-3, 1, 3000, 'NONE'],
      [-4, 0, -1, 'NONE'],
      [-5, -1, -1, 'NONE'],
      [0, 0, 1000, 'NONE'],
      [1500, 1, 3000, 'NONE'],
      [3000, 1, 3000, 'NONE'],
      [3001, -1, -1, 'NONE']
    ])
  })

  story('a fetch session tells what changed, and knows when it is lost', async (wire, topic) => {
    const topicId = await ledTopic(wire, topic, 2)
    await wire.produce(topic, 0, batchOf(['a']))
    const ask = async (
      sessionId: number,
      sessionEpoch: number,
      offsets: Readonly<Record<number, number>>
    ) => {
      const partitions = Object.entries(offsets).map(([partition, fetchOffset]) => ({
        partition: Number(partition),
        fetchOffset,
        partitionMaxBytes: 1e6
      }))
      const topics = partitions.length === 0 ? [] : [{ topicId, partitions }]
      const limits = { maxWaitMs: 0, minBytes: 0, maxBytes: 1e7, isolationLevel: 0 }
      const found = await wire.ask(Fetch, 16, { ...limits, sessionId, sessionEpoch, topics })
      const told = found.responses.flatMap(one =>
        one.partitions.map(p => `${p.partitionIndex}: ${recordsOf(p.records).join(' ')}`)
      )
      return { id: found.sessionId, error: kafkaErrorName(found.errorCode), told: told.toSorted() }
    }
    const first = await ask(0, 0, { 0: 0, 1: 0 })
    assert(first.id > 0)
    assert.deepEqual(first.told, ['0: 0:a', '1: '])
    assert.deepEqual((await ask(first.id, 1, { 0: 1 })).told, [])
    await wire.produce(topic, 1, batchOf(['b']))
    assert.deepEqual((await ask(first.id, 2, {})).told, ['1: 0:b'])
    assert.equal((await ask(first.id, 7, {})).error, 'INVALID_FETCH_SESSION_EPOCH')
    assert.equal((await ask(first.id + 1, 3, {})).error, 'FETCH_SESSION_ID_NOT_FOUND')
    // It ends, and is gone.
    assert.equal((await ask(first.id, -1, { 0: 1 })).id, 0)
    assert.equal((await ask(first.id, 3, {})).error, 'FETCH_SESSION_ID_NOT_FOUND')
  })
}

function described(topic: {
  readonly name: string | null
  readonly errorCode: number
  readonly partitions: readonly { readonly partitionIndex: number }[]
}): string {
  if (topic.errorCode === KafkaError.UNKNOWN_TOPIC_OR_PARTITION) return `${topic.name}!`
  return `${topic.name}:${topic.partitions.map(p => p.partitionIndex).join(',')}`
}
