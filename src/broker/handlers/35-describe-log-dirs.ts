/** DescribeLogDirs: how large each partition is. One directory stands for the store, whatever is behind it. */
import { DescribeLogDirs } from '../../protocol/api/describe-log-dirs.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { Topic } from '../catalog.ts'
import { handler } from '../handler.ts'

/** No path of this machine is told to clients. */
const logDir = '/playhead'

export const handleDescribeLogDirs = handler({
  api: DescribeLogDirs,
  handle(request, { cluster, node }) {
    const wanted = request.topics && new Map(request.topics.map(t => [t.topic, t.partitions]))
    const topics = [...cluster.catalog.topics.values()]
      .filter(({ name }) => wanted?.has(name) ?? true)
      .map(topic => ({ name: topic.name, partitions: sizes(topic, node, wanted?.get(topic.name)) }))
      .filter(({ partitions }) => partitions.length > 0)
    const results = [{ errorCode: KafkaError.NONE, logDir, topics }]
    return { throttleTimeMs: 0, errorCode: KafkaError.NONE, results }
  }
})

function sizes({ partitions }: Topic, node: number, indexes: readonly number[] | undefined) {
  return partitions
    .filter(({ index, replicas }) => replicas.includes(node) && (indexes?.includes(index) ?? true))
    .map(({ index, log }) => ({
      partitionIndex: index,
      partitionSize: log.sizeBytes,
      offsetLag: 0,
      isFutureKey: false
    }))
}
