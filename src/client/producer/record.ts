/** What goes in and what comes back: records to send, and where they were written. */
import { PlayheadError } from '../../base/error.ts'
import type { HeaderInput } from '../../protocol/records/builder.ts'
import type { Serde } from '../serde.ts'

/** Bytes to send. A string is sent as UTF-8; null and undefined as null, which is not the empty value. */
export type BytesInput = Uint8Array | string | null | undefined

/** Pairs keep order and duplicates; an object is taken in the order of its properties. */
export type HeadersInput =
  | readonly (readonly [name: string, value: BytesInput])[]
  | Readonly<Record<string, BytesInput>>

/**
 * A record to send. Its bytes are copied before `send` returns, unless the topic isn't known yet or the
 * producer's buffer is full: don't write over them before the promise settles.
 */
export interface ProducerRecord<K = BytesInput, V = BytesInput> {
  /** Chooses the partition, by murmur2 as in Java. Null or absent: none. */
  readonly key?: K | undefined
  /** Null or absent: a tombstone. */
  readonly value?: V | undefined
  /** In order, duplicates and all. */
  readonly headers?: HeadersInput | undefined
  /** Milliseconds since 1970. Default: now. */
  readonly timestamp?: number | undefined
  /** Default: by the key, else a sticky one. */
  readonly partition?: number | undefined
}

/** A record that names its topic. */
export interface TopicRecord<K = BytesInput, V = BytesInput> extends ProducerRecord<K, V> {
  /** Where it goes. */
  readonly topic: string
}

/** Where a record was written. */
export interface RecordMetadata {
  /** The topic it is in. */
  readonly topic: string
  /** The partition it is in. */
  readonly partition: number
  /** -1 with `acks: 'none'`, or when the broker knows only that it has the record already. */
  readonly offset: number
  /** The record's, or the broker's where the topic says `LogAppendTime`. */
  readonly timestamp: number
}

/**
 * Makes bytes of keys or values: a serde, as consumers take it, or a function. Never asked about null. A throw
 * rejects the send with INVALID_ARGUMENT; nothing of that call is sent.
 */
export type Serializer<T> =
  | Pick<Serde<T>, 'name' | 'serialize'>
  | ((value: T, topic: string) => BytesInput)

/** A record whose key and value are bytes. */
export type WireRecord = ProducerRecord

/** The result of a `sendMany` of which some records were written and some were not, or maybe not. */
export class PartialSendError extends PlayheadError {
  /** One for each record, in order. */
  readonly results: readonly (RecordMetadata | PlayheadError)[]

  constructor(results: readonly (RecordMetadata | PlayheadError)[], first: PlayheadError) {
    const failed = results.filter(result => result instanceof PlayheadError).length
    super(
      'PARTIALLY_APPLIED',
      `${failed} of ${results.length} records were not acknowledged (see results): ${first.message}`,
      { cause: first, topic: first.topic }
    )
    this.results = results
  }
}

const noHeaders: readonly HeaderInput[] = []

export function headersOf(headers: HeadersInput | undefined): readonly HeaderInput[] {
  if (headers === undefined) return noHeaders
  const pairs = isPairs(headers) ? headers : Object.entries(headers)
  if (pairs.length === 0) return noHeaders
  return pairs.map(([key, value]) => {
    if (typeof key !== 'string' || !isBytes(value)) {
      throw new PlayheadError(
        'INVALID_ARGUMENT',
        'headers are pairs of a string and a string, bytes or null: [["name", value]] or { name: value }'
      )
    }
    return { key, value }
  })
}

function isPairs(
  headers: HeadersInput
): headers is readonly (readonly [name: string, value: BytesInput])[] {
  return Array.isArray(headers)
}

/** Whether `value` can be sent as it is. */
export function isBytes(value: unknown): value is BytesInput {
  return (
    typeof value === 'string' ||
    value === null ||
    value === undefined ||
    value instanceof Uint8Array
  )
}

/** At least the bytes that `value` takes; for a string maybe three times as many. */
function mostBytes(value: BytesInput): number {
  if (value === null || value === undefined) return 0
  return typeof value === 'string' ? value.length * 3 : value.length
}

/** At least what the record takes of a batch; cheap, to see that most records are far from a limit. */
export function mostRecordBytes(record: WireRecord): number {
  const fixed = 64
  const { headers } = record
  const plain = fixed + mostBytes(record.key) + mostBytes(record.value)
  if (headers === undefined) return plain
  let sum = plain
  for (const { key, value } of headersOf(headers)) sum += mostBytes(key) + mostBytes(value) + 10
  return sum
}
