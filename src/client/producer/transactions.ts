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
import { AddOffsetsToTxn } from '../../protocol/api/add-offsets-to-txn.ts'
import { AddPartitionsToTxn } from '../../protocol/api/add-partitions-to-txn.ts'
import { ApiVersions } from '../../protocol/api/api-versions.ts'
import { EndTxn } from '../../protocol/api/end-txn.ts'
import { InitProducerId } from '../../protocol/api/init-producer-id.ts'
import { TxnOffsetCommit } from '../../protocol/api/txn-offset-commit.ts'
import { isRetriable, KafkaError } from '../../protocol/errors.ts'
import type { Api, ResponseOf } from '../../protocol/schema.ts'
import type { Body, CallOptions } from '../../rpc/call.ts'
import { Again, retrying } from '../../rpc/retry.ts'
import type { TransactionOffsets } from '../transaction-offsets.ts'
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
const backoff = { firstMs: 20, mostMs: 1_000 }

export class Transactions implements IdentitySource {
  current: Identity | null = null
  readonly #id: string
  readonly #cluster: ProducerCluster
  readonly #settings: Settings
  readonly #host: TransactionHost
  readonly #signal: AbortSignal
  #state: TransactionState = 'unknown'
  #starting = false
  #version2 = false
  /** Why the open transaction can only be aborted, or why there will be none. */
  #failure: PlayheadError | null = null
  readonly #added = new Set<PartitionQueue>()
  readonly #toAdd = new Set<PartitionQueue>()
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
    this.#cluster = cluster
    this.#settings = settings
    this.#host = host
    this.#signal = signal
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
    this.#toAdd.add(partition)
    void this.#addPartitions()
    return false
  }

  /** Records of the transaction could not be written, or maybe not. */
  failed(error: PlayheadError, code: number): void {
    if (this.#state !== 'open' && this.#state !== 'ending') return
    if (code === KafkaError.PRODUCER_FENCED) this.#state = 'fenced'
    this.#fail(error)
  }

  async commitOffsets({ group, ...what }: TransactionOffsets): Promise<void> {
    this.#mustBeGood()
    if (what.offsets.length === 0) return
    try {
      if (!this.#version2 && !this.#groups.has(group)) await this.#addGroup(group)
      this.#begun = true
      this.#groups.add(group)
      await this.#commitGroup(group, what)
    } catch (error) {
      if (error instanceof PlayheadError) this.#fail(error)
      throw error
    }
  }

  async commit(): Promise<void> {
    if (this.#state === 'open' && this.#failure === null) {
      this.#state = 'ending'
      await this.#host.flush()
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
    const cause = this.#failure
    await this.#host.drop(
      new PlayheadError('TRANSACTION_ABORTED', `${this.#what}: aborted`, {
        cause: cause ?? undefined
      })
    )
    await this.#end(false)
  }

  /** Settled by a failure of the coordinator's, or without one: what is left of it can be forgotten. */
  #finished(state: TransactionState): void {
    this.#state = state
    this.#added.clear()
    this.#toAdd.clear()
    this.#groups.clear()
    this.#begun = false
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
    let code: number
    try {
      code = await this.#endAtCoordinator(committed, identity)
    } catch (error) {
      // Whether it took place is unknown; the next `begin` asks for an id, and that ends it, one way or the other.
      this.#finished('unknown')
      throw error
    }
    if (code === 0) {
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

  async #endAtCoordinator(committed: boolean, identity: Identity): Promise<number> {
    const { body, version } = await this.#ask(
      EndTxn,
      {
        transactionalId: this.#id,
        producerId: identity.producerId,
        producerEpoch: identity.epoch,
        committed
      },
      { maxVersion: this.#version2 ? 5 : 4, minVersion: this.#version2 ? 5 : 0 },
      answer => answer.errorCode
    )
    if (body.errorCode === 0 && version >= 5 && body.producerId >= 0n) {
      this.current = { producerId: body.producerId, epoch: body.producerEpoch }
    }
    return body.errorCode
  }

  /**
   * Fenced by another producer, or by the coordinator, which ended a transaction that was open too long: asking
   * for an id with the old epoch tells which (KIP-360).
   */
  async #recover(committed: boolean, identity: Identity): Promise<void> {
    this.#finished('unknown')
    await this.#initialise(identity)
    if (committed) throw this.#abortedByCoordinator()
  }

  #abortedByCoordinator(cause?: PlayheadError): PlayheadError {
    const { transactionTimeoutMs } = this.#settings
    const message = `the coordinator aborted it; was it open longer than transactionTimeoutMs (${transactionTimeoutMs})?`
    const details = { cause, kafkaError: cause?.kafkaError }
    return new PlayheadError('TRANSACTION_ABORTED', `${this.#what}: ${message}`, details)
  }

  async #initialise(identity: Identity | null = this.current): Promise<void> {
    this.#version2 = await this.#supportsVersion2()
    const { producerId = -1n, epoch: producerEpoch = -1 } = identity ?? {}
    const { body } = await this.#ask(
      InitProducerId,
      version => ({
        transactionalId: this.#id,
        transactionTimeoutMs: this.#settings.transactionTimeoutMs,
        ...(version >= 3 ? { producerId, producerEpoch } : {})
      }),
      {},
      answer => answer.errorCode
    )
    const { errorCode } = body
    if (fencing.has(errorCode)) {
      this.#finished('fenced')
      throw this.#fencedError()
    }
    if (forgotten.has(errorCode) && identity !== null) {
      this.current = null
      return this.#initialise(null)
    }
    if (errorCode !== 0) throw brokerError(errorCode, `${this.#what}: could not begin`)
    this.current = { producerId: body.producerId, epoch: body.producerEpoch }
    this.#finished('ready')
  }

  async #supportsVersion2(): Promise<boolean> {
    const { finalizedFeatures } = await retrying(this.#cluster.env, this.#patience(), () =>
      this.#cluster.request(
        ApiVersions,
        { clientSoftwareName: 'playhead', clientSoftwareVersion: '1' },
        { to: { transaction: this.#id }, timeoutMs: this.#settings.requestTimeoutMs }
      )
    )
    const feature = finalizedFeatures.find(({ name }) => name === 'transaction.version')
    return (feature?.maxVersionLevel ?? 0) >= 2
  }

  /** One request at a time, for all that wait. */
  async #addPartitions(): Promise<void> {
    if (this.#adding) return
    this.#adding = true
    try {
      while (this.#toAdd.size > 0 && this.#failure === null) {
        const partitions = [...this.#toAdd]
        this.#toAdd.clear()
        await this.#addSome(partitions)
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

  async #addSome(partitions: readonly PartitionQueue[]): Promise<void> {
    const byTopic = new Map<string, number[]>()
    for (const { topic, partition } of partitions) {
      byTopic.set(topic, [...(byTopic.get(topic) ?? []), partition])
    }
    const identity = this.#identity()
    // Whatever comes of it, the coordinator may know of the transaction from now on.
    this.#begun = true
    const worst = (body: ResponseOf<typeof AddPartitionsToTxn>) =>
      worstOf(
        body.resultsByTopicV3AndBelow.flatMap(({ resultsByPartition }) =>
          resultsByPartition.map(result => result.partitionErrorCode)
        )
      )
    const { body } = await this.#ask(
      AddPartitionsToTxn,
      {
        v3AndBelowTransactionalId: this.#id,
        v3AndBelowProducerId: identity.producerId,
        v3AndBelowProducerEpoch: identity.epoch,
        v3AndBelowTopics: Array.from(byTopic, ([name, list]) => ({ name, partitions: list }))
      },
      { maxVersion: 3 },
      worst
    )
    const code = worst(body)
    if (code !== 0) throw brokerError(code, `${this.#what}: could not add partitions`)
  }

  async #addGroup(group: string): Promise<void> {
    const identity = this.#identity()
    this.#begun = true
    const { body } = await this.#ask(
      AddOffsetsToTxn,
      {
        transactionalId: this.#id,
        producerId: identity.producerId,
        producerEpoch: identity.epoch,
        groupId: group
      },
      { maxVersion: 3 },
      answer => answer.errorCode
    )
    if (body.errorCode === 0) return
    throw brokerError(body.errorCode, `${this.#what}: could not add group ${group}`, { group })
  }

  async #commitGroup(group: string, what: Omit<TransactionOffsets, 'group'>): Promise<void> {
    const identity = this.#identity()
    const worst = (body: ResponseOf<typeof TxnOffsetCommit>) =>
      worstOf(body.topics.flatMap(topic => topic.partitions.map(result => result.errorCode)))
    const topics = topicsOf(what.offsets)
    const { body } = await this.#ask(
      TxnOffsetCommit,
      {
        transactionalId: this.#id,
        groupId: group,
        producerId: identity.producerId,
        producerEpoch: identity.epoch,
        generationIdOrMemberEpoch: what.generation ?? -1,
        memberId: what.memberId ?? '',
        groupInstanceId: what.groupInstanceId ?? null,
        topics
      },
      {
        to: { group },
        minVersion: this.#version2 ? 5 : 3,
        maxVersion: this.#version2 ? 5 : 4
      },
      worst
    )
    const code = worst(body)
    if (code === 0) return
    throw brokerError(code, `${this.#what}: could not commit offsets of group ${group}`, { group })
  }

  /**
   * Asks the coordinator until it gives an answer that is not passing. All these requests may be repeated: the
   * second of two that took effect changes nothing.
   */
  #ask<A extends Api>(
    api: A,
    body: Body<A>,
    options: CallOptions,
    codeOf: (body: ResponseOf<A>) => number
  ): Promise<{ readonly body: ResponseOf<A>; readonly version: number }> {
    const to = options.to ?? { transaction: this.#id }
    const timeoutMs = this.#settings.requestTimeoutMs
    let unknown: PlayheadError | null = null
    return retrying(this.#cluster.env, this.#patience(), async () => {
      try {
        const answer = await this.#cluster.send(api, body, { ...options, to, timeoutMs }).response
        const code = codeOf(answer.body)
        if (code === 0 || !isRetriable(code)) return answer
        if (code === KafkaError.NOT_COORDINATOR || code === KafkaError.COORDINATOR_NOT_AVAILABLE) {
          this.#forgetCoordinator(to)
        }
        return new Again(unknown ?? brokerError(code, `${this.#what}: ${api.name}`))
      } catch (error) {
        if (!(error instanceof PlayheadError)) throw error
        const lost = error.code === 'CONNECTION_LOST' || error.code === 'TIMED_OUT'
        if (!error.retriable && !lost) throw error
        if (!error.retriable) unknown = error
        this.#forgetCoordinator(to)
        return new Again(unknown ?? error)
      }
    })
  }

  #forgetCoordinator(to: NonNullable<CallOptions['to']>): void {
    if (typeof to === 'object' && ('group' in to || 'transaction' in to)) {
      this.#cluster.coordinatorMoved(to)
    }
  }

  #patience() {
    const { clock } = this.#cluster.env
    const deadline = clock.monotonic() + this.#settings.deliveryTimeoutMs
    return { deadline, signals: [this.#signal], backoff }
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
    return new PlayheadError(
      'FENCED',
      `another producer has started with transactionalId ${this.#id}: close this one`,
      { kafkaError: 'PRODUCER_FENCED' }
    )
  }
}

/** The code that decides what becomes of a request with several: a final one before a passing one. */
function worstOf(codes: readonly number[]): number {
  const bad = codes.filter(code => code !== 0 && code !== KafkaError.OPERATION_NOT_ATTEMPTED)
  const first = bad.find(code => !isRetriable(code)) ?? bad[0]
  return first ?? codes.find(code => code !== 0) ?? 0
}

function topicsOf(offsets: TransactionOffsets['offsets']) {
  const byTopic = new Map<string, TransactionOffsets['offsets'][number][]>()
  for (const offset of offsets) {
    byTopic.set(offset.topic, [...(byTopic.get(offset.topic) ?? []), offset])
  }
  return Array.from(byTopic, ([name, list]) => ({
    name,
    partitions: list.map(({ partition, offset, leaderEpoch = -1, metadata = '' }) => ({
      partitionIndex: partition,
      committedOffset: offset,
      committedLeaderEpoch: leaderEpoch,
      committedMetadata: metadata
    }))
  }))
}
