/** DescribeProducers: who writes to a partition, and what each has open there. */
import { DescribeProducers } from '../../protocol/api/describe-producers.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { type Context, handler } from '../handler.ts'

export const handleDescribeProducers = handler({
  api: DescribeProducers,
  handle(request, context) {
    const topics = request.topics.map(({ name, partitionIndexes }) => ({
      name,
      partitions: partitionIndexes.map(index => describe(name, index, context))
    }))
    return { throttleTimeMs: 0, topics }
  }
})

function describe(topic: string, partitionIndex: number, { cluster, node }: Context) {
  const partition = cluster.catalog.partition(topic, partitionIndex)
  if (partition === undefined) {
    const errorCode = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    return { partitionIndex, errorCode, activeProducers: [] }
  }
  if (partition.leader !== node) {
    const errorCode = KafkaError.NOT_LEADER_OR_FOLLOWER
    return { partitionIndex, errorCode, activeProducers: [] }
  }
  const activeProducers = [...partition.producers.entries()].map(([producerId, state]) => ({
    producerId,
    producerEpoch: state.epoch,
    lastSequence: state.batches.at(-1)?.lastSequence ?? -1,
    lastTimestamp: state.lastTimestamp,
    coordinatorEpoch: state.coordinatorEpoch,
    currentTxnStartOffset: state.transactionFirstOffset
  }))
  return { partitionIndex, errorCode: KafkaError.NONE, activeProducers }
}
