/** What a broker's answer to a produced batch means: whether the batch is tried again, and what its sender is told. */
import { type ErrorCode, PlayheadError } from '../../base/error.ts'
import { isRetriable, KafkaError, kafkaErrorName } from '../../protocol/errors.ts'

/**
 * - `retry`: later, unchanged.
 * - `gap`: the broker misses what comes before it, or does not know the producer: see `PartitionQueue`.
 * - `split`: too large for the topic; halves may not be.
 * - `duplicate`: it is in the log already, at an offset that the broker has forgotten.
 * - `fail`: it will never be accepted.
 */
export type Verdict = 'retry' | 'gap' | 'split' | 'duplicate' | 'fail'

export function verdictOf(code: number, transactional: boolean): Verdict {
  switch (code) {
    case KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER:
    case KafkaError.UNKNOWN_PRODUCER_ID:
      return 'gap'
    case KafkaError.INVALID_PRODUCER_EPOCH:
      return transactional ? 'fail' : 'gap'
    case KafkaError.DUPLICATE_SEQUENCE_NUMBER:
      return 'duplicate'
    case KafkaError.MESSAGE_TOO_LARGE:
    case KafkaError.RECORD_LIST_TOO_LARGE:
      return 'split'
    default:
      return isRetriable(code) ? 'retry' : 'fail'
  }
}

/** Errors that say that nothing was appended: a broker looks for them before it writes. */
const beforeAppend: ReadonlySet<number> = new Set([
  KafkaError.CORRUPT_MESSAGE,
  KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
  KafkaError.UNKNOWN_TOPIC_ID,
  KafkaError.INCONSISTENT_TOPIC_ID,
  KafkaError.LEADER_NOT_AVAILABLE,
  KafkaError.MESSAGE_TOO_LARGE,
  KafkaError.RECORD_LIST_TOO_LARGE,
  KafkaError.INVALID_TOPIC_EXCEPTION,
  KafkaError.NOT_ENOUGH_REPLICAS,
  KafkaError.INVALID_REQUIRED_ACKS,
  KafkaError.TOPIC_AUTHORIZATION_FAILED,
  KafkaError.CLUSTER_AUTHORIZATION_FAILED,
  KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
  KafkaError.INVALID_TIMESTAMP,
  KafkaError.INVALID_RECORD,
  KafkaError.UNSUPPORTED_VERSION,
  KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
  KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
  KafkaError.POLICY_VIOLATION,
  KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
  KafkaError.UNKNOWN_PRODUCER_ID,
  KafkaError.INVALID_PRODUCER_EPOCH,
  KafkaError.PRODUCER_FENCED,
  KafkaError.INVALID_TXN_STATE,
  KafkaError.INVALID_PRODUCER_ID_MAPPING,
  KafkaError.CONCURRENT_TRANSACTIONS,
  KafkaError.TRANSACTION_ABORTABLE,
  KafkaError.THROTTLING_QUOTA_EXCEEDED,
  KafkaError.INVALID_REQUEST
])

/**
 * Whether the batch may be in the log although the answer was this error. NOT_LEADER_OR_FOLLOWER too: a leader
 * that loses its place while it waits for its followers answers so after the append.
 */
export function mayBeWritten(code: number): boolean {
  return !beforeAppend.has(code)
}

/** Whether the answer says that what is known of leaders is old. */
export function isMoved(code: number): boolean {
  return (
    code === KafkaError.NOT_LEADER_OR_FOLLOWER ||
    code === KafkaError.UNKNOWN_TOPIC_OR_PARTITION ||
    code === KafkaError.UNKNOWN_TOPIC_ID ||
    code === KafkaError.INCONSISTENT_TOPIC_ID ||
    code === KafkaError.LEADER_NOT_AVAILABLE ||
    code === KafkaError.FENCED_LEADER_EPOCH ||
    code === KafkaError.KAFKA_STORAGE_ERROR ||
    code === KafkaError.REPLICA_NOT_AVAILABLE
  )
}

const codes: ReadonlyMap<number, ErrorCode> = new Map<number, ErrorCode>([
  [KafkaError.MESSAGE_TOO_LARGE, 'TOO_LARGE'],
  [KafkaError.RECORD_LIST_TOO_LARGE, 'TOO_LARGE'],
  [KafkaError.TOPIC_AUTHORIZATION_FAILED, 'AUTHORIZATION_FAILED'],
  [KafkaError.GROUP_AUTHORIZATION_FAILED, 'AUTHORIZATION_FAILED'],
  [KafkaError.CLUSTER_AUTHORIZATION_FAILED, 'AUTHORIZATION_FAILED'],
  [KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 'AUTHORIZATION_FAILED'],
  [KafkaError.UNKNOWN_TOPIC_OR_PARTITION, 'UNKNOWN_TOPIC'],
  [KafkaError.UNKNOWN_TOPIC_ID, 'UNKNOWN_TOPIC'],
  [KafkaError.UNSUPPORTED_COMPRESSION_TYPE, 'UNSUPPORTED_COMPRESSION'],
  [KafkaError.UNSUPPORTED_VERSION, 'UNSUPPORTED_VERSION'],
  [KafkaError.REQUEST_TIMED_OUT, 'TIMED_OUT'],
  [KafkaError.PRODUCER_FENCED, 'FENCED'],
  [KafkaError.INVALID_PRODUCER_EPOCH, 'FENCED'],
  [KafkaError.TRANSACTION_ABORTABLE, 'TRANSACTION_ABORTED'],
  [KafkaError.ILLEGAL_GENERATION, 'STALE_GENERATION'],
  [KafkaError.STALE_MEMBER_EPOCH, 'STALE_GENERATION'],
  [KafkaError.UNKNOWN_MEMBER_ID, 'STALE_GENERATION'],
  [KafkaError.FENCED_INSTANCE_ID, 'FENCED']
])

/** A broker's error code as a caller sees it. `what`: the subject of the message, 'orders-0'. */
export function brokerError(
  code: number,
  what: string,
  details: { message?: string | null; topic?: string; partition?: number; group?: string } = {}
): PlayheadError {
  const name = kafkaErrorName(code)
  const { message, ...where } = details
  const said = message ? ` (${message})` : ''
  return new PlayheadError(codes.get(code) ?? 'BROKER_ERROR', `${what}: ${name}${said}`, {
    ...where,
    kafkaError: name,
    retriable: isRetriable(code) && !mayBeWritten(code)
  })
}
