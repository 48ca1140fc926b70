/** AddPartitionsToTxn: partitions become part of a transaction; from version 4 on of several, or only asked after. */
import { Changes } from '../../base/store.ts'
import { AddPartitionsToTxn } from '../../protocol/api/add-partitions-to-txn.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { type Context, handler } from '../handler.ts'
import type { Writer } from '../transaction.ts'

interface Asked extends Writer {
  readonly verifyOnly: boolean
  readonly topics: readonly { readonly name: string; readonly partitions: readonly number[] }[]
}

export const handleAddPartitionsToTxn = handler({
  api: AddPartitionsToTxn,
  async handle(request, context) {
    const changes = new Changes()
    if (context.version >= 4) {
      const resultsByTransaction = request.transactions.map(asked => ({
        transactionalId: asked.transactionalId,
        topicResults: answerFor(asked, context, changes)
      }))
      await context.cluster.store.commit(changes)
      return { throttleTimeMs: 0, resultsByTransaction }
    }
    const asked = {
      transactionalId: request.v3AndBelowTransactionalId,
      producerId: request.v3AndBelowProducerId,
      producerEpoch: request.v3AndBelowProducerEpoch,
      topics: request.v3AndBelowTopics,
      verifyOnly: false
    }
    const results = answerFor(asked, context, changes)
    await context.cluster.store.commit(changes)
    return { throttleTimeMs: 0, resultsByTopicV3AndBelow: results }
  }
})

function answerFor(asked: Asked, context: Context, changes: Changes) {
  const { catalog, transactions } = context.cluster
  const fault = faultOf(asked, context)
  // All or nothing: one that isn't there keeps the others from being added.
  const missing = asked.topics.some(({ name, partitions }) =>
    partitions.some(index => catalog.partition(name, index) === undefined)
  )
  const codeOf = (name: string, index: number): number => {
    if (fault !== KafkaError.NONE) return fault
    if (asked.verifyOnly) return transactions.verifyPartition(asked, name, index)
    if (!missing) return transactions.addPartition(asked, name, index, changes)
    const known = catalog.partition(name, index) !== undefined
    return known ? KafkaError.OPERATION_NOT_ATTEMPTED : KafkaError.UNKNOWN_TOPIC_OR_PARTITION
  }
  return asked.topics.map(({ name, partitions }) => ({
    name,
    resultsByPartition: partitions.map(partitionIndex => ({
      partitionIndex,
      partitionErrorCode: inVersion(codeOf(name, partitionIndex), context.version)
    }))
  }))
}

function faultOf({ transactionalId }: Asked, { cluster, node }: Context): number {
  if (transactionalId === '') return KafkaError.INVALID_REQUEST
  const elsewhere = cluster.coordinators.elsewhere('transaction', transactionalId, node)
  return elsewhere ? KafkaError.NOT_COORDINATOR : KafkaError.NONE
}

/** PRODUCER_FENCED came with version 2. */
function inVersion(code: number, version: number): number {
  const older = code === KafkaError.PRODUCER_FENCED && version < 2
  return older ? KafkaError.INVALID_PRODUCER_EPOCH : code
}
