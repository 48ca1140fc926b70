/**
 * From bytes to batches. A chunk is what one fetch brought of one partition: walked once when it comes, to know where
 * the next fetch goes on, and unpacked when its turn comes: checksums, decompression, aborted transactions.
 */
import type { Cpu } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { type AbortedTransaction, AbortedTransactions } from '../../protocol/records/aborted.ts'
import { BatchReader, type BatchView } from '../../protocol/records/batch.ts'
import { nameOf, type Playhead } from './playhead.ts'
import type { Decoding } from './decoding.ts'
import { Batch, ConsumerSource } from './record.ts'

export interface FetchedChunk {
  /** The playhead's when it was asked for. */
  readonly epoch: number
  readonly bytes: number
  readonly views: readonly BatchView[]
  /** The next of `views` to be unpacked. */
  index: number
  readonly aborted: AbortedTransactions | null
  /** The bytes behind `views` cannot be a batch. */
  readonly error: PlayheadError | null
}

/** A chunk of what a broker answered; undefined when there is no whole batch in it, and no error. */
export function chunkOf(
  epoch: number,
  records: Buffer | null,
  aborted: readonly AbortedTransaction[] | null
): FetchedChunk | undefined {
  if (records === null || records.length === 0) return undefined
  const reader = new BatchReader(records)
  const views: BatchView[] = []
  let error: PlayheadError | null = null
  try {
    for (let view = reader.next(); view !== undefined; view = reader.next()) views.push(view)
  } catch (cause) {
    if (!(cause instanceof PlayheadError)) throw cause
    error = cause
  }
  if (views.length === 0 && error === null) return undefined
  const transactions = aborted === null ? null : new AbortedTransactions(aborted)
  return { epoch, bytes: records.length, views, index: 0, aborted: transactions, error }
}

/** A batch given to the application holds about so many bytes of records. */
const batchBytes = 2 ** 20
/** So many compressed batches are decompressed at a time. */
const decompressedAtOnce = 4

export interface UnpackOptions {
  readonly checkCrc: boolean
  readonly readCommitted: boolean
  readonly decompressedMaxBytes: number
}

type Cpu2 = Pick<Cpu, 'crc32c' | 'decompress'>

export class Unpacker<K, V> {
  readonly #cpu: Cpu2
  readonly #options: UnpackOptions
  readonly #decoding: Decoding

  constructor(cpu: Cpu2, options: UnpackOptions, decoding: Decoding) {
    this.#cpu = cpu
    this.#options = options
    this.#decoding = decoding
  }

  /**
   * The next batch of what `playhead` has buffered; undefined when there is none (what was buffered held nothing for the
   * application). A promise only where there is something to decompress: its result may be of an older epoch by then.
   * Throws or rejects with what is wrong with the next batch, which is then passed over only with `poison: 'skip'`.
   */
  next(playhead: Playhead): Batch<K, V> | undefined | Promise<Batch<K, V> | undefined> {
    const take = new Take(playhead)
    for (let view = take.peek(); view !== undefined; view = take.peek()) {
      try {
        if (!this.#wanted(take, view)) continue
      } catch (error) {
        if (take.sources.length > 0) break // first what is before it
        this.#poison(take, view, error)
        continue
      }
      if (view.compression !== 'none') {
        return take.sources.length > 0 ? take.batch() : this.#decompressed(take)
      }
      take.add(new ConsumerSource(view, view.payload, playhead, this.#decoding))
      if (take.bytes >= batchBytes) break
    }
    return take.batch()
  }

  /** Whether `view` holds something for the application. If not, it was passed over. Throws when it is damaged. */
  #wanted(take: Take, view: BatchView): boolean {
    const { checkCrc, readCommitted } = this.#options
    const known = take.checked === view
    if (!known && checkCrc) view.verify(this.#cpu)
    const drops = !known && readCommitted && (take.chunk?.aborted?.drops(view) ?? false)
    take.checked = view
    if (!drops && !view.isControl && view.recordCount > 0 && view.lastOffset >= take.from)
      return true
    take.pass(view)
    return false
  }

  #poison(take: Take, view: BatchView, error: unknown): void {
    if (!(error instanceof PlayheadError)) throw error
    const { topic, partition } = take.playhead
    const where = `${nameOf(take.playhead)}: ${error.message}`
    const located = new PlayheadError(error.code, where, { topic, partition, cause: error })
    if (!this.#decoding.skipPoison) {
      take.batch() // what was passed over before it stays so
      throw located
    }
    this.#decoding.skipped(located)
    take.pass(view)
  }

  async #decompressed(take: Take): Promise<Batch<K, V> | undefined> {
    const { playhead } = take
    const { epoch } = playhead
    while (take.bytes < batchBytes) {
      const views = this.#compressedAhead(take)
      if (views.length === 0) break
      const maxBytes = this.#options.decompressedMaxBytes
      const payloads = await Promise.allSettled(views.map(v => v.decompress(this.#cpu, maxBytes)))
      if (playhead.epoch !== epoch || take.chunk !== playhead.chunks[0]) return undefined
      for (const [i, view] of views.entries()) {
        const payload = payloads[i]
        if (payload === undefined || payload.status === 'rejected') {
          if (take.sources.length > 0) return take.batch()
          this.#poison(take, view, payload?.reason)
          continue
        }
        take.add(new ConsumerSource(view, payload.value, playhead, this.#decoding), view)
      }
    }
    return take.batch()
  }

  /** The next few views to decompress; what is not wanted before and between them is passed over. */
  #compressedAhead(take: Take): BatchView[] {
    const views: BatchView[] = []
    while (views.length < decompressedAtOnce) {
      const view = take.peek(views.length)
      if (view === undefined) break
      try {
        if (views.length === 0 ? !this.#wanted(take, view) : !this.#plainlyWanted(view)) {
          if (views.length === 0) continue
          break
        }
      } catch (error) {
        if (views.length > 0 || take.sources.length > 0) break
        this.#poison(take, view, error)
        continue
      }
      views.push(view)
    }
    return views
  }

  /** Whether a later view can be decompressed before those in front of it are dealt with. */
  #plainlyWanted(view: BatchView): boolean {
    if (view.isControl || view.isTransactional || view.recordCount === 0) return false
    if (this.#options.checkCrc) view.verify(this.#cpu)
    return true
  }
}

/** One walk over the first chunk of a playhead. What it passes it takes from the buffer. */
class Take {
  readonly playhead: Playhead
  readonly chunk: FetchedChunk | undefined
  readonly from: number
  readonly sources: ConsumerSource[] = []
  bytes = 0
  /** Whose checksum was looked at. */
  checked: BatchView | undefined
  #next: number

  constructor(playhead: Playhead) {
    this.playhead = playhead
    this.chunk = playhead.chunks[0]
    this.from = playhead.position
    this.#next = playhead.position
  }

  /** The view to come next, or the one `ahead` of it. Throws the error behind the last. */
  peek(ahead = 0): BatchView | undefined {
    const { chunk } = this
    if (chunk === undefined) return undefined
    const view = chunk.views[chunk.index + ahead]
    if (view !== undefined && view.baseOffset >= this.playhead.limit) {
      // A bounded replay ends before it.
      if (ahead === 0) this.#next = this.playhead.limit
      return undefined
    }
    if (view === undefined && ahead === 0 && chunk.error !== null && this.sources.length === 0) {
      const { topic, partition } = this.playhead
      const where = `${nameOf(this.playhead)}: ${chunk.error.message}`
      throw new PlayheadError(chunk.error.code, where, { topic, partition, cause: chunk.error })
    }
    return view
  }

  pass(view: BatchView): void {
    const { chunk } = this
    if (chunk === undefined) return
    chunk.index += 1
    this.#next = Math.max(this.#next, view.nextOffset)
  }

  add(source: ConsumerSource, view = this.peek()): void {
    this.sources.push(source)
    this.bytes += source.payload.length
    if (view !== undefined) this.pass(view)
  }

  /** Ends the walk: a batch of what was added, undefined when nothing was. */
  batch<K, V>(): Batch<K, V> | undefined {
    const { playhead, chunk } = this
    if (chunk !== undefined && chunk.index >= chunk.views.length && chunk.error === null) {
      playhead.chunks.shift()
      playhead.consumed(chunk.bytes)
    }
    const next = Math.min(this.#next, playhead.limit)
    if (this.sources.length === 0) {
      playhead.passOver(next)
      return undefined
    }
    return new Batch(playhead, this.sources, this.from, next)
  }
}
