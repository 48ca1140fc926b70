/** EndTxn: commits or aborts a transaction, whole; from version 5 on the producer goes on under the next epoch. */
import { EndTxn } from '../../protocol/api/end-txn.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { handler } from '../handler.ts'

/** From this version on (KIP-890). */
const bumpsEpoch = 5

export const handleEndTxn = handler({
  api: EndTxn,
  async handle(request, { cluster, node, version }) {
    const { transactionalId, committed } = request
    if (cluster.coordinators.elsewhere('transaction', transactionalId, node)) {
      return failed(KafkaError.NOT_COORDINATOR)
    }
    const bumps = version >= bumpsEpoch
    const outcome = cluster.transactions.end(transactionalId, request, committed, bumps)
    if (!('stored' in outcome)) {
      const older = outcome.error === KafkaError.PRODUCER_FENCED && version < 2
      return failed(older ? KafkaError.INVALID_PRODUCER_EPOCH : outcome.error)
    }
    await outcome.stored
    const { producerId, producerEpoch } = outcome
    return {
      throttleTimeMs: 0,
      errorCode: KafkaError.NONE,
      ...(bumps && { producerId, producerEpoch })
    }
  }
})

function failed(errorCode: number) {
  return { throttleTimeMs: 0, errorCode }
}
