/** CreatePartitions: a topic grows; its partitions never become fewer. */
import { Changes } from '../../base/store.ts'
import { CreatePartitions } from '../../protocol/api/create-partitions.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { RequestRead } from '../../protocol/schema.ts'
import type { Topic } from '../catalog.ts'
import type { BrokerCluster } from '../cluster.ts'
import { handler } from '../handler.ts'
import { partitionCount } from '../limits.ts'

type Asked = RequestRead<typeof CreatePartitions>['topics'][number]
type Fault = readonly [code: number, message: string | null]

export const handleCreatePartitions = handler({
  api: CreatePartitions,
  async handle(request, { cluster }) {
    const changes = new Changes()
    const names = request.topics.map(({ name }) => name)
    const results = request.topics.map(asked => {
      const twice = names.indexOf(asked.name) !== names.lastIndexOf(asked.name)
      const [errorCode, errorMessage] = twice
        ? ([KafkaError.INVALID_REQUEST, 'Duplicate topic name.'] as const)
        : grow(asked, request.validateOnly, cluster, changes)
      return { name: asked.name, errorCode, errorMessage }
    })
    await cluster.store.commit(changes)
    return { throttleTimeMs: 0, results }
  }
})

function grow(
  asked: Asked,
  validateOnly: boolean,
  cluster: BrokerCluster,
  changes: Changes
): Fault {
  const topic = cluster.catalog.topic(asked.name)
  if (topic === undefined) {
    return [
      KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
      'This server does not host this topic-partition.'
    ]
  }
  const fault = countFault(asked.count, topic) ?? assignmentFault(asked, topic, cluster)
  if (fault !== undefined) return fault
  const { length } = topic.partitions
  const assignment =
    asked.assignments?.map(({ brokerIds }) => brokerIds) ??
    cluster.assign(asked.count - length, topic.replicationFactor, length)
  if (!validateOnly) cluster.catalog.grow(topic, assignment, changes)
  return [KafkaError.NONE, null]
}

function countFault(count: number, { partitions: { length } }: Topic): Fault | undefined {
  if (count > length && count <= partitionCount) return undefined
  const message =
    count === length
      ? `Topic already has ${length} partition(s).`
      : `The topic has ${length} partition(s), and ${count} was asked for: from there up to ${partitionCount} is possible.`
  return [KafkaError.INVALID_PARTITIONS, message]
}

function assignmentFault(
  { count, assignments }: Asked,
  topic: Topic,
  { nodes }: BrokerCluster
): Fault | undefined {
  if (assignments === null) return undefined
  const fits = assignments.every(
    ({ brokerIds }) =>
      brokerIds.length === topic.replicationFactor &&
      new Set(brokerIds).size === brokerIds.length &&
      brokerIds.every(id => nodes.has(id))
  )
  if (fits && assignments.length === count - topic.partitions.length) return undefined
  const message = `An assignment names ${topic.replicationFactor} different known brokers for each new partition.`
  return [KafkaError.INVALID_REPLICA_ASSIGNMENT, message]
}
