/** InitProducerId: a producer gets its id and epoch; one with a transactional id fences whoever had it before. */
import { Changes } from '../../base/store.ts'
import { InitProducerId } from '../../protocol/api/init-producer-id.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { handler } from '../handler.ts'

export const handleInitProducerId = handler({
  api: InitProducerId,
  async handle(request, { cluster, node }) {
    const { transactionalId, transactionTimeoutMs, producerId, producerEpoch } = request
    if (transactionalId === null) {
      const changes = new Changes()
      const id = cluster.newProducerId(changes)
      await cluster.store.commit(changes)
      return { throttleTimeMs: 0, errorCode: KafkaError.NONE, producerId: id, producerEpoch: 0 }
    }
    if (cluster.coordinators.elsewhere('transaction', transactionalId, node)) {
      return failed(KafkaError.NOT_COORDINATOR)
    }
    // Two-phase commit must be allowed by an administrator (KIP-939), and there is none to do so.
    if (request.enable2Pc || request.keepPreparedTxn) {
      return failed(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    }
    if (producerId < 0n !== producerEpoch < 0) return failed(KafkaError.INVALID_REQUEST)
    const expected = producerId < 0n ? undefined : { producerId, producerEpoch }
    const outcome = cluster.transactions.init(transactionalId, transactionTimeoutMs, expected)
    if (!('stored' in outcome)) return failed(outcome.error)
    await outcome.stored
    const { producerId: id, producerEpoch: epoch } = outcome
    return { throttleTimeMs: 0, errorCode: KafkaError.NONE, producerId: id, producerEpoch: epoch }
  }
})

function failed(errorCode: number) {
  return { throttleTimeMs: 0, errorCode, producerId: -1n, producerEpoch: -1 }
}
