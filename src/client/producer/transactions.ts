/**
 * A transactional id's life with its coordinator.
 *
 *   unknown → ready → open → ending → ready, and so on
 *
 * - `unknown`: no producer id that is sure to be good. `begin` gets one, which also ends what an earlier
 *   incarnation has left open.
 * - `open`: records and offsets are taken. A failure is kept: the transaction can then only be aborted.
 * - `ending`: commit or abort is under way.
 * - `fenced`: another producer has taken the id over. There is no way back.
 *
 * Two protocols: since KIP-890 (transaction.version 2) a broker adds partitions by itself when records come, and
 * each end of a transaction raises the epoch; before, the client adds each partition first.
 */
import { PlayheadError } from '../../base/error.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { TransactionOffsets } from '../transaction-offsets.ts'
import { type Ended, TransactionCoordinator } from './coordinator.ts'
import { brokerError } from './failure.ts'
import type { IdentitySource } from './ids.ts'
import type { Settings } from './options.ts'
import type { ProducerCluster } from './outbox.ts'
import type { Identity, PartitionQueue } from './partition.ts'

export type TransactionState = 'unknown' | 'ready' | 'open' | 'ending' | 'fenced'

/** The producer, as its transactions see it. */
export interface TransactionHost {
  /** All that was sent is settled when it resolves; it never rejects. */
  flush(): Promise<void>
  /** Drops what is not written with `error`; nothing is under way when it resolves. */
  drop(error: PlayheadError): Promise<void>
  /** The transaction can only be aborted: what isn't under way fails, and nothing is tried again. */
  dropAtRest(error: PlayheadError): void
  offer(partition: PartitionQueue): void
}

const fencing: ReadonlySet<number> = new Set([
  KafkaError.INVALID_PRODUCER_EPOCH,
  KafkaError.PRODUCER_FENCED
])
/** The broker forgot the id, or is of another opinion about the state: a new id mends it. */
const forgotten: ReadonlySet<number> = new Set([
  KafkaError.INVALID_PRODUCER_ID_MAPPING,
  KafkaError.UNKNOWN_PRODUCER_ID,
  KafkaError.INVALID_TXN_STATE
])

export class Transactions implements IdentitySource {
  current: Identity | null = null
  readonly #id: string
  readonly #coordinator: TransactionCoordinator
  readonly #settings: Settings
  readonly #host: TransactionHost
  #state: TransactionState = 'unknown'
  #starting = false
  #version2 = false
  /** Why the open transaction can only be aborted, or why there will be none. */
  #failure: PlayheadError | null = null
  readonly #added = new Set<PartitionQueue>()
  /** To be added, or about to be. */
  readonly #asked = new Set<PartitionQueue>()
  readonly #toAdd = new Set<PartitionQueue>()
  readonly #working = new Set<Promise<unknown>>()
  #adding = false
  readonly #groups = new Set<string>()
  /** The coordinator may know of the open transaction. */
  #begun = false

  constructor(
    id: string,
    cluster: ProducerCluster,
    settings: Settings,
    host: TransactionHost,
    signal: AbortSignal
  ) {
    this.#id = id
    this.#coordinator = new TransactionCoordinator(id, cluster, settings, signal)
    this.#settings = settings
    this.#host = host
  }

  get state(): TransactionState {
    return this.#state
  }

  /** Of the open transaction: it can only be aborted. */
  get failure(): PlayheadError | null {
    return this.#failure
  }

  /** KIP-890: a broker tells by the version of Produce which protocol its producer follows. */
  get produceVersions() {
    return this.#version2 ? { minVersion: 12, maxVersion: 13 } : { minVersion: 3, maxVersion: 11 }
  }

  // A transaction begins with an identity and keeps it.
  want(): void {}
  renew(): void {}

  async begin(): Promise<void> {
    if (this.#state === 'fenced') throw this.#fencedError()
    if (this.#starting || this.#state === 'open' || this.#state === 'ending') {
      throw new PlayheadError(
        'INVALID_ARGUMENT',
        `${this.#what}: a transaction is open already; a producer has one at a time`
      )
    }
    this.#starting = true
    try {
      if (this.#state === 'unknown') await this.#initialise()
    } finally {
      this.#starting = false
    }
    this.#failure = null
    this.#state = 'open'
  }

  /** Whether `partition` may send now; if not, it is offered again when it may. */
  mayProduce(partition: PartitionQueue): boolean {
    if (this.#state !== 'open' && this.#state !== 'ending') return false
    if (this.#added.has(partition)) return true
    if (this.#failure !== null) return false
    if (this.#version2) {
      this.#begun = true
      this.#added.add(partition)
      return true
    }
    if (this.#asked.has(partition)) return false
    this.#asked.add(partition)
    this.#toAdd.add(partition)
    if (!this.#adding) void this.#work(this.#addPartitions())
    return false
  }

  /** Records of the transaction could not be written, or maybe not. */
  failed(error: PlayheadError, code: number): void {
    if (this.#state !== 'open' && this.#state !== 'ending') return
    if (code === KafkaError.PRODUCER_FENCED) this.#state = 'fenced'
    this.#fail(error)
  }

  async commitOffsets(offsets: TransactionOffsets): Promise<void> {
    this.#mustBeGood()
    if (offsets.offsets.length > 0) await this.#work(this.#commitOffsets(offsets))
  }

  async #commitOffsets(offsets: TransactionOffsets): Promise<void> {
    const { group } = offsets
    const identity = this.#identity()
    this.#begun = true
    try {
      if (!this.#version2 && !this.#groups.has(group)) {
        await this.#coordinator.addGroup(identity, group)
      }
      this.#groups.add(group)
      if (this.#failure !== null) throw this.#failure
      await this.#coordinator.commitOffsets(identity, offsets, this.#version2)
    } catch (error) {
      if (error instanceof PlayheadError) this.#fail(error)
      throw error
    }
  }

  async commit(): Promise<void> {
    if (this.#state === 'open' && this.#failure === null) {
      this.#state = 'ending'
      await this.#host.flush()
      await this.#workDone()
    }
    if (this.#stateNow() === 'fenced') throw this.#fencedError()
    if (this.#failure !== null) {
      const cause: PlayheadError = this.#failure
      await this.abort()
      throw new PlayheadError(
        'TRANSACTION_ABORTED',
        `${this.#what}: aborted, as a part of it failed: ${cause.message}`,
        { cause, kafkaError: cause.kafkaError }
      )
    }
    if (this.#state !== 'ending') throw this.#noneOpen()
    await this.#end(true)
  }

  /** Also after a failure. Resolves when nothing of the transaction can be read any more. */
  async abort(): Promise<void> {
    if (this.#state === 'fenced') throw this.#fencedError()
    if (this.#state !== 'open' && this.#state !== 'ending') throw this.#noneOpen()
    this.#state = 'ending'
    const cause = this.#failure ?? undefined
    const error = new PlayheadError('TRANSACTION_ABORTED', `${this.#what}: aborted`, { cause })
    this.#failure = error
    await this.#host.drop(error)
    await this.#workDone()
    if (this.#stateNow() === 'fenced') throw this.#fencedError()
    await this.#end(false)
  }

  /** Settled by a failure of the coordinator's, or without one: what is left of it can be forgotten. */
  #finished(state: TransactionState): void {
    this.#state = state
    this.#added.clear()
    this.#asked.clear()
    this.#toAdd.clear()
    this.#groups.clear()
    this.#begun = false
  }

  /**
   * A request of the open transaction. Its end waits for all of them: one that is tried again would else arrive
   * in the next transaction, with the epoch of this one, and look like another producer.
   */
  async #work<T>(request: Promise<T>): Promise<T> {
    this.#working.add(request)
    try {
      return await request
    } finally {
      this.#working.delete(request)
    }
  }

  async #workDone(): Promise<void> {
    while (this.#working.size > 0) await Promise.allSettled(this.#working)
  }

  #fail(error: PlayheadError): void {
    if (this.#failure !== null) return
    this.#failure = error
    this.#host.dropAtRest(error)
  }

  async #end(committed: boolean): Promise<void> {
    // Nothing was begun at the coordinator.
    if (!this.#begun) return this.#finished('ready')
    const identity = this.#identity()
    let answer: Ended
    try {
      answer = await this.#coordinator.endTxn(identity, committed, this.#version2)
    } catch (error) {
      // Whether it took place is unknown; the next `begin` asks for an id, and that ends it, one way or the other.
      this.#finished('unknown')
      throw error
    }
    const { code, next } = answer
    if (code === 0) {
      this.current = next
      // Batches that were dropped leave a gap in the sequences; the old protocol doesn't raise the epoch by itself.
      this.#finished(committed || this.#version2 ? 'ready' : 'unknown')
      return
    }
    if (committed && code === KafkaError.TRANSACTION_ABORTABLE) {
      this.#failure = brokerError(code, this.#what)
      return this.commit()
    }
    if (fencing.has(code)) return this.#recover(committed, identity)
    this.#finished('unknown')
    const error = brokerError(code, `${this.#what}: could not ${committed ? 'commit' : 'abort'}`)
    if (!forgotten.has(code)) throw error
    this.current = null
    if (committed) throw this.#abortedByCoordinator(error)
  }

  /**
   * Fenced by another producer, or by the coordinator, which ended a transaction that was open too long: asking
   * for an id with the old epoch tells which (KIP-360).
   */
  async #recover(committed: boolean, identity: Identity): Promise<void> {
    this.#finished('unknown')
    try {
      await this.#initialise(identity, 3)
    } catch (error) {
      if (!(error instanceof PlayheadError) || error.code !== 'UNSUPPORTED_VERSION') throw error
      // Without that question an id would be had, and taken from whoever has it now.
      this.#finished('fenced')
      throw this.#fencedError()
    }
    if (committed) throw this.#abortedByCoordinator()
  }

  #abortedByCoordinator(cause?: PlayheadError): PlayheadError {
    const { transactionTimeoutMs } = this.#settings
    const message = `the coordinator aborted it; was it open longer than transactionTimeoutMs (${transactionTimeoutMs})?`
    const details = { cause, kafkaError: cause?.kafkaError }
    return new PlayheadError('TRANSACTION_ABORTED', `${this.#what}: ${message}`, details)
  }

  async #initialise(identity: Identity | null = this.current, minVersion = 0): Promise<void> {
    this.#version2 = await this.#coordinator.supportsVersion2()
    const { code, next } = await this.#coordinator.initProducerId(identity, minVersion)
    if (fencing.has(code)) {
      this.#finished('fenced')
      throw this.#fencedError()
    }
    if (forgotten.has(code) && identity !== null) {
      this.current = null
      return this.#initialise(null)
    }
    if (code !== 0) throw brokerError(code, `${this.#what}: could not begin`)
    this.current = next
    this.#finished('ready')
  }

  /** One request at a time, for all that wait. */
  async #addPartitions(): Promise<void> {
    this.#adding = true
    try {
      while (this.#toAdd.size > 0 && this.#failure === null) {
        const partitions = [...this.#toAdd]
        this.#toAdd.clear()
        // Whatever comes of it, the coordinator may know of the transaction from now on.
        this.#begun = true
        await this.#coordinator.addPartitions(this.#identity(), partitions)
        for (const partition of partitions) {
          this.#added.add(partition)
          this.#host.offer(partition)
        }
      }
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
      this.#fail(error)
    } finally {
      this.#adding = false
    }
  }

  #mustBeGood(): void {
    if (this.#state === 'fenced') throw this.#fencedError()
    if (this.#state !== 'open') throw this.#noneOpen()
    if (this.#failure === null) return
    const cause = this.#failure
    const message = `${this.#what}: can only be aborted: ${cause.message}`
    throw new PlayheadError('TRANSACTION_ABORTED', message, { cause })
  }

  #identity(): Identity {
    if (this.current === null) throw this.#noneOpen()
    return this.current
  }

  // The compiler doesn't know that an await changes it.
  #stateNow(): TransactionState {
    return this.#state
  }

  get #what(): string {
    return `transaction of ${this.#id}`
  }

  #noneOpen(): PlayheadError {
    return new PlayheadError('INVALID_ARGUMENT', `${this.#what}: none is open`)
  }

  #fencedError(): PlayheadError {
    // Kafka 4.0 says the same to both, also when it is asked.
    const { transactionTimeoutMs } = this.#settings
    const message =
      `another producer has started with transactionalId ${this.#id}, or the brokers gave up a transaction open ` +
      `longer than transactionTimeoutMs (${transactionTimeoutMs}): close this one`
    return new PlayheadError('FENCED', message, { kafkaError: 'PRODUCER_FENCED' })
  }
}
