/** AddOffsetsToTxn: the offsets of a group become part of a transaction. */
import { Changes } from '../../base/store.ts'
import { AddOffsetsToTxn } from '../../protocol/api/add-offsets-to-txn.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { handler } from '../handler.ts'

export const handleAddOffsetsToTxn = handler({
  api: AddOffsetsToTxn,
  async handle(request, { cluster, node, version }) {
    const { transactionalId, groupId } = request
    const failed = (errorCode: number) => ({ throttleTimeMs: 0, errorCode })
    if (transactionalId === '') return failed(KafkaError.INVALID_REQUEST)
    if (groupId === '') return failed(KafkaError.INVALID_GROUP_ID)
    if (cluster.coordinators.elsewhere('transaction', transactionalId, node)) {
      return failed(KafkaError.NOT_COORDINATOR)
    }
    const changes = new Changes()
    const code = cluster.transactions.addGroup(request, groupId, changes)
    await cluster.store.commit(changes)
    const older = code === KafkaError.PRODUCER_FENCED && version < 2
    return failed(older ? KafkaError.INVALID_PRODUCER_EPOCH : code)
  }
})
