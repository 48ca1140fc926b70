/** DeleteRecords: the start of a log moves forward; -1 moves it to the high watermark. */
import { Changes } from '../../base/store.ts'
import { DeleteRecords } from '../../protocol/api/delete-records.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { listOf } from '../topic-configs.ts'
import { type Context, handler } from '../handler.ts'

const toHighWatermark = -1

export const handleDeleteRecords = handler({
  api: DeleteRecords,
  async handle(request, context) {
    const changes = new Changes()
    const topics = request.topics.map(({ name, partitions }) => ({
      name,
      partitions: partitions.map(({ partitionIndex, offset }) => ({
        partitionIndex,
        ...cut(name, partitionIndex, offset, context, changes)
      }))
    }))
    await context.cluster.store.commit(changes)
    return { throttleTimeMs: 0, topics }
  }
})

function cut(name: string, index: number, wanted: number, context: Context, changes: Changes) {
  const { catalog } = context.cluster
  const failed = (errorCode: number) => ({ lowWatermark: -1, errorCode })
  const topic = catalog.topic(name)
  const partition = topic?.partitions[index]
  if (topic === undefined || partition === undefined) {
    return failed(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
  }
  if (partition.leader !== context.node) return failed(KafkaError.NOT_LEADER_OR_FOLLOWER)
  // What is compacted, and only that, keeps the last record of each key.
  const policy = listOf(topic.config('cleanup.policy'))
  if (topic.compacted && !policy.includes('delete')) return failed(KafkaError.POLICY_VIOLATION)
  const offset = wanted === toHighWatermark ? partition.highWatermark : wanted
  if (offset < 0 || offset > partition.highWatermark) return failed(KafkaError.OFFSET_OUT_OF_RANGE)
  partition.cut(offset, changes)
  return { lowWatermark: partition.log.startOffset, errorCode: KafkaError.NONE }
}
