/** FindCoordinator: which broker coordinates a group or a transactional id; from version 4 on, several. */
import { FindCoordinator } from '../../protocol/api/find-coordinator.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { type Context, handler } from '../handler.ts'

/** 2, a share group, is none that is spoken here. */
const kinds = ['group', 'transaction'] as const

export const handleFindCoordinator = handler({
  api: FindCoordinator,
  handle(request, context) {
    if (context.version >= 4) {
      const coordinators = request.coordinatorKeys.map(key => find(request.keyType, key, context))
      return { errorCode: 0, nodeId: 0, host: '', port: 0, coordinators }
    }
    const { key: _key, ...found } = find(request.keyType, request.key, context)
    return found
  }
})

function find(keyType: number, key: string, { cluster }: Context) {
  const kind = kinds[keyType]
  if (kind === undefined) {
    const errorCode = KafkaError.INVALID_REQUEST
    return { key, nodeId: -1, host: '', port: -1, errorCode, errorMessage: null }
  }
  const node = cluster.coordinators.of(kind, key)
  if (node === undefined) {
    const errorCode = KafkaError.COORDINATOR_NOT_AVAILABLE
    return { key, nodeId: -1, host: '', port: -1, errorCode, errorMessage: null }
  }
  const { id: nodeId, host, port } = node
  return { key, nodeId, host, port, errorCode: KafkaError.NONE, errorMessage: null }
}
