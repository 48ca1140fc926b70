/** What goes wrong with one partition, as the application is told. */
import { PlayheadError } from '../../base/error.ts'
import { kafkaErrorName } from '../../protocol/errors.ts'
import { nameOf, type Playhead } from './playhead.ts'

/** A broker will not let it be read: `code` is Kafka's. */
export function unreadable(playhead: Playhead, code: number): PlayheadError {
  const { topic, partition } = playhead
  const kafkaError = kafkaErrorName(code)
  const refused = kafkaError.endsWith('AUTHORIZATION_FAILED')
  const message = `${nameOf(playhead)} cannot be read: ${kafkaError}`
  const details = { topic, partition, kafkaError }
  return new PlayheadError(refused ? 'AUTHORIZATION_FAILED' : 'BROKER_ERROR', message, details)
}

/** Its records belong to another member now. */
export function noLongerOurs(playhead: Playhead, group?: string): PlayheadError {
  const { topic, partition } = playhead
  const message = `${nameOf(playhead)} is no longer this member's: what was processed of it comes again elsewhere`
  return new PlayheadError('STALE_GENERATION', message, { topic, partition, group })
}

/** Records of it went into a transaction, and come again. */
export function staleInTransaction(playhead: Playhead): PlayheadError {
  const { topic, partition } = playhead
  const why = playhead.alive ? 'was rewound or sought' : "is no longer this member's"
  const message = `${nameOf(playhead)} ${why} since its records were handed out: they come again, so this transaction must be aborted`
  return new PlayheadError('TRANSACTION_ABORTED', message, { topic, partition, retriable: true })
}
