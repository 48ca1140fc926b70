/**
 * Error codes in answers. They are data: nothing in this layer rejects because of one. Here is what a caller
 * needs to judge them: all the codes of an answer, and the one error type made of a code.
 */
import { type ErrorCode, type ErrorDetails, PlayheadError } from '../base/error.ts'
import { printable } from '../base/printable.ts'
import { KafkaError, type KafkaErrorName, isRetriable, kafkaErrorName } from '../protocol/errors.ts'
import type { Api, Field, Fields } from '../protocol/schema.ts'

type Collect = (value: never, into: Set<number>) => void

const collectors = new WeakMap<Api, Collect | null>()

/** Every error code other than NONE anywhere in an API's answer. */
export function errorCodesOf(api: Api, body: unknown): ReadonlySet<number> {
  let collect = collectors.get(api)
  if (collect === undefined) collectors.set(api, (collect = collector(api.response.fields)))
  const codes = new Set<number>()
  collect?.(body as never, codes)
  return codes
}

/** Compiled from the declaration, so that parts without codes are never walked. Null: there are none. */
function collector(fields: Fields): Collect | null {
  const steps: Collect[] = []
  for (const [name, field] of Object.entries(fields)) {
    const step = name === 'errorCode' && field.type === 'int16' ? addCode : inside(field)
    if (step) steps.push((value: Record<string, never>, into) => step(value[name] as never, into))
  }
  if (steps.length === 0) return null
  return (value, into) => {
    for (const step of steps) step(value, into)
  }
}

function inside(field: Field): Collect | null {
  if (field.fields) {
    const collect = collector(field.fields)
    return collect && ((value: unknown, into) => void (value && collect(value as never, into)))
  }
  const collect = field.type === 'array' && field.element ? inside(field.element) : null
  if (!collect) return null
  return (values: readonly never[] | null, into) => {
    if (values) for (const value of values) collect(value, into)
  }
}

function addCode(code: number, into: Set<number>): void {
  if (code !== KafkaError.NONE) into.add(code)
}

/** The codes of Kafka that have one of ours; all others are BROKER_ERROR. */
const ours: Partial<Record<KafkaErrorName, ErrorCode>> = {
  OFFSET_OUT_OF_RANGE: 'OFFSET_OUT_OF_RANGE',
  CORRUPT_MESSAGE: 'CORRUPT_RECORDS',
  UNKNOWN_TOPIC_OR_PARTITION: 'UNKNOWN_TOPIC',
  UNKNOWN_TOPIC_ID: 'UNKNOWN_TOPIC',
  MESSAGE_TOO_LARGE: 'TOO_LARGE',
  RECORD_LIST_TOO_LARGE: 'TOO_LARGE',
  OFFSET_METADATA_TOO_LARGE: 'TOO_LARGE',
  INVALID_TOPIC_EXCEPTION: 'INVALID_ARGUMENT',
  INVALID_GROUP_ID: 'INVALID_ARGUMENT',
  INVALID_PARTITIONS: 'INVALID_ARGUMENT',
  INVALID_REPLICATION_FACTOR: 'INVALID_ARGUMENT',
  INVALID_REPLICA_ASSIGNMENT: 'INVALID_ARGUMENT',
  INVALID_CONFIG: 'INVALID_ARGUMENT',
  INVALID_REQUEST: 'INVALID_ARGUMENT',
  INVALID_REQUIRED_ACKS: 'INVALID_ARGUMENT',
  INVALID_SESSION_TIMEOUT: 'INVALID_ARGUMENT',
  INVALID_TIMESTAMP: 'INVALID_ARGUMENT',
  INVALID_REGULAR_EXPRESSION: 'INVALID_ARGUMENT',
  INVALID_TRANSACTION_TIMEOUT: 'INVALID_ARGUMENT',
  TOPIC_AUTHORIZATION_FAILED: 'AUTHORIZATION_FAILED',
  GROUP_AUTHORIZATION_FAILED: 'AUTHORIZATION_FAILED',
  CLUSTER_AUTHORIZATION_FAILED: 'AUTHORIZATION_FAILED',
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 'AUTHORIZATION_FAILED',
  SASL_AUTHENTICATION_FAILED: 'AUTHENTICATION_FAILED',
  UNSUPPORTED_SASL_MECHANISM: 'AUTHENTICATION_FAILED',
  UNSUPPORTED_VERSION: 'UNSUPPORTED_VERSION',
  UNSUPPORTED_COMPRESSION_TYPE: 'UNSUPPORTED_COMPRESSION',
  TOPIC_ALREADY_EXISTS: 'TOPIC_EXISTS',
  GROUP_ID_NOT_FOUND: 'UNKNOWN_GROUP',
  UNKNOWN_MEMBER_ID: 'UNKNOWN_MEMBER',
  ILLEGAL_GENERATION: 'STALE_GENERATION',
  STALE_MEMBER_EPOCH: 'STALE_GENERATION',
  FENCED_MEMBER_EPOCH: 'STALE_GENERATION',
  FENCED_INSTANCE_ID: 'FENCED',
  PRODUCER_FENCED: 'FENCED',
  INVALID_PRODUCER_EPOCH: 'FENCED',
  TRANSACTION_COORDINATOR_FENCED: 'FENCED',
  TRANSACTION_ABORTABLE: 'TRANSACTION_ABORTED',
  REWIND_PENDING: 'REWIND_PENDING',
  REWIND_SUPERSEDED: 'REWIND_SUPERSEDED'
}

/**
 * The error a caller gets for a broker's error code. `what` was tried: 'commit of group billing'; the broker's
 * own words, where it gave some, are in `brokerMessage`. Retriable as Kafka has it, unless `details` say.
 */
export function answerError(
  errorCode: number,
  what: string,
  details: ErrorDetails & { readonly brokerMessage?: string | null | undefined } = {}
): PlayheadError {
  const kafkaError = kafkaErrorName(errorCode)
  const code = ours[kafkaError as KafkaErrorName] ?? 'BROKER_ERROR'
  const { brokerMessage, ...rest } = details
  const words = brokerMessage ? `: ${printable(brokerMessage).slice(0, longestQuote)}` : ''
  return new PlayheadError(code, `${what}: the broker answered ${kafkaError}${words}`, {
    retriable: isRetriable(errorCode),
    kafkaError,
    ...rest
  })
}

/** How much of a broker's own words an error repeats, in characters. */
const longestQuote = 500
