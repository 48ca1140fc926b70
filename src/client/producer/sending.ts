/**
 * A call of `send` or `sendMany` on its way to a promise. It holds the records until they are in batches, then
 * only where they went: one promise for the call, settled when the last of its batches is.
 */
import { PlayheadError } from '../../base/error.ts'
import type { Batch, Receipt } from './batch.ts'
import { PartialSendError, type RecordMetadata, type WireRecord } from './record.ts'

/** What the gates of admission need of a call. */
export interface Sending extends Receipt {
  readonly topic: string
  /** For records without one. */
  readonly timestamp: number
  /** As of `clock.monotonic()`. */
  readonly deadline: number
  /** The record to append next; undefined when all are in batches. */
  readonly current: WireRecord | undefined
  /** `current` is in `batch` now, as its record `index`. */
  appended(batch: Batch, index: number, timestamp: number): void
  /** What is not yet in a batch never will be. */
  refuse(error: PlayheadError): void
}

export class OneSending implements Sending {
  readonly topic: string
  readonly timestamp: number
  readonly deadline: number
  current: WireRecord | undefined
  #index = -1
  #recordTimestamp = -1
  readonly #resolve: (result: RecordMetadata) => void
  readonly #reject: (error: PlayheadError) => void

  constructor(
    topic: string,
    record: WireRecord,
    timestamp: number,
    deadline: number,
    resolve: (result: RecordMetadata) => void,
    reject: (error: PlayheadError) => void
  ) {
    this.topic = topic
    this.current = record
    this.timestamp = timestamp
    this.deadline = deadline
    this.#resolve = resolve
    this.#reject = reject
  }

  appended(batch: Batch, index: number, timestamp: number): void {
    this.current = undefined
    this.#index = index
    this.#recordTimestamp = timestamp
    batch.addReceipt(this)
  }

  settled(batch: Batch): void {
    const error = batch.errorAt(this.#index)
    if (error === null) this.#resolve(resultOf(batch, this.#index, this.#recordTimestamp))
    else this.#reject(error)
  }

  refuse(error: PlayheadError): void {
    this.current = undefined
    this.#reject(error)
  }
}

export class ManySending implements Sending {
  readonly topic: string
  readonly timestamp: number
  readonly deadline: number
  #records: readonly WireRecord[]
  readonly #count: number
  #next = 0
  /** Records that went one after the other into one batch are one run: its batch, first index, and length. */
  readonly #batches: Batch[] = []
  readonly #firsts: number[] = []
  readonly #lengths: number[] = []
  /** Made when a record has a time of its own. */
  #timestamps: Float64Array | undefined
  #open = 0
  #refusal: PlayheadError | undefined
  readonly #resolve: (results: RecordMetadata[]) => void
  readonly #reject: (error: PlayheadError) => void

  constructor(
    topic: string,
    records: readonly WireRecord[],
    timestamp: number,
    deadline: number,
    resolve: (results: RecordMetadata[]) => void,
    reject: (error: PlayheadError) => void
  ) {
    this.topic = topic
    this.timestamp = timestamp
    this.deadline = deadline
    this.#records = records
    this.#count = records.length
    this.#resolve = resolve
    this.#reject = reject
    if (records.length === 0) this.#finish()
  }

  get current(): WireRecord | undefined {
    return this.#records[this.#next]
  }

  appended(batch: Batch, index: number, timestamp: number): void {
    const at = this.#next++
    if (timestamp !== this.timestamp) {
      this.#timestamps ??= new Float64Array(this.#count).fill(this.timestamp)
      this.#timestamps[at] = timestamp
    }
    if (this.#next === this.#count) this.#records = []
    const run = this.#batches.length - 1
    const length = this.#lengths[run] ?? 0
    if (this.#batches[run] === batch && (this.#firsts[run] ?? 0) + length === index) {
      this.#lengths[run] = length + 1
      return
    }
    this.#batches.push(batch)
    this.#firsts.push(index)
    this.#lengths.push(1)
    this.#open++
    batch.addReceipt(this)
  }

  settled(): void {
    this.#open--
    this.#finish()
  }

  refuse(error: PlayheadError): void {
    this.#records = []
    this.#refusal = error
    this.#finish()
  }

  #finish(): void {
    if (this.#open > 0 || this.#records.length > 0) return
    const errors: PlayheadError[] = []
    const results: (RecordMetadata | PlayheadError)[] = []
    this.#batches.forEach((batch, run) => {
      const first = this.#firsts[run] ?? 0
      const end = first + (this.#lengths[run] ?? 0)
      for (let index = first; index < end; index++) {
        const timestamp = this.#timestamps?.[results.length] ?? this.timestamp
        const error = batch.errorAt(index)
        if (error !== null) errors.push(error)
        results.push(error ?? resultOf(batch, index, timestamp))
      }
    })
    while (results.length < this.#count && this.#refusal !== undefined) {
      errors.push(this.#refusal)
      results.push(this.#refusal)
    }
    const [first] = errors
    if (first === undefined) this.#resolve(results as RecordMetadata[])
    else if (errors.length === this.#count && errors.every(error => alike(error, first))) {
      this.#reject(first)
    } else this.#reject(new PartialSendError(results, first))
  }
}

function alike(one: PlayheadError, other: PlayheadError): boolean {
  return one.code === other.code && one.retriable === other.retriable
}

function resultOf(batch: Batch, index: number, timestamp: number): RecordMetadata {
  const appendTime = batch.appendTimeAt(index)
  return {
    topic: batch.topic,
    partition: batch.partition,
    offset: batch.offsetAt(index),
    timestamp: appendTime < 0 ? timestamp : appendTime
  }
}

/** The results of one call that went to several topics, in the records' order. */
export function gather(
  count: number,
  indexesOf: readonly (readonly number[])[],
  parts: readonly PromiseSettledResult<RecordMetadata[]>[]
): RecordMetadata[] {
  const results = new Array<RecordMetadata | PlayheadError>(count)
  let first: PlayheadError | undefined
  parts.forEach((part, at) => {
    const ofTopic: readonly (RecordMetadata | PlayheadError)[] | PlayheadError =
      part.status === 'fulfilled' ? part.value : errorsOf(part.reason)
    indexesOf[at]?.forEach((index, i) => {
      const result = ofTopic instanceof PlayheadError ? ofTopic : ofTopic[i]
      if (result === undefined) return
      if (result instanceof PlayheadError) first ??= result
      results[index] = result
    })
  })
  if (first === undefined) return results as RecordMetadata[]
  if (parts.length === 1) throw first
  throw new PartialSendError(results, first)
}

function errorsOf(reason: unknown): readonly (RecordMetadata | PlayheadError)[] | PlayheadError {
  if (reason instanceof PartialSendError) return reason.results
  if (reason instanceof PlayheadError) return reason
  throw reason
}
