/** CreateTopics: checks each topic on its own, creates those that pass, answers when they are stored. */
import { Changes } from '../../base/store.ts'
import { CreateTopics } from '../../protocol/api/create-topics.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { RequestRead, ResponseWritten } from '../../protocol/schema.ts'
import { topicNameFault } from '../catalog.ts'
import type { BrokerCluster } from '../cluster.ts'
import { handler } from '../handler.ts'
import { partitionCount } from '../limits.ts'
import { configFault, topicConfigs } from '../topic-configs.ts'

type Asked = RequestRead<typeof CreateTopics>['topics'][number]
type TopicResponse = ResponseWritten<typeof CreateTopics>['topics'][number]

export const handleCreateTopics = handler({
  api: CreateTopics,
  async handle(request, { cluster }) {
    const changes = new Changes()
    const named = new Map<string, number>()
    for (const { name } of request.topics) named.set(name, (named.get(name) ?? 0) + 1)
    const topics = request.topics.map(asked => {
      if ((named.get(asked.name) ?? 0) > 1) {
        return refused(asked, KafkaError.INVALID_REQUEST, 'Duplicate topic name.')
      }
      return answerFor(asked, request.validateOnly, cluster, changes)
    })
    await cluster.store.commit(changes)
    return { throttleTimeMs: 0, topics }
  }
})

function answerFor(
  asked: Asked,
  validateOnly: boolean,
  cluster: BrokerCluster,
  changes: Changes
): TopicResponse {
  const { name } = asked
  const [code, message] = fault(asked, cluster)
  if (code !== KafkaError.NONE) return refused(asked, code, message)
  const assignment = assignmentOf(asked, cluster)
  const replicationFactor = assignment[0]?.length ?? 1
  const configs = new Map(asked.configs.map(config => [config.name, config.value ?? '']))
  const order = { name, assignment, replicationFactor, configs }
  const topicId = validateOnly ? undefined : cluster.catalog.create(order, changes).id
  return {
    name,
    topicId,
    errorCode: KafkaError.NONE,
    errorMessage: null,
    numPartitions: assignment.length,
    replicationFactor,
    configs: [...topicConfigs].map(([key, config]) => ({
      name: key,
      value: configs.get(key) ?? config.default,
      readOnly: false,
      configSource: configs.has(key) ? 1 : 5,
      isSensitive: false
    }))
  }
}

function fault(asked: Asked, cluster: BrokerCluster): readonly [code: number, message: string] {
  const { name, numPartitions, replicationFactor, assignments } = asked
  const { catalog, nodes } = cluster
  const nameFault = topicNameFault(name)
  if (nameFault !== undefined) return [KafkaError.INVALID_TOPIC_EXCEPTION, nameFault]
  if (catalog.topic(name) !== undefined) {
    return [KafkaError.TOPIC_ALREADY_EXISTS, `Topic '${name}' already exists.`]
  }
  const twin = collision(name, catalog.topics.keys())
  if (twin !== undefined) {
    const message = `Topic '${name}' collides with existing topic: ${twin}`
    return [KafkaError.INVALID_TOPIC_EXCEPTION, message]
  }
  for (const config of asked.configs) {
    const wrong = configFault(config.name, config.value)
    if (wrong !== undefined) return [KafkaError.INVALID_CONFIG, wrong]
  }
  if (assignments.length > 0) return assignmentFault(asked, nodes)
  if (replicationFactor < -1 || replicationFactor === 0 || replicationFactor > nodes.size) {
    const message = `Unable to replicate the partition ${replicationFactor} time(s): there are ${nodes.size} brokers.`
    return [KafkaError.INVALID_REPLICATION_FACTOR, message]
  }
  if (numPartitions < -1 || numPartitions === 0 || numPartitions > partitionCount) {
    const message = `Number of partitions was set to an invalid value: from 1 to ${partitionCount} is possible.`
    return [KafkaError.INVALID_PARTITIONS, message]
  }
  return [KafkaError.NONE, '']
}

function assignmentFault(
  { numPartitions, replicationFactor, assignments }: Asked,
  nodes: ReadonlyMap<number, unknown>
): readonly [code: number, message: string] {
  if (numPartitions !== -1 || replicationFactor !== -1) {
    const message = 'With an assignment, the numbers of partitions and replicas must be -1.'
    return [KafkaError.INVALID_REQUEST, message]
  }
  const indexes = new Set(assignments.map(({ partitionIndex }) => partitionIndex))
  const inRow = assignments.every((_, index) => indexes.has(index))
  if (!inRow || indexes.size !== assignments.length || indexes.size > partitionCount) {
    const message = 'Partitions should be a consecutive 0-based integer sequence.'
    return [KafkaError.INVALID_REPLICA_ASSIGNMENT, message]
  }
  const sizes = new Set(assignments.map(({ brokerIds }) => brokerIds.length))
  const known = assignments.every(({ brokerIds }) => brokerIds.every(id => nodes.has(id)))
  const once = assignments.every(({ brokerIds }) => new Set(brokerIds).size === brokerIds.length)
  if (known && once && sizes.size === 1 && !sizes.has(0)) return [KafkaError.NONE, '']
  const message = 'Every partition has the same number of replicas, on different known brokers.'
  return [KafkaError.INVALID_REPLICA_ASSIGNMENT, message]
}

function assignmentOf(asked: Asked, cluster: BrokerCluster): (readonly number[])[] {
  if (asked.assignments.length > 0) {
    const byIndex = [...asked.assignments].sort((a, b) => a.partitionIndex - b.partitionIndex)
    return byIndex.map(({ brokerIds }) => brokerIds)
  }
  const { numPartitions, replicationFactor } = asked
  return cluster.assign(
    numPartitions === -1 ? cluster.settings.defaultPartitions : numPartitions,
    replicationFactor === -1 ? cluster.defaultReplicationFactor : replicationFactor
  )
}

/** Kafka makes metric names of topics, where '.' and '_' are the same. */
function collision(name: string, others: Iterable<string>): string | undefined {
  if (!/[._]/.test(name)) return undefined
  const plain = name.replaceAll('.', '_')
  for (const other of others) if (other.replaceAll('.', '_') === plain) return other
  return undefined
}

function refused({ name }: Asked, errorCode: number, errorMessage: string): TopicResponse {
  return { name, errorCode, errorMessage, configs: [] }
}
