/**
 * One partition: its log, who leads it, what its producers did, and how far it may be read.
 *
 *   log start ≤ last stable offset ≤ high watermark ≤ log end
 *
 * The high watermark is the durable point: what is not stored yet is shown to no one (invariant L9), so an offset
 * that was delivered is never given to another record. The last stable offset is where the oldest transaction
 * begins that is open, or whose end is not durable yet.
 */
import { assert } from '../base/assert.ts'
import type { Cpu } from '../base/env.ts'
import type { Changes, Store } from '../base/store.ts'
import { type BatchView, onlyBatch } from '../protocol/records/batch.ts'
import { transactionMarker } from '../protocol/records/control.ts'
import { stampOffset } from '../protocol/records/stamp.ts'
import { afterAll, numberKey, partitionKey, spaces } from './keys.ts'
import { Log } from './log.ts'
import { Producers, type Verdict } from './producers.ts'
import { StoredAborted, StoredPartition, readStored, writeStored } from './stored.ts'

export interface PartitionAddress {
  readonly topicId: string
  readonly topic: string
  readonly partition: number
}

export interface EpochStart {
  readonly epoch: number
  readonly startOffset: number
}

interface Elected {
  readonly leader: number
  readonly epoch: number
}

export interface AbortedInLog {
  readonly producerId: bigint
  readonly firstOffset: number
}

/** Called when more can be read, or the partition is not what it was. `bytes`: how many more. */
export type Watcher = (bytes: number) => void

/** What may be read: all that is durable, or only what no open transaction precedes. */
export type Isolation = 'read_uncommitted' | 'read_committed'

export class Partition {
  readonly topic: string
  readonly topicId: string
  readonly index: number
  readonly replicas: readonly number[]
  /** -1: no replica's broker is up. */
  leader: number
  leaderEpoch: number
  readonly log: Log
  readonly producers: Producers
  highWatermark: number
  /** Batches that are to be appended before any other, and are being looked into. */
  preparing: Promise<void> | undefined
  readonly #cpu: Cpu
  readonly #store: Store
  readonly #aborted: Buffer
  #epochs: readonly EpochStart[]
  /** Not stored yet. */
  #elected: Elected | undefined
  /** Transactions whose marker is in the log, but maybe not durable: by marker, the oldest first. */
  readonly #ending: { readonly firstOffset: number; readonly marker: number }[] = []
  readonly #watchers = new Set<Watcher>()

  constructor(store: Store, cpu: Cpu, at: PartitionAddress, stored: Buffer) {
    const { replicas, leader, leaderEpoch, epochs, ...start } = readStored(StoredPartition, stored)
    this.topic = at.topic
    this.topicId = at.topicId
    this.index = at.partition
    this.replicas = replicas
    this.leader = leader
    this.leaderEpoch = leaderEpoch
    this.#epochs = epochs
    this.#cpu = cpu
    this.#store = store
    this.#aborted = partitionKey(spaces.aborted, at.topicId, at.partition)
    this.log = new Log(store, cpu, at, start)
    this.producers = new Producers(store, at.topicId, at.partition)
    this.highWatermark = this.log.endOffset
  }

  /** What a partition begins as. */
  static create(
    at: PartitionAddress,
    replicas: readonly number[],
    leader: number,
    changes: Changes
  ): Buffer {
    const stored = writeStored(StoredPartition, {
      replicas,
      leader,
      leaderEpoch: 0,
      startOffset: 0,
      startPosition: 0,
      compactedTo: 0,
      compactedBytes: 0,
      epochs: [{ epoch: 0, startOffset: 0 }]
    })
    changes.put(partitionKey(spaces.partition, at.topicId, at.partition), stored)
    return stored
  }

  get lastStableOffset(): number {
    const ending = this.#ending[0]?.firstOffset ?? Infinity
    return Math.min(this.producers.firstOpenOffset, ending, this.highWatermark)
  }

  /** Where reading ends. */
  readableEnd(isolation: Isolation): number {
    return isolation === 'read_committed' ? this.lastStableOffset : this.highWatermark
  }

  watch(watcher: Watcher): () => void {
    this.#watchers.add(watcher)
    return () => this.#watchers.delete(watcher)
  }

  check(batch: BatchView): Verdict {
    return this.producers.check(batch)
  }

  /** Appends a batch that `check` found new: gives it its place, in its own bytes. Returns its base offset. */
  append(batch: BatchView, changes: Changes): number {
    const baseOffset = this.log.endOffset
    const lastOffset = baseOffset + batch.lastOffset - batch.baseOffset
    stampOffset(batch.bytes, baseOffset, this.#writingEpoch)
    this.log.append(batch.bytes, lastOffset, batch.maxTimestamp, changes)
    this.producers.appended(batch, baseOffset, changes)
    return baseOffset
  }

  /** Ends a producer's transaction here by a marker. */
  endTransaction(
    end: { type: 'abort' | 'commit'; producerId: bigint; producerEpoch: number; timestamp: number },
    changes: Changes
  ): void {
    const { log } = this
    const marker = log.endOffset
    const place = { coordinatorEpoch: 0, baseOffset: marker, leaderEpoch: this.#writingEpoch }
    const bytes = transactionMarker({ ...end, ...place }, this.#cpu)
    log.append(bytes, onlyBatch(bytes).lastOffset, end.timestamp, changes)
    const { producerId, producerEpoch, timestamp } = end
    const firstOffset = this.producers.ended(producerId, producerEpoch, timestamp, changes)
    if (firstOffset < 0) return
    this.#ending.push({ firstOffset, marker })
    this.#ending.sort((a, b) => a.firstOffset - b.firstOffset)
    if (end.type === 'commit') return
    const lastStableOffset = Math.min(this.producers.firstOpenOffset, marker + 1)
    const aborted = writeStored(StoredAborted, { producerId, firstOffset, lastStableOffset })
    changes.put(numberKey(this.#aborted, marker), aborted)
  }

  /** Aborted transactions that reach into the offsets from `from` up to `to`. */
  abortedBetween(from: number, to: number): AbortedInLog[] {
    const found: AbortedInLog[] = []
    const range = { from: numberKey(this.#aborted, from), to: afterAll(this.#aborted) }
    for (const { value } of this.#store.range(range)) {
      const { producerId, firstOffset, lastStableOffset } = readStored(StoredAborted, value)
      if (firstOffset < to) found.push({ producerId, firstOffset })
      if (lastStableOffset >= to) break
    }
    return found
  }

  /** What was appended up to `endOffset` is durable, `bytes` of it: it may be read. */
  durable(endOffset: number, bytes: number): void {
    if (endOffset <= this.highWatermark) return
    assert(endOffset <= this.log.endOffset, 'only what was appended becomes durable')
    this.highWatermark = endOffset
    this.log.stored(endOffset)
    for (let at = this.#ending.length - 1; at >= 0; at--) {
      if ((this.#ending[at]?.marker ?? Infinity) < endOffset) this.#ending.splice(at, 1)
    }
    this.changed(bytes)
  }

  /** Wakes who waits for the partition. */
  changed(bytes = Infinity): void {
    for (const watcher of this.#watchers) watcher(bytes)
  }

  /**
   * Another broker is to lead. Until that is stored (see `led`) nobody does, and the epoch is shown as it was: clients
   * never go back to an older one, and would not find a leader any more if this one were lost with the process.
   */
  lead(node: number, changes: Changes): number {
    const epoch = this.#writingEpoch + 1
    this.#elected = { leader: node, epoch }
    this.leader = -1
    if (this.#epochs.at(-1)?.startOffset === this.log.endOffset) {
      this.#epochs = this.#epochs.slice(0, -1)
    }
    this.#epochs = [...this.#epochs, { epoch, startOffset: this.log.endOffset }]
    this.#save(changes)
    this.changed()
    return epoch
  }

  /** The election of `epoch` is stored. If another came meanwhile, that one counts, once it is stored too. */
  led(epoch: number): void {
    if (this.#elected?.epoch !== epoch) return
    this.leader = this.#elected.leader
    this.leaderEpoch = epoch
    this.#elected = undefined
    this.changed()
  }

  /** Who leads once everything is stored. */
  get nextLeader(): number {
    return this.#elected?.leader ?? this.leader
  }

  get #shown(): Elected {
    return { leader: this.leader, epoch: this.leaderEpoch }
  }

  /** What is appended now, a marker say, belongs to the epoch that comes. */
  get #writingEpoch(): number {
    return this.#elected?.epoch ?? this.leaderEpoch
  }

  /** Deletes what is below `offset`. */
  cut(offset: number, changes: Changes): void {
    if (offset <= this.log.startOffset) return
    this.log.cut(offset, changes)
    changes.deleteRange(this.#aborted, numberKey(this.#aborted, offset))
    const first = this.#epochs.findLastIndex(({ startOffset }) => startOffset <= offset)
    this.#epochs = this.#epochs
      .slice(Math.max(0, first))
      .map(({ epoch, startOffset }) => ({ epoch, startOffset: Math.max(startOffset, offset) }))
    this.#save(changes)
  }

  /** Compaction has come to this offset. */
  compacted(to: number, changes: Changes): void {
    this.log.compactedTo = to
    this.#save(changes)
  }

  /** The epoch in which `offset` was, or will be, appended. */
  epochOf(offset: number): number {
    return this.#epochs.findLast(({ startOffset }) => startOffset <= offset)?.epoch ?? -1
  }

  /** The largest epoch at or below `epoch`, and where it ends; -1, -1: all epochs are above (KIP-101). */
  endOfEpoch(epoch: number): { readonly epoch: number; readonly endOffset: number } {
    if (epoch < 0) return { epoch: -1, endOffset: -1 }
    if (epoch === this.leaderEpoch) return { epoch, endOffset: this.log.endOffset }
    const next = this.#epochs.findIndex(start => start.epoch > epoch)
    if (next < 0) return { epoch: -1, endOffset: -1 }
    const endOffset = this.#epochs[next]?.startOffset ?? -1
    const found = this.#epochs[next - 1]
    return found === undefined ? { epoch, endOffset } : { epoch: found.epoch, endOffset }
  }

  #save(changes: Changes): void {
    const { replicas, log } = this
    const { leader, epoch: leaderEpoch } = this.#elected ?? this.#shown
    const { startOffset, startPosition, compactedTo, compactedBytes } = log
    const start = { startOffset, startPosition, compactedTo, compactedBytes }
    const all = { replicas, leader, leaderEpoch, ...start, epochs: this.#epochs }
    const stored = writeStored(StoredPartition, all)
    changes.put(partitionKey(spaces.partition, this.topicId, this.index), stored)
  }
}
