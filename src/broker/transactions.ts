/**
 * The transaction coordinator: which transactional id has which producer id and epoch, what its open transaction
 * touches, and how it ends. (TransactionCoordinator.scala; KIP-98, KIP-360, KIP-890)
 *
 *   Empty ──add──▶ Ongoing ──end──▶ CompleteCommit | CompleteAbort ──add──▶ Ongoing …
 *
 * Kafka's Prepare… states are not seen here: the markers in all partitions, the offsets in all groups and the new
 * state are one transaction of the store (invariant D7), so an end happens whole or not at all.
 */
import type { Env, Timer } from '../base/env.ts'
import { Changes, type Store } from '../base/store.ts'
import { KafkaError } from '../protocol/errors.ts'
import { Appends } from './appends.ts'
import type { Catalog } from './catalog.ts'
import { afterAll, nameKey, spaces } from './keys.ts'
import { StoredTransaction, readStored, writeStored } from './stored.ts'
import {
  type ProducerIdentity,
  type Transaction,
  type TransactionState,
  type Writer,
  identityFault,
  isPredecessor,
  lastEpoch,
  mayEnd,
  mayEndBumping,
  partitionsOf
} from './transaction.ts'

/** As Kafka's `transaction.max.timeout.ms`. */
const longestTimeoutMs = 900_000
/** As Kafka's `transactional.id.expiration.ms`. */
const forgottenAfterMs = 604_800_000
/** From this version on a TxnOffsetCommit adds its group to the transaction by itself (KIP-890). */
const addsGroups = 5

export type Outcome =
  | { readonly error: number }
  | ({ readonly error: 0 } & ProducerIdentity & { readonly stored: Promise<void> })

/** What else ends with a transaction, in the same transaction of the store: offsets of groups. */
export interface TransactionalOffsets {
  endTransaction(producerId: bigint, committed: boolean, changes: Changes): void
  /** Told of the commit that stores it. */
  stored(commit: Promise<void>): void
}

export interface TransactionsOptions {
  readonly env: Env
  readonly store: Store
  readonly catalog: Catalog
  /** Gives out an id that no producer ever had. */
  readonly newProducerId: (changes: Changes) => bigint
  readonly offsets: TransactionalOffsets
}

export class Transactions {
  readonly #env: Env
  readonly #store: Store
  readonly #catalog: Catalog
  readonly #newProducerId: TransactionsOptions['newProducerId']
  readonly #offsets: TransactionsOptions['offsets']
  readonly #byId = new Map<string, Transaction>()
  #alarm: { readonly at: number; readonly timer: Timer } | undefined
  #closed = false

  constructor(options: TransactionsOptions) {
    this.#env = options.env
    this.#store = options.store
    this.#catalog = options.catalog
    this.#newProducerId = options.newProducerId
    this.#offsets = options.offsets
  }

  load(): void {
    const { clock } = this.#env
    const head = Buffer.from([spaces.transaction])
    for (const { value } of this.#store.range({ from: head, to: afterAll(head) })) {
      const stored = readStored(StoredTransaction, value)
      const { transactionalId: id, state, partitions, groups, implicit: _, ...rest } = stored
      const byTopic = new Map<string, Set<number>>()
      for (const { topic, partition } of partitions) partitionsOf(byTopic, topic).add(partition)
      const lastedMs = Math.max(0, clock.now() - stored.startedAt)
      const dueAt = clock.monotonic() + Math.max(0, stored.timeoutMs - lastedMs)
      const known = { ...rest, id, dueAt, partitions: byTopic, groups: new Set(groups) }
      this.#byId.set(id, { ...known, state: state as TransactionState })
    }
    this.#watchTimeouts()
  }

  close(): void {
    this.#closed = true
    this.#alarm?.timer.cancel()
  }

  get(id: string): Transaction | undefined {
    return this.#byId.get(id)
  }

  get all(): Iterable<Transaction> {
    return this.#byId.values()
  }

  /**
   * A producer begins, or begins anew: what its predecessor has open is aborted, and it is fenced by the next epoch.
   * `expected`: who it was, when it asks for another epoch after an error (KIP-360).
   */
  init(id: string, timeoutMs: number, expected: ProducerIdentity | undefined): Outcome {
    if (id === '') return { error: KafkaError.INVALID_REQUEST }
    if (timeoutMs <= 0 || timeoutMs > longestTimeoutMs) {
      return { error: KafkaError.INVALID_TRANSACTION_TIMEOUT }
    }
    const appends = new Appends()
    const there = this.#byId.get(id)
    if (there === undefined) return this.#begin(id, timeoutMs, appends)
    if (expected !== undefined && !isPredecessor(expected, there)) {
      return { error: KafkaError.PRODUCER_FENCED }
    }
    const retry = expected?.producerEpoch === there.lastProducerEpoch && there.state !== 'Ongoing'
    const current = expected === undefined || expected.producerEpoch === there.producerEpoch
    if (!current && !retry) return { error: KafkaError.PRODUCER_FENCED }
    const before = there.producerEpoch
    if (there.state === 'Ongoing') {
      // Above the zombie's own, so that it can write no more: the marker fences it in each partition.
      there.producerEpoch = Math.min(before + 1, lastEpoch + 1)
      this.#end(there, false, there.producerEpoch, appends)
    }
    if (current) this.#nextEpoch(there, expected === undefined ? -1 : before, appends.changes)
    there.state = 'Empty'
    there.timeoutMs = timeoutMs
    there.startedAt = -1
    return this.#commit(there, appends)
  }

  /** Whether the producer may write to the partition within its transaction; 0, and it is part of it from then on. */
  addPartition(who: Writer, topic: string, partition: number, changes: Changes): number {
    return this.#add(who, changes, found => {
      const partitions = partitionsOf(found.partitions, topic)
      if (partitions.has(partition)) return false
      partitions.add(partition)
      return true
    })
  }

  /** The same for the offsets of a group. */
  addGroup(who: Writer, group: string, changes: Changes): number {
    return this.#add(who, changes, found => {
      if (found.groups.has(group)) return false
      found.groups.add(group)
      return true
    })
  }

  /** Whether the partition is part of the producer's transaction: 0, or why it may not write. */
  verifyPartition(who: Writer, topic: string, partition: number): number {
    return this.#verify(who, found => found.partitions.get(topic)?.has(partition) ?? false)
  }

  /** The same for the offsets of a group. */
  verifyGroup(who: Writer, group: string): number {
    return this.#verify(who, found => found.groups.has(group))
  }

  /** Whether offsets of the group may be committed now as part of the transaction: 0, or why not. */
  admitOffsets(commit: Writer & { readonly groupId: string; readonly version: number }): number {
    const changes = new Changes()
    const adds = commit.version >= addsGroups
    const code = adds
      ? this.addGroup(commit, commit.groupId, changes)
      : this.verifyGroup(commit, commit.groupId)
    // Not waited for: the offsets are committed after it, so they are not stored without it.
    if (!changes.empty) {
      this.#store.commit(changes).catch((error: unknown) => {
        this.#env.log.error('a transaction could not be stored', {
          id: commit.transactionalId,
          error
        })
      })
    }
    if (code === KafkaError.PRODUCER_FENCED) return KafkaError.INVALID_PRODUCER_EPOCH
    return code
  }

  /** Commits or aborts. `bumps`: the client takes a new epoch for each transaction (KIP-890, EndTxn version 5). */
  end(id: string, who: ProducerIdentity, commit: boolean, bumps: boolean): Outcome {
    if (id === '') return { error: KafkaError.INVALID_REQUEST }
    const found = this.#byId.get(id)
    if (found === undefined) return { error: KafkaError.INVALID_PRODUCER_ID_MAPPING }
    const verdict = bumps ? mayEndBumping(found, who, commit) : mayEnd(found, who, commit)
    const appends = new Appends()
    if (verdict === 'again') return this.#commit(found, appends, false)
    if (verdict !== 'now') return { error: verdict }
    if (!bumps) {
      this.#end(found, commit, found.producerEpoch, appends)
      return this.#commit(found, appends)
    }
    if (found.state !== 'Ongoing') found.startedAt = this.#env.clock.now()
    // The marker carries the next epoch: what the producer sent before it and arrives after it is refused.
    this.#end(found, commit, found.producerEpoch + 1, appends)
    this.#nextEpoch(found, found.producerEpoch, appends.changes)
    return this.#commit(found, appends)
  }

  /** Forgets ids that were not used for a week. */
  expire(changes: Changes): void {
    const before = this.#env.clock.now() - forgottenAfterMs
    for (const [id, { state, updatedAt }] of this.#byId) {
      if (state === 'Ongoing' || updatedAt >= before) continue
      this.#byId.delete(id)
      changes.delete(this.#key(id))
    }
  }

  #begin(id: string, timeoutMs: number, appends: Appends): Outcome {
    const begun: Transaction = {
      id,
      producerId: this.#newProducerId(appends.changes),
      producerEpoch: 0,
      lastProducerId: -1n,
      lastProducerEpoch: -1,
      timeoutMs,
      state: 'Empty',
      startedAt: -1,
      dueAt: Infinity,
      updatedAt: 0,
      partitions: new Map(),
      groups: new Set()
    }
    this.#byId.set(id, begun)
    return this.#commit(begun, appends)
  }

  /** Another epoch, and when they are used up another producer id. */
  #nextEpoch(one: Transaction, lastProducerEpoch: number, changes: Changes): void {
    one.lastProducerEpoch = lastProducerEpoch
    if (one.producerEpoch < lastEpoch) {
      one.lastProducerId = -1n
      one.producerEpoch++
      return
    }
    one.lastProducerId = one.producerId
    one.producerId = this.#newProducerId(changes)
    one.producerEpoch = 0
  }

  #add(who: Writer, changes: Changes, add: (found: Transaction) => boolean): number {
    const found = this.#byId.get(who.transactionalId)
    const fault = identityFault(found, who)
    if (found === undefined || fault !== KafkaError.NONE) return fault
    const begins = found.state !== 'Ongoing'
    if (begins) {
      found.partitions.clear()
      found.groups.clear()
    }
    if (!add(found) && !begins) return KafkaError.NONE
    if (begins) {
      found.state = 'Ongoing'
      found.startedAt = this.#env.clock.now()
      found.dueAt = this.#env.clock.monotonic() + found.timeoutMs
      this.#watchTimeouts()
    }
    this.#save(found, changes)
    return KafkaError.NONE
  }

  #verify(who: Writer, isPart: (found: Transaction) => boolean): number {
    const found = this.#byId.get(who.transactionalId)
    const fault = identityFault(found, who)
    if (found === undefined || fault !== KafkaError.NONE) return fault
    return found.state === 'Ongoing' && isPart(found)
      ? KafkaError.NONE
      : KafkaError.INVALID_TXN_STATE
  }

  /** Markers everywhere, and the offsets of groups. */
  #end(one: Transaction, commit: boolean, markerEpoch: number, appends: Appends): void {
    const type = commit ? 'commit' : 'abort'
    const timestamp = this.#env.clock.now()
    const marker = {
      type,
      producerId: one.producerId,
      producerEpoch: markerEpoch,
      timestamp
    } as const
    for (const [topic, partitions] of one.partitions) {
      for (const index of partitions) {
        const partition = this.#catalog.partition(topic, index)
        if (partition !== undefined) appends.endTransaction(partition, marker)
      }
    }
    if (one.groups.size > 0) {
      this.#offsets.endTransaction(one.producerId, commit, appends.changes)
    }
    one.partitions.clear()
    one.groups.clear()
    one.state = commit ? 'CompleteCommit' : 'CompleteAbort'
  }

  #commit(one: Transaction, appends: Appends, changed = true): Outcome {
    const { producerId, producerEpoch } = one
    if (changed) this.#save(one, appends.changes)
    const stored = appends.commit(this.#store)
    this.#offsets.stored(stored)
    this.#watchTimeouts()
    return { error: 0, producerId, producerEpoch, stored }
  }

  #save(one: Transaction, changes: Changes): void {
    one.updatedAt = this.#env.clock.now()
    const partitions = [...one.partitions].flatMap(([topic, indexes]) =>
      [...indexes].map(partition => ({ topic, partition }))
    )
    const { id: transactionalId, groups } = one
    const all = { ...one, transactionalId, partitions, groups: [...groups], implicit: false }
    changes.put(this.#key(transactionalId), writeStored(StoredTransaction, all))
  }

  #key(id: string): Buffer {
    return nameKey(spaces.transaction, id, this.#env.cpu)
  }

  /** Sets the alarm to when the next open transaction has run out of time. */
  #watchTimeouts(): void {
    let at = Infinity
    for (const { state, dueAt } of this.#byId.values()) {
      if (state === 'Ongoing') at = Math.min(at, dueAt)
    }
    if (this.#closed || this.#alarm?.at === at) return
    this.#alarm?.timer.cancel()
    this.#alarm = undefined
    if (at === Infinity) return
    const delayMs = Math.max(0, at - this.#env.clock.monotonic())
    const timer = this.#env.clock.after(delayMs, () => {
      this.#alarm = undefined
      this.#abortOverdue()
    })
    this.#alarm = { at, timer }
  }

  #abortOverdue(): void {
    const now = this.#env.clock.monotonic()
    for (const one of this.#byId.values()) {
      if (one.state !== 'Ongoing' || one.dueAt > now) continue
      const { id, timeoutMs } = one
      this.#env.log.info('a transaction ran out of time and is aborted', { id, timeoutMs })
      const appends = new Appends()
      // Two above its own, as one above is what the producer would take for its own success (KIP-890).
      one.producerEpoch = Math.min(one.producerEpoch + 2, lastEpoch + 1)
      one.lastProducerEpoch = -1
      this.#end(one, false, one.producerEpoch, appends)
      const outcome = this.#commit(one, appends)
      if (outcome.error !== 0 || !('stored' in outcome)) continue
      outcome.stored.catch((error: unknown) =>
        this.#env.log.error('the end of a transaction could not be stored', { id, error })
      )
    }
    this.#watchTimeouts()
  }
}
