/**
 * Records and batches as the application gets them. Nothing is decoded before it is asked for: a record is six small
 * numbers over the bytes that came from the network.
 */
import { PlayheadError } from '../../base/error.ts'
import type { BatchView } from '../../protocol/records/batch.ts'
import { RecordCursor } from '../../protocol/records/cursor.ts'
import { type Header, RecordView } from '../../protocol/records/record.ts'
import { RecordSource } from '../../protocol/records/source.ts'
import type { Serde } from '../serde.ts'
import type { Decoding } from './decoding.ts'
import { invalid } from './options.ts'
import { nameOf, type Playhead } from './playhead.ts'

/** A record as it was written. Null and empty differ, for key, value and header values. */
export interface ConsumerRecord<K = Buffer, V = Buffer> {
  /** The topic's name. */
  readonly topic: string
  /** The partition's number, from 0. */
  readonly partition: number
  /** Its place in the partition. */
  readonly offset: number
  /** Milliseconds since 1970; -1 when there is none. */
  readonly timestamp: number
  /** Of the leader that appended it; -1 when unknown. */
  readonly leaderEpoch: number
  /** Null: the record has none. */
  readonly key: K | null
  /** Null: a tombstone. */
  readonly value: V | null
  /** In order, duplicates and all. */
  readonly headers: readonly Header[]
  /** Commits this record and those before it in its partition. For `commit: 'manual'`. */
  commit(metadata?: string): Promise<void>
}

/** What all records of one batch share. */
export class ConsumerSource extends RecordSource {
  readonly playhead: Playhead
  readonly epoch: number
  readonly decoding: Decoding

  constructor(view: BatchView, payload: Buffer, playhead: Playhead, decoding: Decoding) {
    super(view, payload, playhead.topic, playhead.partition)
    this.playhead = playhead
    this.epoch = playhead.epoch
    this.decoding = decoding
  }
}

class BytesRecord extends RecordView<ConsumerSource> implements ConsumerRecord {
  get key(): Buffer | null {
    return this.keyBytes()
  }

  get value(): Buffer | null {
    return this.valueBytes()
  }

  get origin(): ConsumerSource {
    return this.source
  }

  commit(metadata?: string): Promise<void> {
    const { playhead, epoch, decoding } = this.source
    return decoding.commit(playhead, epoch, this.offset + 1, this.leaderEpoch, metadata)
  }
}

/** Decodes when asked, once. */
class DecodedRecord extends RecordView<ConsumerSource> implements ConsumerRecord<unknown, unknown> {
  #key: unknown
  #value: unknown

  get key(): unknown {
    if (this.#key === undefined) {
      this.#key = this.#decode('key', this.source.decoding.key, this.keyBytes())
    }
    return this.#key
  }

  get value(): unknown {
    if (this.#value === undefined) {
      this.#value = this.#decode('value', this.source.decoding.value, this.valueBytes())
    }
    return this.#value
  }

  get origin(): ConsumerSource {
    return this.source
  }

  commit(metadata?: string): Promise<void> {
    const { playhead, epoch, decoding } = this.source
    return decoding.commit(playhead, epoch, this.offset + 1, this.leaderEpoch, metadata)
  }

  #decode(what: string, serde: Serde<unknown> | null, bytes: Buffer | null): unknown {
    if (bytes === null || serde === null) return bytes
    try {
      return serde.deserialize(bytes)
    } catch (cause) {
      const { topic, partition, offset } = this
      const where = `${nameOf({ topic, partition })} offset ${offset}`
      throw new PlayheadError(
        'DESERIALIZATION_FAILED',
        `${where}: its ${what} is not ${serde.name}: ${cause instanceof Error ? cause.message : String(cause)}`,
        { topic, partition, cause }
      )
    }
  }
}

/** The playhead of a record that a consumer gave out, and its epoch then. */
export function originOf(record: object): { readonly playhead: Playhead; readonly epoch: number } {
  if (record instanceof BytesRecord || record instanceof DecodedRecord) return record.origin
  throw invalid('this is not a record of a consumer')
}

type AnyRecord = BytesRecord | DecodedRecord

/**
 * Some records of one partition, in order, read where they lie. Iterating is synchronous, and can be done again; it ends
 * early when the partition jumped (seek, rewind) or was lost.
 */
export interface ConsumerBatch<K = Buffer, V = Buffer> extends Iterable<ConsumerRecord<K, V>> {
  /** The topic's name. */
  readonly topic: string
  /** The partition's number, from 0. */
  readonly partition: number
  /** The position of the partition before this batch. */
  readonly firstOffset: number
  /** The position after it. Compaction and transactions leave gaps between. */
  readonly nextOffset: number
  /** The end of the partition's log when this was fetched. */
  readonly highWatermark: number
  /** At most so many records: some may be below `firstOffset`. */
  readonly maxRecords: number
  /** Of the leader that appended the last record; -1 when unknown. */
  readonly leaderEpoch: number
  /** Fires when working on this batch is in vain: its partition jumped or was lost. */
  readonly signal: AbortSignal
  /**
   * Commits this whole batch and what was before it, with `metadata` for other readers of the offset. For
   * `commit: 'manual'`.
   */
  commit(metadata?: string): Promise<void>
}

/** How much of a partition `batches` gives at a time. */
export interface BatchLimits {
  /** At most so many records. */
  readonly maxRecords: number
  /** At most so many bytes of keys and values; a record with more comes alone. */
  readonly maxBytes: number
}

function advances(cursor: RecordCursor): boolean {
  try {
    return cursor.advance()
  } catch (error) {
    if (!(error instanceof PlayheadError)) throw error
    return false
  }
}

/** A batch with what the consumer itself has to know of it. */
export class Batch<K = Buffer, V = Buffer> implements ConsumerBatch<K, V> {
  readonly topic: string
  readonly partition: number
  readonly firstOffset: number
  readonly nextOffset: number
  readonly highWatermark: number
  readonly maxRecords: number
  readonly leaderEpoch: number
  readonly playhead: Playhead
  /** The playhead's when the batch was made. */
  readonly epoch: number
  readonly #sources: readonly ConsumerSource[]

  constructor(
    playhead: Playhead,
    sources: readonly ConsumerSource[],
    firstOffset: number,
    nextOffset: number
  ) {
    this.topic = playhead.topic
    this.partition = playhead.partition
    this.firstOffset = firstOffset
    this.nextOffset = nextOffset
    this.highWatermark = playhead.highWatermark
    this.maxRecords = sources.reduce((sum, source) => sum + source.recordCount, 0)
    this.leaderEpoch = sources.at(-1)?.leaderEpoch ?? -1
    this.playhead = playhead
    this.epoch = playhead.epoch
    this.#sources = sources
  }

  /** What is left of it from the playhead's position on. */
  rest(): Batch<K, V> {
    const playhead = this.playhead
    const { position } = playhead
    const sources = this.#sources.filter(source => source.lastOffset >= position)
    return new Batch(playhead, sources, position, this.nextOffset)
  }

  /**
   * Its first records: at most so many, and no more once their keys and values have so many bytes. Itself where all of
   * it is within that, or cannot be read to its end, as whoever iterates it is to be told.
   */
  head({ maxRecords, maxBytes }: BatchLimits): Batch<K, V> {
    if (this.maxRecords <= maxRecords && this.#payloadBytes() <= maxBytes) return this
    let records = 0
    let bytes = 0
    for (const [i, source] of this.#sources.entries()) {
      const cursor = new RecordCursor(source, this.firstOffset)
      while (advances(cursor)) {
        if (cursor.offset >= this.nextOffset) return this
        const size = Math.max(0, cursor.keyLength) + Math.max(0, cursor.valueLength)
        if (records === maxRecords || (records > 0 && bytes + size > maxBytes)) {
          const sources = this.#sources.slice(0, i + 1)
          return new Batch(this.playhead, sources, this.firstOffset, cursor.offset)
        }
        records += 1
        bytes += size
      }
    }
    return this
  }

  #payloadBytes(): number {
    return this.#sources.reduce((sum, source) => sum + source.payload.length, 0)
  }

  get signal(): AbortSignal {
    return this.playhead.signalOf(this.epoch)
  }

  [Symbol.iterator](): RecordWalk<K, V> {
    const { playhead, epoch, firstOffset, nextOffset } = this
    // Only where a bounded replay ends within a batch.
    return (this.#sources.at(-1)?.lastOffset ?? -1) >= nextOffset
      ? new CutWalk(playhead, epoch, this.#sources, firstOffset, nextOffset)
      : new RecordWalk(playhead, epoch, this.#sources, firstOffset)
  }

  commit(metadata?: string): Promise<void> {
    const decoding = this.#sources[0]?.decoding
    if (decoding === undefined) return Promise.resolve()
    const { playhead, epoch, nextOffset, leaderEpoch } = this
    return decoding.commit(playhead, epoch, nextOffset, leaderEpoch, metadata)
  }
}

/**
 * Walks the records of a batch: the hot loop of consuming. It ends early when the partition jumped or was lost. The
 * result object is the same each time, as `for … of` and spreading take it apart at once.
 */
export class RecordWalk<K = Buffer, V = Buffer> implements IterableIterator<ConsumerRecord<K, V>> {
  readonly playhead: Playhead
  readonly epoch: number
  readonly #sources: readonly ConsumerSource[]
  readonly #from: number
  readonly #plain: boolean
  #index = 0
  #atEnd = false
  #source: ConsumerSource | undefined
  #cursor: RecordCursor | undefined
  readonly #result: { done: boolean; value: AnyRecord | undefined } = {
    done: false,
    value: undefined
  }

  constructor(
    playhead: Playhead,
    epoch: number,
    sources: readonly ConsumerSource[],
    fromOffset: number
  ) {
    this.playhead = playhead
    this.epoch = epoch
    this.#sources = sources
    this.#from = fromOffset
    const decoding = sources[0]?.decoding
    this.#plain =
      !decoding || (decoding.key === null && decoding.value === null && decoding.seen === null)
  }

  /** It went through all records. */
  get atEnd(): boolean {
    return this.#atEnd
  }

  next(): IteratorResult<ConsumerRecord<K, V>, undefined> {
    const value = this.advance()
    const result = this.#result
    result.value = value as AnyRecord | undefined
    result.done = value === undefined
    return result as IteratorResult<ConsumerRecord<K, V>, undefined>
  }

  [Symbol.iterator](): this {
    return this
  }

  /** The next record; undefined behind the last. */
  advance(): ConsumerRecord<K, V> | undefined {
    if (this.playhead.epoch !== this.epoch) return undefined
    for (;;) {
      const cursor = this.#cursor
      if (cursor?.advance()) {
        const source = this.#source as ConsumerSource
        if (this.#plain) return new BytesRecord(source, cursor) as unknown as ConsumerRecord<K, V>
        const record = this.#decoded(source, cursor)
        if (record !== undefined) return record as unknown as ConsumerRecord<K, V>
        continue
      }
      const source = this.#sources[this.#index]
      if (source === undefined) {
        this.#atEnd = true
        return undefined
      }
      this.#index += 1
      this.#source = source
      this.#cursor = new RecordCursor(source, this.#from)
    }
  }

  /** With `poison: 'skip'` a record is decoded here, so that one that cannot be is passed over. */
  #decoded(source: ConsumerSource, cursor: RecordCursor): DecodedRecord | undefined {
    const record = new DecodedRecord(source, cursor)
    const { decoding } = source
    try {
      if (decoding.skipPoison) {
        void record.key
        void record.value
      }
      decoding.seen?.(record as never)
      return record
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
      decoding.skipped(error)
      return undefined
    }
  }
}

/** A walk that ends before `limit`. */
class CutWalk<K, V> extends RecordWalk<K, V> {
  readonly #limit: number
  #cut = false

  constructor(
    playhead: Playhead,
    epoch: number,
    sources: readonly ConsumerSource[],
    fromOffset: number,
    limit: number
  ) {
    super(playhead, epoch, sources, fromOffset)
    this.#limit = limit
  }

  override get atEnd(): boolean {
    return this.#cut || super.atEnd
  }

  override advance(): ConsumerRecord<K, V> | undefined {
    if (this.#cut) return undefined
    const record = super.advance()
    if (record === undefined || record.offset < this.#limit) return record
    this.#cut = true
    return undefined
  }
}
