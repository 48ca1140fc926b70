/** ListTransactions: the transactional ids that this broker coordinates. */
import { ListTransactions } from '../../protocol/api/list-transactions.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { topicPattern } from '../../group/pattern.ts'
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
  handle(request, { cluster, node, env }) {
    const { stateFilters, producerIdFilters, durationFilter, transactionalIdPattern } = request
    const pattern = transactionalIdPattern ? topicPattern(transactionalIdPattern) : undefined
    const unknownStateFilters = stateFilters.filter(state => !states.has(state))
    if (typeof pattern === 'string') {
      const errorCode = KafkaError.INVALID_REGULAR_EXPRESSION
      return { throttleTimeMs: 0, errorCode, unknownStateFilters, transactionStates: [] }
    }
    const now = env.clock.now()
    const found = [...cluster.transactions.all].filter(
      ({ id, producerId, state, startedAt }) =>
        !cluster.coordinators.elsewhere('transaction', id, node) &&
        (pattern?.matches(id) ?? true) &&
        (producerIdFilters.length === 0 || producerIdFilters.includes(producerId)) &&
        (stateFilters.length === 0 || stateFilters.includes(state)) &&
        (durationFilter < 0 || (state === 'Ongoing' && now - startedAt > durationFilter))
    )
    return {
      throttleTimeMs: 0,
      errorCode: KafkaError.NONE,
      unknownStateFilters,
      transactionStates: found.map(({ id, producerId, state }) => ({
        transactionalId: id,
        producerId,
        transactionState: state
      }))
    }
  }
})
