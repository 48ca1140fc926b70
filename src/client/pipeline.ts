/**
 * Consume, transform, produce, each record exactly once: what is written and how far it was read are one transaction.
 *
 *   poll → transform → send → offsets → commit
 *             ↑ the same records again ↓ whenever any of it fails in passing
 *
 * A transaction holds what one poll gave. When it fails, its records come again, but for those whose partition was
 * rewound or is another member's now. When its outcome is unknown, the next `begin` settles it, and what the group has
 * committed says which way it went.
 *
 * A producer of one's own for each pipeline: members that come back as zombies are told by their generation (KIP-447).
 */
import type { Env } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import { backoffMs, sleep } from '../rpc/retry.ts'
import type { Consumer } from './consumer/consumer.ts'
import { type GroupOptions, invalid } from './consumer/options.ts'
import type { Playhead } from './consumer/playhead.ts'
import { type ConsumerRecord, originOf } from './consumer/record.ts'
import type { TopicPartitionOffset } from './partition.ts'
import type { ProducerOptions } from './producer/options.ts'
import type { Producer } from './producer/producer.ts'
import type { BytesInput, TopicRecord } from './producer/record.ts'
import type { Transaction } from './producer/transaction.ts'

/** Where a pipeline reads, and how it writes. */
export interface PipelineOptions<K = Buffer, V = Buffer, OK = BytesInput, OV = BytesInput> {
  /** The group and topics that it reads, and how: a consumer's options. */
  readonly from: Omit<GroupOptions<K, V>, 'commit' | 'commitIntervalMs' | 'isolation'>
  /** How it writes: a producer's options. */
  readonly to?: Omit<
    ProducerOptions<OK, OV>,
    'acks' | 'idempotent' | 'transactionalId' | 'transactionTimeoutMs'
  >
  /**
   * One for each process that runs at a time, the same after a restart: then what a crash has left open is ended at
   * once. Default: the group's name and a random one; a crash then holds up readers for `transactionTimeoutMs`.
   */
  readonly transactionalId?: string
  /** The brokers abort a transaction that is open longer. Default 30,000. */
  readonly transactionTimeoutMs?: number
  /** Most records of a transaction. Default 500. */
  readonly maxRecords?: number
}

/** What a transform gets beside the records. */
export interface PipelineContext<OK = BytesInput, OV = BytesInput> {
  /** Fires when one of the records was overtaken (a rewind, a lost partition): the transaction will be aborted. */
  readonly signal: AbortSignal
  /** To send by hand, beside or instead of returning records. */
  readonly transaction: Transaction<OK, OV>
}

/**
 * Makes records to be written out of those that were read, in their order; nothing is fine too. It is called again for the
 * same records when their transaction failed. What it rejects with ends `run`, and nothing of the transaction remains.
 */
export type Transform<K, V, OK, OV> = (
  records: readonly ConsumerRecord<K, V>[],
  context: PipelineContext<OK, OV>
) => Outputs<OK, OV> | Promise<Outputs<OK, OV>>

/** What a transform may return. */
export type Outputs<OK, OV> = readonly TopicRecord<OK, OV>[] | undefined | void

/** How `run` of a pipeline ends. */
export interface PipelineRunOptions {
  /** Ends it after the transaction that is open. */
  readonly signal?: AbortSignal
}

/** How far a pipeline has come. */
export interface PipelineProgress {
  /** Records whose transaction was committed. */
  readonly records: number
  /** Transactions that were committed. */
  readonly transactions: number
  /** Transactions whose records came again. */
  readonly aborted: number
}

const pollMs = 500
const backoff = { firstMs: 50, mostMs: 2_000 }

/** With these a commit may or may not have taken place. */
const unknown: ReadonlySet<string> = new Set(['TIMED_OUT', 'CONNECTION_LOST'])

/** Errors that another attempt would meet again. */
const lasting: ReadonlySet<string> = new Set([
  'INVALID_ARGUMENT',
  'CLOSED',
  'AUTHENTICATION_FAILED',
  'AUTHORIZATION_FAILED',
  'UNSUPPORTED_VERSION',
  'UNSUPPORTED_COMPRESSION',
  'UNKNOWN_TOPIC',
  'UNKNOWN_PARTITION',
  'TOO_LARGE',
  'FENCED',
  'DESERIALIZATION_FAILED'
])

/** Reads, transforms and writes, each record exactly once. Made by `kafka.pipeline`; close it, or use `await using`. */
export class Pipeline<K, V, OK, OV> implements AsyncDisposable {
  /** What it reads with: for events, `pause`, `lag`; nothing else may read from it. */
  readonly consumer: Consumer<K, V>
  readonly #producer: Producer<OK, OV>
  readonly #transform: Transform<K, V, OK, OV>
  readonly #env: Env
  readonly #maxRecords: number
  readonly #closing = new AbortController()
  #running: Promise<void> | null = null
  readonly #progress = { records: 0, transactions: 0, aborted: 0 }
  #closed: Promise<void> | null = null

  constructor(
    env: Env,
    consumer: Consumer<K, V>,
    producer: Producer<OK, OV>,
    transform: Transform<K, V, OK, OV>,
    maxRecords = 500
  ) {
    if (!Number.isInteger(maxRecords) || maxRecords < 1)
      throw invalid('maxRecords is a positive integer')
    this.#env = env
    this.consumer = consumer
    this.#producer = producer
    this.#transform = transform
    this.#maxRecords = maxRecords
  }

  /** How far it has come. */
  get progress(): PipelineProgress {
    return { ...this.#progress }
  }

  /**
   * Works until it is closed or `signal` fires. Rejects with what the transform rejected with, and with errors that another
   * attempt would meet again: FENCED, when another process took over its transactionalId; a topic that isn't there.
   */
  async run(options: PipelineRunOptions = {}): Promise<void> {
    if (this.#running !== null) throw invalid('this pipeline runs already')
    this.#running = this.#run(options.signal)
    try {
      await this.#running
    } finally {
      this.#running = null
    }
  }

  /** Ends after the transaction that is open, and leaves the group. Always resolves. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  /** The same as `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(): Promise<void> {
    this.#closing.abort()
    // `run` has told its caller.
    await this.#running?.catch(() => {})
    await this.consumer.close()
    await this.#producer.close()
  }

  async #run(signal: AbortSignal | undefined): Promise<void> {
    const ending = signal ? AbortSignal.any([signal, this.#closing.signal]) : this.#closing.signal
    const { consumer } = this
    let failures = 0
    while (!ending.aborted && !consumer.closed) {
      const records = await consumer.poll({ maxRecords: this.#maxRecords, timeoutMs: pollMs })
      if (records.length === 0) continue
      try {
        await this.#transact(records)
        failures = 0
      } catch (error) {
        // Before anything else is asked for: that would say that these are done.
        await this.#failed(records, error, ending)
        failures += 1
        await this.#pause(backoffMs(this.#env.random, backoff, failures), ending)
      }
    }
  }

  async #transact(records: Records<K, V>): Promise<void> {
    const transaction = await this.#producer.begin()
    try {
      const outputs = await this.#transformed(records, transaction)
      if (outputs && outputs.length > 0) await transaction.sendMany(outputs)
      await transaction.commitOffsets(this.consumer)
    } catch (error) {
      if (transaction.isOpen) await this.#abort(transaction)
      throw error
    }
    try {
      await transaction.commit()
    } catch (error) {
      if (error instanceof PlayheadError && unknown.has(error.code)) throw new Unsettled(error)
      throw error
    }
    this.#committed(records)
  }

  async #transformed(
    records: Records<K, V>,
    transaction: Transaction<OK, OV>
  ): Promise<Outputs<OK, OV>> {
    const signal = signalOf(records)
    try {
      return await this.#transform(records, { signal, transaction })
    } catch (cause) {
      // What fails because it was told to stop has not failed.
      if (!signal.aborted) throw new TransformFailure(cause)
      throw new PlayheadError('TRANSACTION_ABORTED', 'its records were overtaken', { cause })
    }
  }

  #committed(records: Records<K, V>): void {
    this.#progress.records += records.length
    this.#progress.transactions += 1
  }

  /** Sees to it that what was not committed comes again. Rejects when there is no point in going on. */
  async #failed(records: Records<K, V>, failure: unknown, ending: AbortSignal): Promise<void> {
    if (failure instanceof Unsettled && (await this.#wasCommitted(records, ending))) {
      return this.#committed(records)
    }
    this.#redeliver(records)
    const error = failure instanceof TransformFailure ? failure.reason : failure
    if (error instanceof Unsettled) return
    const passing = !(failure instanceof TransformFailure) && error instanceof PlayheadError
    if (!passing || !passes(error)) throw error
    this.#env.log.info(`a pipeline's transaction was aborted: ${error.message}`)
  }

  #redeliver(records: Records<K, V>): void {
    this.#progress.aborted += 1
    if (!this.consumer.closed) this.consumer.redeliver(records)
  }

  /** Settles a transaction whose outcome is unknown, by beginning another, and looks which way it went. */
  async #wasCommitted(records: Records<K, V>, ending: AbortSignal): Promise<boolean> {
    for (let failures = 1; !ending.aborted; failures++) {
      try {
        const next = await this.#producer.begin()
        await next.abort()
        const lasts = lastOf(records)
        if (lasts.length === 0) return true // none of them comes again here, whatever became of it
        const committed = await this.consumer.committed(lasts)
        return committed.some(({ offset }, i) => (offset ?? -1) > (lasts[i]?.offset ?? Infinity))
      } catch (error) {
        if (!(error instanceof PlayheadError) || !passes(error)) throw error
        await this.#pause(backoffMs(this.#env.random, backoff, failures), ending)
      }
    }
    // Whoever starts next begins at what is committed: it will know.
    return true
  }

  /** Whatever comes of it: the next `begin` ends what this could not. */
  async #abort(transaction: Transaction<OK, OV>): Promise<void> {
    try {
      await transaction.abort()
    } catch (error) {
      if (!(error instanceof PlayheadError) || error.code === 'FENCED') throw error
      this.#env.log.info(`a pipeline could not abort a transaction: ${error.message}`)
    }
  }

  async #pause(ms: number, ending: AbortSignal): Promise<void> {
    // It ends early by a rejection, and whoever waits looks at the signal anyway.
    await sleep(this.#env.clock, ms, [ending]).catch(() => {})
  }
}

type Records<K, V> = readonly ConsumerRecord<K, V>[]

/** The transform's own failure, which is the application's to see. */
class TransformFailure extends Error {
  readonly reason: unknown

  constructor(reason: unknown) {
    super('the transform failed')
    this.reason = reason
  }
}

/** Nobody knows whether the transaction was committed. */
class Unsettled extends Error {
  constructor(cause: PlayheadError) {
    super(cause.message, { cause })
  }
}

function signalOf(records: Records<unknown, unknown>): AbortSignal {
  const signals = new Set<AbortSignal>()
  for (const record of records) {
    const { playhead, epoch } = originOf(record)
    signals.add(playhead.signalOf(epoch))
  }
  return AbortSignal.any([...signals])
}

/** The last of each partition that hasn't jumped since. */
function lastOf(records: Records<unknown, unknown>): TopicPartitionOffset[] {
  const lasts = new Map<Playhead, TopicPartitionOffset>()
  for (const record of records) {
    const { playhead, epoch } = originOf(record)
    if (playhead.epoch === epoch && playhead.alive) lasts.set(playhead, record)
  }
  return [...lasts.values()].map(({ topic, partition, offset }) => ({ topic, partition, offset }))
}

/** Whether another attempt may go better: nothing in the error, or in what caused it, lasts. */
function passes(error: PlayheadError): boolean {
  for (let cause: unknown = error; cause instanceof PlayheadError; cause = cause.cause) {
    if (lasting.has(cause.code)) return false
  }
  return true
}
