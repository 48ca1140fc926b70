/**
 * The producer that callers hold. A record's way: checked here, then `Admission` (is its topic known, is there
 * room), `Outbox.append` into the batch of its partition, `Sink` to the leader's broker, and the answer back to
 * the promise (`Sending`). One promise a call.
 */
import { onAbort } from '../../base/abort.ts'
import type { Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { Admission } from './admission.ts'
import { check, serialized } from './checks.ts'
import { Interception } from './interception.ts'
import { type IdentitySource, ProducerIds } from './ids.ts'
import { invalid, type ProducerOptions, type Settings, settingsOf } from './options.ts'
import { Outbox, type OutboxOwner, type ProducerCluster } from './outbox.ts'
import type { PartitionQueue } from './partition.ts'
import type {
  BytesInput,
  ProducerRecord,
  RecordMetadata,
  Serializer,
  TopicRecord,
  WireRecord
} from './record.ts'
import { gather, ManySending, OneSending } from './sending.ts'
import { OpenTransaction, type Transaction, type TransactionDoor } from './transaction.ts'
import { Transactions } from './transactions.ts'

/** How often deadlines are looked at, in ms; promises settle that much late at most. */
const sweepMs = 250
const allProduceVersions = { minVersion: 3, maxVersion: 13 }

/**
 * Sends records: in batches, each once and in order unless the options say otherwise (docs/producer.md). Close it,
 * or declare it with `await using`.
 */
export class Producer<K = BytesInput, V = BytesInput> {
  readonly #settings: Settings
  readonly #cluster: ProducerCluster
  readonly #outbox: Outbox
  readonly #admission: Admission
  readonly #ids: IdentitySource | null
  readonly #transactions: Transactions | null
  readonly #key: Serializer<K> | undefined
  readonly #value: Serializer<V> | undefined
  readonly #interception: Interception<K, V> | null
  readonly #abort = new AbortController()
  readonly #deafen: () => void
  #transaction: Transaction<K, V> | null = null
  #flushing = 0
  #sweep: Timer | undefined
  #closing: Promise<void> | undefined
  /** Who waits for something to leave a gate or a queue. */
  #watchers: (() => void)[] = []

  /** Throws INVALID_ARGUMENT. Nothing is asked of any broker before the first send. */
  constructor(cluster: ProducerCluster, options: ProducerOptions<K, V> = {}) {
    const settings = settingsOf(options)
    const { signal } = this.#abort
    this.#settings = settings
    this.#cluster = cluster
    this.#key = options.key
    this.#value = options.value
    const { onSend, onSettled } = options
    this.#interception =
      onSend || onSettled ? new Interception<K, V>(cluster.env, { onSend, onSettled }) : null
    this.#outbox = new Outbox(cluster, settings, this.#owner())
    this.#admission = new Admission(cluster, this.#outbox, signal, () => this.#changed())
    const { transactionalId } = settings
    this.#transactions =
      transactionalId === null
        ? null
        : new Transactions(transactionalId, cluster, settings, this.#transactionHost(), signal)
    this.#ids =
      this.#transactions ??
      (settings.idempotent
        ? new ProducerIds(cluster, cluster.env, settings, signal, error => this.#gotId(error))
        : null)
    this.#deafen = onAbort(cluster.closing, this.#orphaned)
    if (cluster.closing.aborted) this.#orphaned()
  }

  /** Without its cluster nothing can be sent any more. */
  readonly #orphaned = () => {
    this.#closing ??= Promise.resolve()
    this.#end()
  }

  /**
   * Sends a record. Resolves when it is written as `acks` says. Rejects at once with INVALID_ARGUMENT, TOO_LARGE,
   * QUEUE_FULL or CLOSED; later with UNKNOWN_TOPIC, UNKNOWN_PARTITION, AUTHORIZATION_FAILED, TRANSACTION_ABORTED,
   * FENCED, BROKER_ERROR: the record was not written. With TIMED_OUT, CONNECTION_LOST or CLOSED that is not
   * `retriable` it may have been.
   */
  send(topic: string, record: ProducerRecord<K, V>): Promise<RecordMetadata> {
    return this.#send(topic, record, null)
  }

  /**
   * Sends records, in order; far cheaper than as many `send`s. Resolves to a result for each, in order, when all
   * are written. Rejects as `send` does when all failed alike, else with a `PartialSendError` that has the results.
   */
  sendMany(topic: string, records: readonly ProducerRecord<K, V>[]): Promise<RecordMetadata[]>
  /** The same, where each record names its topic. */
  sendMany(records: readonly TopicRecord<K, V>[]): Promise<RecordMetadata[]>
  sendMany(
    topic: string | readonly TopicRecord<K, V>[],
    records: readonly ProducerRecord<K, V>[] = []
  ): Promise<RecordMetadata[]> {
    return this.#sendMany(topic, records, null)
  }

  /** Sends what waits, lingering or not. Resolves when all that was sent before has settled, in whatever way. */
  async flush(): Promise<void> {
    const until = this.#cluster.env.clock.monotonic() + this.#settings.deliveryTimeoutMs
    this.#flushing++
    try {
      for (;;) {
        this.#outbox.offerAll()
        if (!this.#admission.holds(until)) break
        await this.#change()
      }
      await this.#allSettled()
    } finally {
      this.#flushing--
    }
  }

  /**
   * Starts a transaction; for producers with a `transactionalId`, one at a time. The first one fences every other
   * producer with the same id and ends what it has left open.
   */
  async begin(): Promise<Transaction<K, V>> {
    if (this.#closing !== undefined) throw closedError()
    if (this.#transactions === null) {
      throw new PlayheadError('INVALID_ARGUMENT', 'transactions need a transactionalId')
    }
    await this.#transactions.begin()
    const transaction = new OpenTransaction(this.#transactionDoor(this.#transactions))
    this.#transaction = transaction
    if (this.#closingNow() !== undefined) {
      await transaction.abort()
      throw closedError()
    }
    return transaction
  }

  /** Runs `work` in a transaction: committed when it resolves, aborted when it rejects, which it then does too. */
  async transaction<T>(work: (transaction: Transaction<K, V>) => Promise<T>): Promise<T> {
    const transaction = await this.begin()
    let result: T
    try {
      result = await work(transaction)
    } catch (error) {
      if (transaction.isOpen) await transaction.abort()
      throw error
    }
    if (transaction.isOpen) await transaction.commit()
    return result
  }

  /**
   * Flushes, aborts an open transaction, and ends; what is not written within `timeoutMs` (default: the
   * producer's `deliveryTimeoutMs`) fails with CLOSED. Further calls are refused from the start.
   */
  close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    this.#closing ??= this.#close(options.timeoutMs ?? this.#settings.deliveryTimeoutMs)
    return this.#closing
  }

  /** The same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(timeoutMs: number): Promise<void> {
    const timer = this.#cluster.env.clock.after(timeoutMs, () => this.#end())
    try {
      if (this.#transaction?.isOpen === true) await this.#abortQuietly(this.#transaction)
      else await this.flush()
    } finally {
      timer.cancel()
      this.#end()
    }
  }

  /** The caller of `close` has asked for an end, not for its success: the transaction is gone either way. */
  async #abortQuietly(transaction: Transaction<K, V>): Promise<void> {
    try {
      await transaction.abort()
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
      this.#cluster.env.log.warn(`close could not abort the open transaction: ${error.message}`)
    }
  }

  #end(): void {
    if (this.#abort.signal.aborted) return
    const error = closedError()
    this.#abort.abort(error)
    this.#deafen()
    this.#sweep?.cancel()
    this.#admission.refuseAll(error)
    this.#outbox.failAll(error)
    this.#outbox.close()
    this.#changed()
  }

  #send(
    topic: string,
    record: ProducerRecord<K, V>,
    within: Transaction<K, V> | null
  ): Promise<RecordMetadata> {
    if (this.#interception === null) return this.#sendOne(topic, record, within)
    return this.#interception.around(topic, [record], ([seen = record]) =>
      this.#sendOne(topic, seen, within)
    )
  }

  #sendOne(
    topic: string,
    record: ProducerRecord<K, V>,
    within: Transaction<K, V> | null
  ): Promise<RecordMetadata> {
    return new Promise((resolve, reject) => {
      this.#mustBeOpen(within)
      const wire = this.#wire(topic, record)
      const partition = check(topic, wire, this.#settings)
      const { clock } = this.#cluster.env
      const deadline = clock.monotonic() + this.#settings.deliveryTimeoutMs
      const sending = new OneSending(topic, wire, clock.now(), deadline, resolve, reject)
      this.#admission.submit(sending, partition)
      this.#watchDeadlines()
    })
  }

  #sendMany(
    topic: string | readonly TopicRecord<K, V>[],
    records: readonly ProducerRecord<K, V>[],
    within: Transaction<K, V> | null
  ): Promise<RecordMetadata[]> {
    if (typeof topic !== 'string') return this.#sendToTopics(topic, within)
    if (this.#interception === null || !Array.isArray(records)) {
      return this.#sendAll(topic, records, within)
    }
    return this.#interception.around(topic, records, seen => this.#sendAll(topic, seen, within))
  }

  #sendAll(
    topic: string,
    records: readonly ProducerRecord<K, V>[],
    within: Transaction<K, V> | null
  ): Promise<RecordMetadata[]> {
    return new Promise((resolve, reject) => {
      this.#mustBeOpen(within)
      if (!Array.isArray(records)) throw invalid('sendMany takes an array of records')
      const wires =
        this.#key === undefined && this.#value === undefined
          ? (records as readonly WireRecord[])
          : records.map(record => this.#wire(topic, record))
      let highest = -1
      for (let i = 0; i < wires.length; i++) {
        highest = Math.max(highest, check(topic, wires[i], this.#settings))
      }
      const { clock } = this.#cluster.env
      const deadline = clock.monotonic() + this.#settings.deliveryTimeoutMs
      const sending = new ManySending(topic, wires, clock.now(), deadline, resolve, reject)
      this.#admission.submit(sending, highest)
      this.#watchDeadlines()
    })
  }

  async #sendToTopics(
    records: readonly TopicRecord<K, V>[],
    within: Transaction<K, V> | null
  ): Promise<RecordMetadata[]> {
    if (!Array.isArray(records)) throw invalid('sendMany takes a topic and records, or records')
    const byTopic = new Map<string, number[]>()
    records.forEach(({ topic }: TopicRecord<K, V>, index) => {
      const list = byTopic.get(topic)
      if (list === undefined) byTopic.set(topic, [index])
      else list.push(index)
      check(topic, this.#wire(topic, records[index] as TopicRecord<K, V>), this.#settings)
    })
    const parts = await Promise.allSettled(
      Array.from(byTopic, ([topic, indexes]) =>
        this.#sendMany(
          topic,
          indexes.map(index => records[index] as TopicRecord<K, V>),
          within
        )
      )
    )
    return gather(records.length, [...byTopic.values()], parts)
  }

  /** The record as bytes. */
  #wire(topic: string, record: ProducerRecord<K, V>): WireRecord {
    const key = this.#key
    const value = this.#value
    if (key === undefined && value === undefined) return record as WireRecord
    return {
      ...record,
      key: serialized(key, record.key, topic),
      value: serialized(value, record.value, topic)
    }
  }

  #mustBeOpen(within: Transaction<K, V> | null): void {
    if (this.#closing !== undefined) throw closedError()
    if (this.#transactions === null) return
    if (within === null) {
      throw invalid(
        'a producer with a transactionalId sends in transactions: begin() or transaction()'
      )
    }
    if (within !== this.#transaction || !within.isOpen) throw invalid('the transaction has ended')
    const cause = this.#transactions.failure
    if (cause === null) return
    const message = `the transaction can only be aborted: ${cause.message}`
    throw new PlayheadError('TRANSACTION_ABORTED', message, { cause })
  }

  #gotId(error: PlayheadError | null): void {
    if (error !== null && !error.retriable) this.#outbox.failAtRest(error)
    else this.#outbox.offerAll()
  }

  /** Once in a while, as long as anything waits. */
  #watchDeadlines(): void {
    if (this.#sweep !== undefined || this.#abort.signal.aborted) return
    const { clock } = this.#cluster.env
    this.#sweep = clock.after(sweepMs, () => {
      this.#sweep = undefined
      const now = clock.monotonic()
      this.#admission.sweep(now)
      this.#outbox.sweep(now)
      this.#changed()
      if (!this.#outbox.isEmpty || this.#admission.waiting > 0) this.#watchDeadlines()
    })
  }

  /** Resolves when no batch that is there now is unsettled. */
  #allSettled(): Promise<void> {
    return new Promise(resolve => {
      let left = 1
      const settled = () => {
        if (--left === 0) resolve()
      }
      for (const batch of this.#outbox.batches()) {
        if (batch.settled) continue
        left++
        batch.addReceipt({ settled })
      }
      settled()
    })
  }

  #change(): Promise<void> {
    return new Promise(resolve => this.#watchers.push(resolve))
  }

  #changed(): void {
    if (this.#watchers.length === 0) return
    const watchers = this.#watchers
    this.#watchers = []
    for (const watcher of watchers) watcher()
  }

  #owner(): OutboxOwner {
    return {
      identities: () => this.#ids,
      produceVersions: () => this.#transactions?.produceVersions ?? allProduceVersions,
      rushing: () => this.#flushing > 0 || this.#admission.isFull,
      mayProduce: partition => this.#transactions?.mayProduce(partition) ?? true,
      roomCame: () => {
        this.#admission.roomCame()
        this.#changed()
      },
      failed: (error, code) => this.#transactions?.failed(error, code)
    }
  }

  #transactionHost() {
    return {
      flush: () => this.flush(),
      offer: (partition: PartitionQueue) => this.#outbox.offer(partition),
      dropAtRest: (error: PlayheadError) => {
        this.#outbox.givingUp = error
        this.#outbox.failAtRest(error)
      },
      drop: async (error: PlayheadError) => {
        this.#outbox.givingUp = error
        this.#admission.refuseAll(error)
        this.#outbox.failAtRest(error)
        while (!this.#outbox.isEmpty && !this.#abort.signal.aborted) await this.#change()
        this.#outbox.givingUp = null
      }
    }
  }

  #transactionDoor(transactions: Transactions): TransactionDoor<K, V> {
    return {
      send: (topic, record, within) => this.#send(topic, record, within),
      sendMany: (topic, records, within) => this.#sendMany(topic, records, within),
      commitOffsets: offsets => transactions.commitOffsets(offsets),
      commit: () => transactions.commit(),
      abort: () => transactions.abort()
    }
  }

  // The compiler doesn't know that an await changes it.
  #closingNow(): Promise<void> | undefined {
    return this.#closing
  }
}

function closedError(): PlayheadError {
  return new PlayheadError('CLOSED', 'the producer is closed')
}
