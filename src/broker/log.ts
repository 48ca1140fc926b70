/**
 * The log of one partition: record batches by offset, each one entry of the store, as the producer made it but
 * for its place. It knows where it begins and ends and how large it is; an index entry every 64 KiB holds what
 * finds an offset by time, and what spares a restart from reading the log.
 *
 * Positions count the bytes that were ever appended. They only rise, so sizes are differences of positions.
 */
import type { Cpu } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import type { Changes, Range, Store } from '../base/store.ts'
import { type BatchView, onlyBatch } from '../protocol/records/batch.ts'
import { at } from '../protocol/records/layout.ts'
import { afterAll, numberKey, numberOf, partitionKey, spaces } from './keys.ts'
import { StoredIndexEntry, readStored, writeStored } from './stored.ts'

/** Bytes of log from one index entry to the next. */
const indexEveryBytes = 64 * 1024

/** How much of the store is read, and into what. */
type Reading = Pick<Range, 'maxBytes' | 'limit' | 'into'>

const newMemory = (bytes: number) => Buffer.allocUnsafe(bytes)

export interface Slice {
  readonly pieces: readonly Buffer[]
  readonly bytes: number
  /** Offset after the last batch; where it was read from when there is none. */
  readonly nextOffset: number
}

export interface LogStart {
  readonly startOffset: number
  readonly startPosition: number
  readonly compactedTo: number
  readonly compactedBytes: number
}

interface Unstored {
  readonly baseOffset: number
  readonly maxTimestamp: number
}

export class Log {
  readonly #store: Store
  readonly #cpu: Cpu
  readonly #batches: Buffer
  readonly #index: Buffer
  readonly #where: { readonly topic: string; readonly partition: number }
  /** The first offset that may be read. */
  startOffset: number
  startPosition: number
  /** See StoredPartition. */
  compactedTo: number
  compactedBytes: number
  /** The offset that the next record gets. */
  endOffset: number
  endPosition: number
  /** The latest timestamp, and the base offset of the first batch that has it; -1: there is none. */
  maxTimestamp = -1
  maxTimestampOffset = -1
  /** Its end could not be read: nothing is appended, as offsets behind it may have been given. */
  damaged = false
  #indexedPosition = -Infinity

  /** Appended, and not in the store yet, where they would be read. */
  readonly #unstored: Unstored[] = []

  constructor(
    store: Store,
    cpu: Cpu,
    at: { topicId: string; topic: string; partition: number },
    start: LogStart
  ) {
    this.#store = store
    this.#cpu = cpu
    this.#where = at
    this.#batches = partitionKey(spaces.log, at.topicId, at.partition)
    this.#index = partitionKey(spaces.index, at.topicId, at.partition)
    this.startOffset = start.startOffset
    this.startPosition = start.startPosition
    this.compactedTo = start.compactedTo
    this.compactedBytes = start.compactedBytes
    this.endOffset = start.startOffset
    this.endPosition = start.startPosition
    this.#recover()
  }

  get sizeBytes(): number {
    return Math.max(0, this.endPosition - this.startPosition - this.compactedBytes)
  }

  /** Takes the batch that ends at `lastOffset`: its bytes carry `endOffset` as base offset already. */
  append(bytes: Buffer, lastOffset: number, maxTimestamp: number, changes: Changes): void {
    if (this.endPosition - this.#indexedPosition >= indexEveryBytes) {
      this.#indexedPosition = this.endPosition
      const { endPosition: position, maxTimestamp: latest, maxTimestampOffset } = this
      const entry = { position, maxTimestamp: latest, maxTimestampOffset }
      changes.put(numberKey(this.#index, this.endOffset), writeStored(StoredIndexEntry, entry))
    }
    // It was checked when it came, or made here.
    const known = { from: at.attributes, crc32c: bytes.readUInt32BE(at.crc) }
    changes.put(numberKey(this.#batches, this.endOffset), bytes, known)
    this.#count(this.endOffset, bytes.length, maxTimestamp)
    this.#unstored.push({ baseOffset: this.endOffset, maxTimestamp })
    this.endOffset = lastOffset + 1
  }

  /** The store has what is below `endOffset`. */
  stored(endOffset: number): void {
    const left = this.#unstored.findIndex(({ baseOffset }) => baseOffset >= endOffset)
    this.#unstored.splice(0, left < 0 ? this.#unstored.length : left)
  }

  /** Batches from the one that holds `from` to the last that begins below `to`. */
  *batches(from: number, to: number): Generator<BatchView, void, undefined> {
    for (const bytes of this.#bytesOf(from, to)) yield this.#open(bytes)
  }

  /**
   * Whole batches from the one that holds `from`, up to `maxBytes`. `atLeastOne`: the first comes even if it
   * is larger. Throws CORRUPT_RECORDS when the store gives back other bytes than it was given. `into` may give the memory.
   */
  read(
    from: number,
    to: number,
    maxBytes: number,
    atLeastOne: boolean,
    into: Range['into'] = newMemory
  ): Slice {
    const found = this.#slice(from, to, maxBytes, false, { maxBytes, into })
    if (found.pieces.length > 0 || !atLeastOne) return found
    return this.#slice(from, to, maxBytes, true, { into, limit: 1 })
  }

  #slice(from: number, to: number, maxBytes: number, atLeastOne: boolean, how: Reading): Slice {
    const pieces: Buffer[] = []
    let bytes = 0
    let nextOffset = from
    for (const piece of this.#bytesOf(from, to, how)) {
      const first = pieces.length === 0
      if (bytes + piece.length > maxBytes && !(first && atLeastOne)) break
      const batch = this.#intact(piece, first)
      if (batch === undefined) break
      nextOffset = batch.nextOffset
      pieces.push(piece)
      bytes += piece.length
      if (bytes >= maxBytes) break
    }
    return { pieces, bytes, nextOffset }
  }

  /** The first batch below `to` with a timestamp at or after `timestamp`. */
  batchByTime(timestamp: number, to: number): BatchView | undefined {
    if (timestamp > this.maxTimestamp) return undefined
    const from = this.#lastIndexed(entry => entry.maxTimestamp < timestamp)
    for (const batch of this.batches(from, to)) {
      if (batch.maxTimestamp >= timestamp && batch.lastOffset >= this.startOffset) return batch
    }
    return undefined
  }

  /** Where a log cut begins that has no record before `timestamp`, but for a few; never beyond `to`. */
  cutByTime(timestamp: number, to: number): number {
    if (this.maxTimestamp < timestamp) return to
    return Math.min(
      to,
      this.#lastIndexed(entry => entry.maxTimestamp < timestamp)
    )
  }

  /** Where a log cut begins that is as large as `bytes` and a little more. */
  cutBySize(bytes: number, to: number): number {
    const surplus = this.sizeBytes - bytes
    if (surplus <= 0) return this.startOffset
    const position = this.startPosition + surplus
    return Math.min(
      to,
      this.#lastIndexed(entry => entry.position <= position)
    )
  }

  /** A batch has other bytes than before, or none: what compaction left of it. */
  replace(batch: BatchView, bytes: Buffer | undefined, changes: Changes): void {
    const key = numberKey(this.#batches, batch.baseOffset)
    if (bytes === undefined) changes.delete(key)
    else changes.put(key, bytes)
    this.compactedBytes += batch.sizeBytes - (bytes?.length ?? 0)
  }

  /** The first batch that ends at or after `offset`. */
  batchAt(offset: number): BatchView | undefined {
    for (const batch of this.batches(offset, this.endOffset)) return batch
    return undefined
  }

  /**
   * Forgets what is below `offset`, which the store has: whole batches go at once, the rest of one is hidden. What is on
   * its way to the store begins at `offset` or later, and stays.
   */
  cut(offset: number, changes: Changes): void {
    this.startOffset = offset
    const first = this.batchAt(offset)
    const base = first === undefined ? offset : first.baseOffset
    changes.deleteRange(this.#batches, numberKey(this.#batches, base))
    this.startPosition = this.positionOf(base)
    if (first === undefined) this.compactedBytes = 0
    changes.deleteRange(this.#index, numberKey(this.#index, this.#indexed(base)?.offset ?? base))
    if (this.maxTimestampOffset < base && this.maxTimestampOffset >= 0) this.#seekMaxTimestamp(base)
  }

  /** Removes everything: the topic was deleted. */
  static erase(topicId: string, partition: number, changes: Changes): void {
    for (const space of [spaces.log, spaces.index, spaces.producer, spaces.aborted] as const) {
      const prefix = partitionKey(space, topicId, partition)
      changes.deleteRange(prefix, afterAll(prefix))
    }
  }

  *#bytesOf(from: number, to: number, how: Reading = {}): Generator<Buffer, void, undefined> {
    const start = numberKey(this.#batches, from)
    const end = numberKey(this.#batches, to)
    let first = true
    for (const { key, value } of this.#store.range({ from: start, to: end, ...how })) {
      if (first && numberOf(key) !== from) yield* this.#holding(from)
      first = false
      yield value
    }
    if (first) yield* this.#holding(from)
  }

  /** The batch that begins below `offset` and ends at or after it. */
  *#holding(offset: number): Generator<Buffer, void, undefined> {
    const to = numberKey(this.#batches, offset)
    for (const { value } of this.#store.range({
      from: this.#batches,
      to,
      reverse: true,
      limit: 1
    })) {
      if (this.#open(value).lastOffset >= offset) yield value
    }
  }

  /** A damaged batch ends what is read before it; who begins with it is told. */
  #intact(bytes: Buffer, first: boolean): BatchView | undefined {
    try {
      return this.#open(bytes)
    } catch (error) {
      if (first) throw error
      return undefined
    }
  }

  #open(bytes: Buffer): BatchView {
    try {
      const batch = onlyBatch(bytes)
      // What is kept in memory was checked when it came.
      if (this.#store.durability !== 'memory') batch.verify(this.#cpu)
      return batch
    } catch (cause) {
      const { topic, partition } = this.#where
      const message = `the stored log of ${topic}-${partition} is damaged: ${String(cause)}`
      throw new PlayheadError('CORRUPT_RECORDS', message, { topic, partition, cause })
    }
  }

  #count(baseOffset: number, bytes: number, maxTimestamp: number): void {
    this.endPosition += bytes
    if (maxTimestamp <= this.maxTimestamp) return
    this.maxTimestamp = maxTimestamp
    this.maxTimestampOffset = baseOffset
  }

  /** Reads the last index entry and the few batches after it. */
  #recover(): void {
    const to = afterAll(this.#index)
    let from = 0
    for (const { key, value } of this.#store.range({
      from: this.#index,
      to,
      reverse: true,
      limit: 1
    })) {
      const entry = readStored(StoredIndexEntry, value)
      from = numberOf(key)
      this.endPosition = entry.position
      this.#indexedPosition = entry.position
      this.maxTimestamp = entry.maxTimestamp
      this.maxTimestampOffset = entry.maxTimestampOffset
    }
    const range = { from: numberKey(this.#batches, from), to: afterAll(this.#batches) }
    for (const { key, value } of this.#store.range(range)) this.#recoverBatch(numberOf(key), value)
  }

  #recoverBatch(baseOffset: number, bytes: Buffer): void {
    try {
      const batch = this.#open(bytes)
      this.#count(baseOffset, bytes.length, batch.maxTimestamp)
      this.endOffset = batch.nextOffset
    } catch (error) {
      if (!(error instanceof PlayheadError && error.code === 'CORRUPT_RECORDS')) throw error
      this.damaged = true
      this.#count(baseOffset, bytes.length, -1)
      this.endOffset = baseOffset + 1
    }
  }

  /** The last index entry at or below `offset`. */
  #indexed(offset: number) {
    const to = numberKey(this.#index, offset + 1)
    for (const { key, value } of this.#store.range({
      from: this.#index,
      to,
      reverse: true,
      limit: 1
    })) {
      return { offset: numberOf(key), ...readStored(StoredIndexEntry, value) }
    }
    return undefined
  }

  /** Bytes that were ever in the log before the batch of this base offset. */
  positionOf(offset: number): number {
    const entry = this.#indexed(offset)
    let position = entry?.position ?? this.startPosition
    for (const batch of this.batches(entry?.offset ?? 0, offset)) position += batch.sizeBytes
    return position
  }

  /** Base offset of the last indexed batch for which `holds`, as it does for all before it; else the start. */
  #lastIndexed(holds: (entry: { position: number; maxTimestamp: number }) => boolean): number {
    let found = this.startOffset
    let low = this.startOffset
    let high = this.endOffset
    while (low < high) {
      const middle = low + Math.floor((high - low) / 2)
      const entry = this.#indexed(middle)
      if (entry !== undefined && !holds(entry)) {
        high = Math.min(middle, entry.offset)
      } else {
        found = Math.max(found, entry?.offset ?? 0)
        low = middle + 1
      }
    }
    return found
  }

  #seekMaxTimestamp(from: number): void {
    this.maxTimestamp = -1
    this.maxTimestampOffset = -1
    const latest = ({ baseOffset, maxTimestamp }: Unstored) => {
      if (maxTimestamp <= this.maxTimestamp) return
      this.maxTimestamp = maxTimestamp
      this.maxTimestampOffset = baseOffset
    }
    for (const batch of this.batches(from, this.endOffset)) latest(batch)
    this.#unstored.forEach(latest)
  }
}
