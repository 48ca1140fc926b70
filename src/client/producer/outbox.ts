/**
 * What is between the callers and the sinks: the topics, who leads what, the batches and what became of them,
 * and the bytes they take. Decisions about a partition's order are the queue's (partition.ts), I/O is the sink's.
 */
import type { Env } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { BufferPool } from '../../protocol/records/pool.ts'
import type { Rpc } from '../../rpc/call.ts'
import type { LeaderEndpoint, LeaderHint, Metadata, TopicMetadata } from '../../rpc/metadata.ts'
import { backoffMs } from '../../rpc/retry.ts'
import { Batch } from './batch.ts'
import { brokerError, isMoved, mayBeWritten, verdictOf } from './failure.ts'
import type { IdentitySource } from './ids.ts'
import type { Settings } from './options.ts'
import type { Identity, PartitionQueue, QueueRules } from './partition.ts'
import { StickyPartition } from './partitioner.ts'
import { headersOf } from './record.ts'
import type { Sending } from './sending.ts'
import { Sink, type SinkHost } from './sink.ts'
import { splitBatch } from './split.ts'
import { Topic } from './topic.ts'

/** The part of a cluster that a producer needs. */
export interface ProducerCluster extends Rpc {
  /** The world that it lives in. */
  readonly env: Env
  /** The newest there is. */
  readonly metadata: Metadata
  /** Fires when the cluster is closed. */
  readonly closing: AbortSignal
  /** Asks for the metadata now, and watches the topics from then on. */
  refresh(options?: {
    readonly topics?: readonly string[]
    readonly signal?: AbortSignal
  }): Promise<Metadata>
  /** What is known of a topic, asked for when nothing is. Rejects with UNKNOWN_TOPIC. */
  topic(name: string, options?: { readonly signal?: AbortSignal }): Promise<TopicMetadata>
  /** Tells of each new value; returns how to stop. */
  watch(listener: (metadata: Metadata) => void): () => void
  /** An answer said that the metadata is old: it is asked for soon. */
  stale(why: string): void
  /** A broker that leads a partition no more said who does (KIP-951). */
  learned(hints: readonly LeaderHint[], endpoints: readonly LeaderEndpoint[]): void
  /** Forgets where a coordinator was. */
  coordinatorMoved(target: { group: string } | { transaction: string }): void
}

/** Who has a say in what is sent, beside the queues. */
export interface OutboxOwner {
  /** Null: without idempotence. */
  identities(): IdentitySource | null
  produceVersions(): { readonly minVersion: number; readonly maxVersion: number }
  /** Somebody waits: batches that are not full leave at once. */
  rushing(): boolean
  mayProduce(partition: PartitionQueue): boolean
  /** Bytes were given back. */
  roomCame(): void
  /** Records of a partition failed with this. */
  failed(error: PlayheadError, code: number): void
}

/** A partition's share before the sticky partition may change: Kafka's batch.size (KIP-794). */
const stickyBytes = 16_384
const pooledBytes = 16 * 1024 * 1024
/** Between attempts of one partition. Attempts are on a grid of `firstMs`, so that many partitions share requests. */
const produceBackoff = { firstMs: 100, mostMs: 1_000 }
/** From a batch's deadline until it is given up although its request has not ended. */
const graceMs = 100
const zeroId = 'AAAAAAAAAAAAAAAAAAAAAA'

export class Outbox implements SinkHost {
  readonly env: Env
  readonly rpc: Rpc
  readonly settings: Settings
  bufferedBytes = 0
  /** While set nothing is tried again: what a transaction that is aborted had under way fails with this. */
  givingUp: PlayheadError | null = null
  /** Partitions that have batches. */
  readonly #active = new Set<PartitionQueue>()
  readonly #topics = new Map<string, Topic>()
  readonly #sinks = new Map<number, Sink>()
  readonly #pool = new BufferPool(pooledBytes)
  readonly #rules: QueueRules
  readonly #cluster: ProducerCluster
  readonly #owner: OutboxOwner
  readonly #unwatch: () => void
  #closed = false

  constructor(cluster: ProducerCluster, settings: Settings, owner: OutboxOwner) {
    const { idempotent, acks, maxInFlight } = settings
    this.env = cluster.env
    this.rpc = cluster
    this.settings = settings
    this.#cluster = cluster
    this.#owner = owner
    this.#rules = { idempotent, maxInFlight: idempotent || acks === 0 ? maxInFlight : 1 }
    this.#unwatch = cluster.watch(metadata => {
      for (const topic of this.#topics.values()) {
        this.#update(topic, metadata.topics.get(topic.name))
      }
    })
  }

  /** Undefined until `know`. */
  topic(name: string): Topic | undefined {
    return this.#topics.get(name)
  }

  /** Takes in what the cluster says of a topic. */
  know(metadata: TopicMetadata): Topic {
    let topic = this.#topics.get(metadata.topic)
    if (topic === undefined) {
      topic = new Topic(metadata.topic, new StickyPartition(this.env.random, stickyBytes))
      this.#topics.set(metadata.topic, topic)
    }
    this.#update(topic, metadata)
    return topic
  }

  /** Appends what `sending` has next. Throws UNKNOWN_PARTITION. */
  append(topic: Topic, sending: Sending): void {
    const record = sending.current
    if (record === undefined) return
    const queue = topic.choose(record, this.settings.partitioner)
    const { key, value, timestamp = sending.timestamp } = record
    const headers = headersOf(record.headers)
    let batch = queue.open
    let before = batch?.sizeBytes ?? 0
    let index = batch === undefined ? -1 : batch.append(timestamp, key, value, headers)
    if (batch === undefined || index < 0) {
      if (batch !== undefined) {
        this.batchEnded(batch)
        // What has no key may go elsewhere now: nothing was appended yet.
        if (this.#turnsAway(topic, queue, sending)) return
      }
      batch = this.#begin(queue)
      before = 0
      index = batch.append(timestamp, key, value, headers)
      this.offer(queue)
    }
    const grown = batch.sizeBytes - before
    this.bufferedBytes += grown
    if (key === undefined || key === null) topic.sticky.grew(grown)
    if (sending.deadline < batch.deadline) batch.deadline = sending.deadline
    sending.appended(batch, index, timestamp)
  }

  /** Batches that are not settled, of all partitions. */
  *batches(): Generator<Batch, void, undefined> {
    for (const queue of this.#active) yield* queue.batches
  }

  get isEmpty(): boolean {
    return this.#active.size === 0
  }

  offer(partition: PartitionQueue): void {
    if (partition.leader < 0 || partition.batches.length === 0 || this.#closed) return
    this.#sink(partition.leader).offer(partition)
  }

  offerAll(): void {
    for (const queue of this.#active) this.offer(queue)
  }

  get rushing(): boolean {
    return this.#owner.rushing()
  }

  identity(): Identity | null {
    const identities = this.#owner.identities()
    if (identities !== null && identities.current === null) identities.want()
    return identities?.current ?? null
  }

  renewIdentity(): void {
    this.#owner.identities()?.renew()
  }

  get produceVersions() {
    return this.#owner.produceVersions()
  }

  mayProduce(partition: PartitionQueue): boolean {
    return this.#owner.mayProduce(partition)
  }

  topicIdOf(topic: string): string {
    const id = this.#topics.get(topic)?.topicId
    return id === undefined || id === zeroId ? '' : id
  }

  batchEnded(batch: Batch): void {
    batch.closed = true
    this.#topics.get(batch.topic)?.sticky.batchEnded(batch.partition)
  }

  compress(partition: PartitionQueue, batch: Batch): void {
    const { compression, compressionLevel, transactionalId } = this.settings
    partition.compressing = true
    batch.compress(compression, compressionLevel, transactionalId !== null, this.env.cpu).then(
      () => {
        partition.compressing = false
        // Its deadline, or an abort, may have taken it away meanwhile.
        if (batch.settled) batch.release()
        this.offer(partition)
      },
      (error: unknown) => {
        partition.compressing = false
        if (!(error instanceof PlayheadError)) throw error
        if (!batch.settled) this.#giveUp(partition, batch, error, -1)
        this.offer(partition)
      }
    )
  }

  written(partition: PartitionQueue, batch: Batch, baseOffset: number, appendTime: number): void {
    partition.done(batch)
    batch.succeed(baseOffset, appendTime)
    this.#forget(partition, batch)
    this.offer(partition)
  }

  refused(partition: PartitionQueue, batch: Batch, code: number, message: string | null): void {
    const { topic, partition: index } = partition
    const error = brokerError(code, `${topic}-${index}`, { message, topic, partition: index })
    if (isMoved(code)) this.#cluster.stale(error.message)
    if (mayBeWritten(code)) batch.maybeWritten = true
    batch.lastError = error
    const transactional = this.settings.transactionalId !== null
    const verdict = verdictOf(code, transactional)
    if (verdict === 'duplicate') this.written(partition, batch, -1, -1)
    else if (batch.settled) this.#giveUp(partition, batch, error, code)
    else if (verdict === 'gap') {
      const first = partition.outOfOrder(batch)
      if (first && transactional) this.#giveUp(partition, batch, error, code)
      else this.#again(partition, batch, first)
    } else if (verdict === 'split' && batch.recordCount > 1 && !batch.maybeWritten) {
      // The halves of one that is in the log after all would not be known as repeated.
      this.#split(partition, batch)
    } else if (verdict === 'retry') {
      // The new leader is known already: a consumer of this client may have met it first.
      this.#again(partition, batch, isMoved(code) && partition.hasMoved)
    } else this.#giveUp(partition, batch, error, code)
  }

  lost(partition: PartitionQueue, batch: Batch, error: PlayheadError): void {
    batch.lastError = error
    const unknown = !error.retriable && passing.has(error.code)
    if (unknown || error.code === 'CLOSED') batch.maybeWritten = true
    // A connection that is gone has let go of the bytes; one that was only given up has not.
    if (unknown && error.code !== 'CONNECTION_LOST') batch.tainted = true
    if (!batch.settled && (error.retriable || unknown)) this.#again(partition, batch, false)
    else this.#giveUp(partition, batch, error, -1)
  }

  learned(hints: readonly LeaderHint[], endpoints: readonly LeaderEndpoint[]): void {
    this.#cluster.learned(hints, endpoints)
  }

  /** What is past its deadline fails; partitions without a leader have one looked for. */
  sweep(now: number): void {
    for (const queue of this.#active) {
      for (const batch of queue.batches.slice()) {
        // The request ends at the deadline by itself, and knows whether it was written.
        const deadline = batch.inFlight ? batch.deadline + graceMs : batch.deadline
        if (deadline <= now && !batch.settled) this.#expire(queue, batch)
      }
      if (queue.leader < 0) this.#cluster.stale(`${queue.topic}-${queue.partition} has no leader`)
      this.offer(queue)
    }
  }

  /** Fails all that isn't under way; what is stays until its request has ended, and then fails unless it was written. */
  failAtRest(error: PlayheadError): void {
    for (const queue of this.#active) {
      for (const batch of queue.batches.slice()) {
        if (!batch.inFlight && !batch.settled) this.#giveUp(queue, batch, error, -1)
      }
    }
  }

  /** Fails all at once, under way or not. */
  failAll(error: PlayheadError): void {
    this.failAtRest(error)
    for (const batch of this.batches()) {
      batch.maybeWritten = true
      batch.fail(outcomeOf(batch, error))
    }
  }

  close(): void {
    this.#closed = true
    this.#unwatch()
    for (const sink of this.#sinks.values()) sink.close()
  }

  #update(topic: Topic, metadata: TopicMetadata | undefined): void {
    topic.update(metadata, this.#rules, partition => {
      partition.hurry()
      this.offer(partition)
    })
  }

  #sink(node: number): Sink {
    let sink = this.#sinks.get(node)
    if (sink === undefined) this.#sinks.set(node, (sink = new Sink(node, this)))
    return sink
  }

  #begin(queue: PartitionQueue): Batch {
    const now = this.env.clock.monotonic()
    const bytes = { maxBytes: this.settings.batchBytes, pool: this.#pool }
    const batch = new Batch(queue.topic, queue.partition, now, bytes)
    queue.add(batch)
    this.#active.add(queue)
    return batch
  }

  #again(partition: PartitionQueue, batch: Batch, atOnce: boolean): void {
    if (this.givingUp !== null) return this.#giveUp(partition, batch, this.givingUp, -1)
    const failures = partition.failed()
    // The first time there is nothing to wait for; a broker that goes on refusing isn't asked in a hot loop.
    if (!atOnce || failures > 1) {
      const waitMs = backoffMs(this.env.random, produceBackoff, failures)
      const at = this.env.clock.monotonic() + waitMs
      partition.waitUntil(Math.ceil(at / produceBackoff.firstMs) * produceBackoff.firstMs)
    }
    this.offer(partition)
  }

  #giveUp(partition: PartitionQueue, batch: Batch, error: PlayheadError, code: number): void {
    partition.drop(batch)
    const outcome = outcomeOf(batch, error)
    batch.fail(outcome)
    this.#forget(partition, batch)
    this.#owner.failed(outcome, code)
    this.offer(partition)
  }

  #expire(queue: PartitionQueue, batch: Batch): void {
    const { deliveryTimeoutMs } = this.settings
    const { topic, partition, lastError } = batch
    const why =
      lastError?.message ?? (queue.leader < 0 ? 'there is no leader' : 'it waited its turn')
    const missing = this.#topics.get(topic)?.missing === true || lastError?.code === 'UNKNOWN_TOPIC'
    const error = new PlayheadError(
      missing ? 'UNKNOWN_TOPIC' : 'TIMED_OUT',
      `${topic}-${partition}: not acknowledged within ${deliveryTimeoutMs} ms: ${why}`,
      { topic, partition, retriable: true, cause: lastError ?? undefined }
    )
    if (batch.inFlight) {
      batch.maybeWritten = true
      const outcome = outcomeOf(batch, error)
      batch.fail(outcome)
      this.#owner.failed(outcome, -1)
    } else this.#giveUp(queue, batch, error, -1)
  }

  #split(partition: PartitionQueue, batch: Batch): void {
    const bytes = { pool: this.#pool, now: this.env.clock.monotonic() }
    partition.compressing = true
    // It is read from another thread, maybe: its deadline must not give the bytes back meanwhile.
    batch.tainted = true
    splitBatch(batch, bytes, this.env.cpu).then(
      halves => {
        partition.compressing = false
        if (batch.settled) return
        const grown = halves[0].sizeBytes + halves[1].sizeBytes
        batch.becomeHalves(halves)
        partition.split(batch, halves)
        batch.release()
        this.bufferedBytes += grown - batch.sizeBytes
        this.offer(partition)
      },
      (error: unknown) => {
        partition.compressing = false
        if (!(error instanceof PlayheadError)) throw error
        if (!batch.settled) this.#giveUp(partition, batch, error, -1)
      }
    )
  }

  /** The batch has left its queue. */
  #forget(partition: PartitionQueue, batch: Batch): void {
    this.bufferedBytes -= batch.sizeBytes
    batch.discard()
    if (partition.batches.length === 0) this.#active.delete(partition)
    this.#owner.roomCame()
  }

  /** The sticky partition changed as a batch was full: the record, which has not been appended, goes there. */
  #turnsAway(topic: Topic, queue: PartitionQueue, sending: Sending): boolean {
    const { key = null, partition } = sending.current ?? {}
    if (key !== null || partition !== undefined || this.settings.partitioner !== undefined) {
      return false
    }
    if (topic.chooseSticky() === queue) return false
    this.append(topic, sending)
    return true
  }
}

/** Ways in which a call to a broker fails that say nothing of the request. */
const passing: ReadonlySet<string> = new Set([
  'CONNECTION_FAILED',
  'CONNECTION_LOST',
  'TIMED_OUT',
  'MALFORMED_FRAME'
])

/**
 * The error with the truth about earlier attempts in it: a definite failure is only told when it is one (C3).
 * An unknown outcome is TIMED_OUT, CONNECTION_LOST or CLOSED, and not `retriable`; all else was not written.
 */
function outcomeOf(batch: Batch, error: PlayheadError): PlayheadError {
  const { topic, partition, maybeWritten } = batch
  if (!maybeWritten) return error
  const code =
    error.code === 'CONNECTION_LOST' || error.code === 'CLOSED' ? error.code : 'TIMED_OUT'
  const message = `${error.message}; records of the batch may or may not have been written`
  return new PlayheadError(code, message, { topic, partition, cause: error })
}
