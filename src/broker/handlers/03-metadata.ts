/** Metadata: brokers, topics, leaders. May create the topics that are asked for by name. */
import { Metadata } from '../../protocol/api/metadata.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { RequestRead, ResponseWritten } from '../../protocol/schema.ts'
import { Changes } from '../../base/store.ts'
import { clusterOperations, noTopicId, topicOperations } from '../answers.ts'
import { type Topic, topicNameFault } from '../catalog.ts'
import type { BrokerCluster } from '../cluster.ts'
import { type Context, handler } from '../handler.ts'
import type { Partition } from '../partition.ts'

type Request = RequestRead<typeof Metadata>
type Asked = NonNullable<Request['topics']>[number]
type TopicResponse = ResponseWritten<typeof Metadata>['topics'][number]

export const handleMetadata = handler({
  api: Metadata,
  async handle(request, context) {
    const { cluster } = context
    const changes = new Changes()
    const topics = answers(request, context, changes)
    if (!changes.empty) await cluster.store.commit(changes)
    const up = [...cluster.nodes.values()].filter(node => node.up)
    return {
      brokers: up.map(({ id, host, port }) => ({ nodeId: id, host, port })),
      clusterId: cluster.clusterId,
      controllerId: cluster.controllerId,
      topics,
      ...(request.includeClusterAuthorizedOperations && {
        clusterAuthorizedOperations: clusterOperations
      })
    }
  }
})

function answers(request: Request, context: Context, changes: Changes): TopicResponse[] {
  const { version, cluster } = context
  const all = request.topics === null || (version === 0 && request.topics.length === 0)
  const operations = request.includeTopicAuthorizedOperations
  if (all) return [...cluster.catalog.topics.values()].map(t => describe(t, cluster, operations))
  return (request.topics ?? []).map(asked => {
    const topic = find(asked, request, context, changes)
    if (typeof topic !== 'number') return describe(topic, cluster, operations)
    const name = asked.name ?? (version >= 12 ? null : '')
    return { errorCode: topic, name, topicId: asked.topicId, partitions: [] }
  })
}

/** The topic, maybe a new one, or an error code. */
function find(
  { name, topicId }: Asked,
  request: Request,
  { version, cluster }: Context,
  changes: Changes
): Topic | number {
  const { catalog, settings } = cluster
  if (topicId !== noTopicId && version >= 10) {
    return catalog.topicById(topicId) ?? KafkaError.UNKNOWN_TOPIC_ID
  }
  if (name === null) return KafkaError.INVALID_REQUEST
  const known = catalog.topic(name)
  if (known !== undefined) return known
  if (topicNameFault(name) !== undefined) return KafkaError.INVALID_TOPIC_EXCEPTION
  if (!settings.autoCreateTopics || (version >= 4 && !request.allowAutoTopicCreation)) {
    return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
  }
  const replicationFactor = cluster.defaultReplicationFactor
  const assignment = cluster.assign(settings.defaultPartitions, replicationFactor)
  return catalog.create({ name, assignment, replicationFactor, configs: new Map() }, changes)
}

function describe(topic: Topic, cluster: BrokerCluster, operations: boolean): TopicResponse {
  return {
    errorCode: KafkaError.NONE,
    name: topic.name,
    topicId: topic.id,
    partitions: topic.partitions.map(partition => describePartition(partition, cluster)),
    ...(operations && { topicAuthorizedOperations: topicOperations })
  }
}

export function describePartition(partition: Partition, { nodes }: BrokerCluster) {
  const { index, leader, leaderEpoch, replicas } = partition
  const up = replicas.filter(id => nodes.get(id)?.up)
  return {
    errorCode: leader < 0 ? KafkaError.LEADER_NOT_AVAILABLE : KafkaError.NONE,
    partitionIndex: index,
    leaderId: leader,
    leaderEpoch,
    replicaNodes: replicas,
    isrNodes: up,
    offlineReplicas: replicas.filter(id => !up.includes(id))
  }
}
