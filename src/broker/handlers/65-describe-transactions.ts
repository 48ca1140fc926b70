/** DescribeTransactions: the state of transactional ids. */
import { DescribeTransactions } from '../../protocol/api/describe-transactions.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { type Context, handler } from '../handler.ts'

export const handleDescribeTransactions = handler({
  api: DescribeTransactions,
  handle: (request, context) => ({
    throttleTimeMs: 0,
    transactionStates: request.transactionalIds.map(id => describe(id, context))
  })
})

function describe(transactionalId: string, { cluster, node }: Context) {
  const failed = (errorCode: number) => ({
    errorCode,
    transactionalId,
    transactionState: '',
    transactionTimeoutMs: 0,
    transactionStartTimeMs: 0,
    producerId: 0n,
    producerEpoch: 0,
    topics: []
  })
  if (transactionalId === '') return failed(KafkaError.INVALID_REQUEST)
  if (cluster.coordinators.elsewhere('transaction', transactionalId, node)) {
    return failed(KafkaError.NOT_COORDINATOR)
  }
  const found = cluster.transactions.get(transactionalId)
  if (found === undefined) return failed(KafkaError.TRANSACTIONAL_ID_NOT_FOUND)
  return {
    errorCode: KafkaError.NONE,
    transactionalId,
    transactionState: found.state,
    transactionTimeoutMs: found.timeoutMs,
    transactionStartTimeMs: found.startedAt,
    producerId: found.producerId,
    producerEpoch: found.producerEpoch,
    topics: [...found.partitions].map(([topic, partitions]) => ({
      topic,
      partitions: [...partitions]
    }))
  }
}
