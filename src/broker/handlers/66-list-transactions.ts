/** ListTransactions: the transactional ids that this broker coordinates. */
import { ListTransactions } from '../../protocol/api/list-transactions.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { handler } from '../handler.ts'

/** As Kafka names them; here only some are ever seen. */
const states = new Set([
  'Empty',
  'Ongoing',
  'PrepareCommit',
  'PrepareAbort',
  'CompleteCommit',
  'CompleteAbort',
  'Dead',
  'PrepareEpochFence'
])

export const handleListTransactions = handler({
  api: ListTransactions,
  // Version 2 brings patterns of Java's RE2 dialect.
  versions: [0, 1],
  handle(request, { cluster, node, env }) {
    const { stateFilters, producerIdFilters, durationFilter } = request
    const now = env.clock.now()
    const found = [...cluster.transactions.all].filter(
      ({ id, producerId, state, startedAt }) =>
        !cluster.coordinators.elsewhere('transaction', id, node) &&
        (producerIdFilters.length === 0 || producerIdFilters.includes(producerId)) &&
        (stateFilters.length === 0 || stateFilters.includes(state)) &&
        (durationFilter < 0 || (state === 'Ongoing' && now - startedAt > durationFilter))
    )
    return {
      throttleTimeMs: 0,
      errorCode: KafkaError.NONE,
      unknownStateFilters: stateFilters.filter(state => !states.has(state)),
      transactionStates: found.map(({ id, producerId, state }) => ({
        transactionalId: id,
        producerId,
        transactionState: state
      }))
    }
  }
})
