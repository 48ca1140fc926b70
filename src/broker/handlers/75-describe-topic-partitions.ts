/** DescribeTopicPartitions: topics in the order of their names, page by page (KIP-966). */
import { DescribeTopicPartitions } from '../../protocol/api/describe-topic-partitions.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { ResponseWritten } from '../../protocol/schema.ts'
import { noTopicId, topicOperations } from '../answers.ts'
import { handler } from '../handler.ts'
import { describePartition } from './03-metadata.ts'

/** As Kafka's `max.request.partition.size.limit`. */
const pageSize = 2_000

type TopicResponse = ResponseWritten<typeof DescribeTopicPartitions>['topics'][number]

export const handleDescribeTopicPartitions = handler({
  api: DescribeTopicPartitions,
  handle({ topics: named, responsePartitionLimit, cursor }, { cluster }) {
    const { topics: known } = cluster.catalog
    const wanted = named.length > 0 ? named.map(({ name }) => name) : [...known.keys()]
    const names = [...new Set(wanted)].sort().filter(name => name >= (cursor?.topicName ?? ''))
    const topics: TopicResponse[] = []
    let left = Math.max(1, Math.min(responsePartitionLimit, pageSize))
    for (const name of names) {
      const first = name === cursor?.topicName ? Math.max(0, cursor.partitionIndex) : 0
      const topic = known.get(name)
      if (topic === undefined) {
        // A topic that went away between two pages is no error.
        if (name !== cursor?.topicName) topics.push(unknown(name))
        continue
      }
      if (left === 0) return page(topics, name, 0)
      const partitions = topic.partitions.slice(first, first + left)
      left -= partitions.length
      topics.push({
        errorCode: KafkaError.NONE,
        name,
        topicId: topic.id,
        partitions: partitions.map(partition => ({
          ...describePartition(partition, cluster),
          eligibleLeaderReplicas: [],
          lastKnownElr: []
        })),
        topicAuthorizedOperations: topicOperations
      })
      const next = first + partitions.length
      if (next < topic.partitions.length) return page(topics, name, next)
    }
    return { throttleTimeMs: 0, topics, nextCursor: null }
  }
})

function page(topics: TopicResponse[], topicName: string, partitionIndex: number) {
  return { throttleTimeMs: 0, topics, nextCursor: { topicName, partitionIndex } }
}

function unknown(name: string): TopicResponse {
  const errorCode = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
  return { errorCode, name, topicId: noTopicId, partitions: [] }
}
