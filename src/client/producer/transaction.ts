/** A transaction as its caller holds it: a door to the producer that shuts at commit or abort. */
import type {
  TransactionOffsets,
  TransactionOffsetsSource,
  TransactionOutcome
} from '../transaction-offsets.ts'
import { invalid } from './options.ts'
import type { BytesInput, ProducerRecord, RecordMetadata, TopicRecord } from './record.ts'

/** What the producer does for its open transaction. */
export interface TransactionDoor<K, V> {
  send(
    topic: string,
    record: ProducerRecord<K, V>,
    within: Transaction<K, V>
  ): Promise<RecordMetadata>
  sendMany(
    topic: string | readonly TopicRecord<K, V>[],
    records: readonly ProducerRecord<K, V>[],
    within: Transaction<K, V>
  ): Promise<RecordMetadata[]>
  commitOffsets(offsets: TransactionOffsets): Promise<void>
  commit(): Promise<void>
  abort(): Promise<void>
}

/**
 * A transaction, from `begin` to its commit or abort. Whatever is sent through it becomes visible together, or not at all.
 * When it has ended, each call rejects with INVALID_ARGUMENT.
 */
export interface Transaction<K = BytesInput, V = BytesInput> {
  /** Neither commit nor abort was called. */
  readonly isOpen: boolean
  /** As `Producer.send`. The record can be read by others (at read_committed) after the commit only. */
  send(topic: string, record: ProducerRecord<K, V>): Promise<RecordMetadata>
  /** As `Producer.sendMany`: all records to one topic. */
  sendMany(topic: string, records: readonly ProducerRecord<K, V>[]): Promise<RecordMetadata[]>
  /** As `Producer.sendMany`: each record names its topic. */
  sendMany(records: readonly TopicRecord<K, V>[]): Promise<RecordMetadata[]>
  /**
   * Commits a consumer's offsets, or those given, with the transaction. Rejects with STALE_GENERATION when the
   * group has moved on; the transaction can then only be aborted.
   */
  commitOffsets(from: TransactionOffsetsSource | TransactionOffsets): Promise<void>
  /**
   * Waits until all that was sent is written, and commits it: it will be visible, whatever happens, a moment
   * later, when the coordinator has written that into the partitions. Rejects with TRANSACTION_ABORTED when a part
   * of it failed, and then it is aborted; with FENCED; with TIMED_OUT when the outcome is not known.
   */
  commit(): Promise<void>
  /** Ends it without effect: what was sent will never be visible (at read_committed), and offsets stay as they were. */
  abort(): Promise<void>
}

/** A transaction that hands on what it is told until it is shut. */
export class OpenTransaction<K, V> implements Transaction<K, V> {
  readonly #door: TransactionDoor<K, V>
  readonly #taken = new Map<TransactionOffsets, TransactionOffsetsSource>()
  #open = true

  constructor(door: TransactionDoor<K, V>) {
    this.#door = door
  }

  get isOpen(): boolean {
    return this.#open
  }

  send(topic: string, record: ProducerRecord<K, V>): Promise<RecordMetadata> {
    return this.#door.send(topic, record, this)
  }

  sendMany(topic: string, records: readonly ProducerRecord<K, V>[]): Promise<RecordMetadata[]>
  sendMany(records: readonly TopicRecord<K, V>[]): Promise<RecordMetadata[]>
  sendMany(
    topic: string | readonly TopicRecord<K, V>[],
    records: readonly ProducerRecord<K, V>[] = []
  ): Promise<RecordMetadata[]> {
    return this.#door.sendMany(topic, records, this)
  }

  async commitOffsets(from: TransactionOffsetsSource | TransactionOffsets): Promise<void> {
    if (!this.#open) throw invalid('the transaction has ended')
    if ('offsets' in from) return await this.#door.commitOffsets(from)
    const offsets = await from.transactionOffsets()
    this.#taken.set(offsets, from)
    await this.#door.commitOffsets(offsets)
  }

  async commit(): Promise<void> {
    this.#end()
    try {
      await this.#door.commit()
    } catch (error) {
      this.#tell('unknown')
      throw error
    }
    this.#tell('committed')
  }

  async abort(): Promise<void> {
    this.#end()
    try {
      await this.#door.abort()
    } finally {
      this.#tell('aborted')
    }
  }

  #tell(outcome: TransactionOutcome): void {
    for (const [offsets, source] of this.#taken) source.transactionEnded?.(offsets, outcome)
  }

  #end(): void {
    if (!this.#open) throw invalid('the transaction has ended')
    this.#open = false
  }
}
