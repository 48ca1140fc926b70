/**
 * The one error type that callers see. The `code` is a literal of a documented union, so that a program
 * can act on it; the message is for a person: what, where, what to do.
 */

/** Every code a `PlayheadError` can have, with its meaning. */
export const errorCodes = {
  /** The caller's options or arguments are wrong. Nothing was done. */
  INVALID_ARGUMENT: 'bad input',
  /** The client, consumer, producer or admin was closed. */
  CLOSED: 'closed',
  /** The caller's AbortSignal fired. */
  ABORTED: 'aborted',
  /** No broker could be reached. */
  CONNECTION_FAILED: 'no connection',
  /** The connection ended while a request was on its way: its outcome is unknown. */
  CONNECTION_LOST: 'connection lost',
  /** The deadline passed. Whether it took effect is unknown once the request was written. */
  TIMED_OUT: 'timed out',
  /** The broker does not speak an API, or not in a version that has what was asked. */
  UNSUPPORTED_VERSION: 'unsupported version',
  /** Bytes from a peer make no sense: a wrong length, count, correlation id, or leftover. */
  MALFORMED_FRAME: 'malformed frame',
  /** A batch's checksum, magic or lengths are wrong. */
  CORRUPT_RECORDS: 'corrupt records',
  /** Compressed bytes are damaged or grow beyond the limit. */
  DECOMPRESSION_FAILED: 'decompression failed',
  /** The compression's library is missing on this Node. */
  UNSUPPORTED_COMPRESSION: 'unsupported compression',
  /** SASL or TLS refused us, or we refused the broker. */
  AUTHENTICATION_FAILED: 'authentication failed',
  AUTHORIZATION_FAILED: 'not authorized',
  /** A serde could not read a record's key or value. */
  DESERIALIZATION_FAILED: 'deserialization failed',
  UNKNOWN_TOPIC: 'unknown topic',
  UNKNOWN_PARTITION: 'unknown partition',
  UNKNOWN_GROUP: 'unknown group',
  UNKNOWN_MEMBER: 'unknown member',
  TOPIC_EXISTS: 'topic exists',
  /** A record or batch is larger than a limit. */
  TOO_LARGE: 'too large',
  /** A bounded queue is full and the caller asked not to wait. */
  QUEUE_FULL: 'queue full',
  /** Nothing is committed and `startFrom` is 'none', or an offset is outside the log. */
  OFFSET_OUT_OF_RANGE: 'offset out of range',
  /** The log was cut below the position: records were lost by an unclean leader election. */
  LOG_TRUNCATED: 'log truncated',
  /** This producer or member was replaced by another with the same id. */
  FENCED: 'fenced',
  /** The group's membership moved on: the commit or call belongs to an older generation. */
  STALE_GENERATION: 'stale generation',
  /** The transaction was aborted, or must be. */
  TRANSACTION_ABORTED: 'transaction aborted',
  /** A handler took longer than `maxProcessingMs`: the member left its group. */
  PROCESSING_TIMEOUT: 'processing timeout',
  /** A rewind was refused before anything was written. */
  REWIND_REFUSED: 'rewind refused',
  /** A later rewind of the same partitions won. */
  REWIND_SUPERSEDED: 'rewind superseded',
  /** The deadline passed before all owners had acknowledged. */
  REWIND_PENDING: 'rewind pending',
  /** Some partitions were done and some not: the result lists them. */
  PARTIALLY_APPLIED: 'partially applied',
  /** The store could not write or open its files: a full disk, a wrong right, a directory in use. */
  STORAGE_FAILED: 'storage failed',
  /** Any other error code of a broker; `kafkaError` names it. */
  BROKER_ERROR: 'broker error'
} as const

/** What went wrong, for a program: the keys of `errorCodes`, which says what each means. */
export type ErrorCode = keyof typeof errorCodes

/** What an error is about. */
export interface ErrorDetails {
  /** Whether the same call may succeed later, unchanged. Default false. */
  readonly retriable?: boolean | undefined
  /** The topic it is about. */
  readonly topic?: string | undefined
  /** The partition it is about. */
  readonly partition?: number | undefined
  /** The group it is about. */
  readonly group?: string | undefined
  /** The name of Kafka's error, where one is behind this: 'NOT_COORDINATOR'. */
  readonly kafkaError?: string | undefined
  /** The error behind this one. */
  readonly cause?: unknown
}

/** What every call of Playhead rejects with, unless Playhead itself has a bug (`AssertionError`). */
export class PlayheadError extends Error {
  /** 'PlayheadError', on every error of ours. */
  override readonly name = 'PlayheadError'
  /** What went wrong, for a program. */
  readonly code: ErrorCode
  /** The same call may succeed later, and it is certain that this one had no effect. */
  readonly retriable: boolean
  /** The topic it is about. */
  declare readonly topic?: string
  /** The partition it is about. */
  declare readonly partition?: number
  /** The group it is about. */
  declare readonly group?: string
  /** What the broker answered, by Kafka's name, such as 'NOT_LEADER_OR_FOLLOWER'; absent: no broker said so. */
  declare readonly kafkaError?: string

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    this.retriable = details.retriable ?? false
    if (details.topic !== undefined) this.topic = details.topic
    if (details.partition !== undefined) this.partition = details.partition
    if (details.group !== undefined) this.group = details.group
    if (details.kafkaError !== undefined) this.kafkaError = details.kafkaError
  }
}
