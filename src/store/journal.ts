/**
 * The Store port on files: an append-only journal, and in memory where each key's value lies in it.
 *
 * Writing: a commit is one frame at the end of the last segment; commits that wait while one is written go together,
 * with one sync for all. Reading: small values are kept in memory, larger ones read from their segment.
 * Starting: the last checkpoint says where everything was, the segments since then what changed.
 *
 * A checkpoint is written whenever a segment is full, while commits go on: it may hold entries older or newer than
 * its moment, and as the journal is replayed from that moment on, and changes are absolute, both come out right.
 * Full is a segment by its bytes or by its changes, as both take time to replay: what a start has to read is bounded,
 * however the process before ended.
 * Segments in which nothing lives are removed; what lives in those that are mostly dead is written again first.
 *
 * Rejected alternative: LMDB. It needs eleven packages and a native library, and its commits took 2.5 to 4 ms where
 * a synced append takes 0.5 and an unsynced one 0.03 (docs/decisions).
 */
import { AssertionError, assert } from '../base/assert.ts'
import type { Cpu, Log } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import type { Files } from '../base/files.ts'
import {
  type Change,
  type Changes,
  type Durability,
  type Entry,
  type Range,
  type Store,
  maxKeyBytes
} from '../base/store.ts'
import { frameHeadBytes, frameOf, head, headBytes } from './frames.ts'
import {
  type Place,
  type Recovered,
  type Segment,
  inline,
  recover,
  segmentName
} from './recovery.ts'
import { Checkpoint } from './checkpoint.ts'
import { type SortedMap, textOf } from './sorted.ts'

export interface JournalOptions {
  readonly files: Files
  readonly cpu: Cpu
  readonly log: Log
  readonly durability: Exclude<Durability, 'memory'>
  /** A segment this large is full. Default 64 MiB. */
  readonly segmentBytes?: number
  /** A segment of so many changes is full too, or of half as many as there are values, if that is more. Default 32,768. */
  readonly segmentChanges?: number
  /** Written with one sync, at most, but for one larger commit. Default 16 MiB. */
  readonly groupBytes?: number
}

interface Pending {
  /** A move depends on what there is: it is first in its group, so that all before it is applied. */
  readonly kind: 'commit' | 'move'
  readonly changes: () => readonly Change[]
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

export class JournalStore implements Store {
  readonly durability: Exclude<Durability, 'memory'>
  readonly keepsValues = false
  readonly #files: Files
  readonly #cpu: Cpu
  readonly #log: Log
  readonly #segmentBytes: number
  readonly #segmentChanges: number
  readonly #groupBytes: number
  readonly #places: SortedMap<Place>
  /** By number, the last is written to. */
  readonly #segments: Map<number, Segment>
  #last: Segment
  /** Since the last segment was begun, or, before another is, since the checkpoint that this process started from. */
  #changes: number
  #pending: Pending[] = []
  #pumping: Promise<void> | undefined
  #checkpointing: Promise<void> | undefined
  /** Why nothing is written any more. */
  #failure: PlayheadError | undefined
  #closed = false

  /** Reads what the directory holds. Closes `files` when that fails. */
  static async open(options: JournalOptions): Promise<JournalStore> {
    try {
      const found = await recover(options)
      return new JournalStore(options, found)
    } catch (cause) {
      await options.files.close()
      throw readable(cause) ? cause : failed('the journal could not be opened', cause, false)
    }
  }

  private constructor(options: JournalOptions, found: Recovered) {
    this.durability = options.durability
    this.#files = options.files
    this.#cpu = options.cpu
    this.#log = options.log
    this.#segmentBytes = options.segmentBytes ?? 64 * 1024 * 1024
    this.#segmentChanges = options.segmentChanges ?? 32 * 1024
    this.#groupBytes = options.groupBytes ?? 16 * 1024 * 1024
    this.#places = found.places
    this.#segments = found.segments
    this.#last = found.last
    this.#changes = found.replayed
    const { replayed } = found
    this.#log.info('the journal is open', { entries: found.places.size, replayed })
  }

  get(key: Uint8Array): Buffer | undefined {
    const place = this.#places.get(textOf(key))
    return place === undefined ? undefined : this.#read(place)
  }

  *range(bounds: Range): Generator<Entry, void, undefined> {
    const { from, to, reverse, limit = Infinity, maxBytes = Infinity, into } = bounds
    const low = textOf(from)
    const high = textOf(to)
    let [left, leftBytes] = [limit, maxBytes]
    const places = this.#places
    for (const { key, value } of reverse ? places.rangeBack(low, high) : places.range(low, high)) {
      leftBytes -= value.length
      if (left-- <= 0 || leftBytes < 0) return
      yield { key: Buffer.from(key, 'latin1'), value: this.#read(value, into) }
    }
  }

  commit(changes: Changes): Promise<void> {
    const { list } = changes
    return this.#enqueue(() => list)
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#pumping
    await this.#checkpointing
    await this.#pumping
    try {
      if (this.durability === 'os' && this.#failure === undefined) await this.#last.file.sync()
    } catch (cause) {
      throw failed('what was written last is not on the disk', cause, false)
    } finally {
      for (const { file } of this.#segments.values()) await file.close()
      await this.#files.close()
    }
  }

  #enqueue(changes: () => readonly Change[], kind: Pending['kind'] = 'commit'): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure)
    if (this.#closed && kind === 'commit') {
      return Promise.reject(new PlayheadError('CLOSED', 'the store is closed'))
    }
    return new Promise((resolve, reject) => {
      this.#pending.push({ kind, changes, resolve, reject })
      this.#pumping ??= this.#pump()
    })
  }

  /** Writes group after group until nothing waits. Starts in a later turn, so that a turn's commits go together. */
  async #pump(): Promise<void> {
    await undefined
    while (this.#pending.length > 0) {
      if (this.#isFull) await this.#roll()
      await this.#writeGroup()
    }
    this.#pumping = undefined
  }

  get #isFull(): boolean {
    if (this.#last.file.size >= this.#segmentBytes) return true
    const most = Math.max(this.#segmentChanges, this.#places.size >> 1)
    return this.#changes >= most && this.#checkpointing === undefined
  }

  async #writeGroup(): Promise<void> {
    const group: { readonly pending: Pending; readonly changes: readonly Change[]; at: number }[] =
      []
    const pieces: Uint8Array[] = []
    const start = this.#last.file.size
    let bytes = 0
    while (bytes < this.#groupBytes) {
      const pending = this.#pending[0]
      if (pending === undefined || (pending.kind === 'move' && group.length > 0)) break
      this.#pending.shift()
      const changes = pending.changes()
      group.push({ pending, changes, at: start + bytes })
      if (changes.length === 0) continue
      const framed = frameOf(changes, this.#cpu)
      for (const piece of framed) bytes += piece.length
      pieces.push(...framed)
    }
    try {
      if (bytes > 0) await this.#write(pieces, start)
    } catch (cause) {
      const error = this.#failure ?? failed('the journal could not be written', cause, true)
      // Those behind were decided on the ground of these.
      const behind = this.#pending.splice(0)
      for (const { reject } of [...group.map(({ pending }) => pending), ...behind]) reject(error)
      return
    }
    for (const { pending, changes, at } of group) {
      this.#apply(changes, at)
      this.#changes += changes.length
      pending.resolve()
    }
  }

  async #write(pieces: readonly Uint8Array[], start: number): Promise<void> {
    const { file } = this.#last
    try {
      await file.append(pieces)
    } catch (cause) {
      // A full disk, say. With the half-written frames cut off, a later commit may succeed.
      await file.truncate(start).catch((error: unknown) => this.#fail(error))
      throw cause
    }
    if (this.durability !== 'fsync') return
    await file.sync().catch((error: unknown) => {
      this.#fail(error)
      throw error
    })
  }

  /** After a failed sync nobody knows what is on the disk: nothing is written any more (invariant D8). */
  #fail(cause: unknown): void {
    this.#failure = failed('the journal failed, nothing is written until a restart', cause, false)
    this.#log.error('the journal failed', { error: this.#failure })
  }

  /** What was written at `at` is what is. */
  #apply(changes: readonly Change[], at: number): void {
    const segment = this.#last
    let valueAt = at + frameHeadBytes
    for (const change of changes) {
      if ('put' in change) {
        assert(change.put.length <= maxKeyBytes, `a key has at most ${maxKeyBytes} bytes`)
        valueAt += 7 + change.put.length
        const { value } = change
        const place: Place = { segment, at: valueAt, length: value.length, value: inline(value) }
        this.#set(textOf(change.put), place)
        valueAt += value.length
      } else if ('delete' in change) {
        this.#gone(this.#places.delete(textOf(change.delete)))
        valueAt += 5 + change.delete.length
      } else {
        const { deleteFrom, to } = change
        this.#places.deleteRange(textOf(deleteFrom), textOf(to), place => this.#gone(place))
        valueAt += 5 + deleteFrom.length + to.length
      }
    }
  }

  #set(key: string, place: Place): void {
    place.segment.liveBytes += place.length
    place.segment.liveEntries++
    this.#gone(this.#places.set(key, place))
  }

  #gone(place: Place | undefined): void {
    if (place === undefined) return
    place.segment.liveBytes -= place.length
    place.segment.liveEntries--
  }

  #read({ segment, at, length, value }: Place, into?: Range['into']): Buffer {
    if (value !== undefined) return value
    const name = segmentName(segment.number)
    let bytes: Buffer
    try {
      bytes = segment.file.read(at, length, into)
    } catch (cause) {
      throw failed(`${name} could not be read`, cause, true)
    }
    if (bytes.length === length) return bytes
    throw failed(`${name} is shorter than it was`, undefined, false)
  }

  /** The last segment is full: a new one begins, and a checkpoint is taken in the meantime. */
  async #roll(): Promise<void> {
    const full = this.#last
    try {
      const number = full.number + 1
      const file = await this.#files.open(segmentName(number))
      await file.truncate(0)
      await file.append([head(number)])
      await file.sync()
      await this.#files.sync()
      this.#last = { number, file, liveBytes: 0, liveEntries: 0 }
      this.#changes = 0
      this.#segments.set(number, this.#last)
    } catch (error) {
      // The full one grows on: better than to lose what waits.
      this.#log.warn('no new journal segment could be begun', { error })
      return
    }
    this.#checkpointing ??= this.#checkpoint().finally(() => {
      this.#checkpointing = undefined
    })
  }

  async #checkpoint(): Promise<void> {
    try {
      const from = this.#last
      const sparse = this.#sparseBefore(from)
      const checkpoint = await Checkpoint.begin(this.#files, this.#cpu, from.number)
      const moves: { key: string; place: Place }[] = []
      let moveBytes = 0
      for (const { key, value: place } of this.#places.range(
        '',
        '\u00ff'.repeat(maxKeyBytes + 1)
      )) {
        await checkpoint.add(key, place)
        if (!sparse.has(place.segment)) continue
        moves.push({ key, place })
        moveBytes += place.length
        if (moveBytes < 1024 * 1024) continue
        await this.#move(moves.splice(0))
        moveBytes = 0
      }
      if (moves.length > 0) await this.#move(moves)
      // What the checkpoint points to must not be less durable than itself.
      for (const { number, file } of this.#segments.values()) {
        if (number >= from.number - 1) await file.sync()
      }
      await checkpoint.finish()
      await this.#removeDead(from.number)
    } catch (error) {
      // The one before still holds; it only takes longer to start from it.
      this.#log.warn('no checkpoint of the journal could be taken', { error })
    }
  }

  /** Segments that are mostly dead; `headBytes` keep an empty one from counting as full. */
  #sparseBefore(from: Segment): ReadonlySet<Segment> {
    const sparse = new Set<Segment>()
    for (const segment of this.#segments.values()) {
      const dead = segment.liveBytes * 2 < segment.file.size - headBytes
      if (segment.number < from.number && dead && segment.liveEntries > 0) sparse.add(segment)
    }
    return sparse
  }

  /** Writes values again that are still where they were. */
  #move(moves: readonly { key: string; place: Place }[]): Promise<void> {
    const still = () =>
      moves
        .filter(({ key, place }) => this.#places.get(key) === place)
        .map(({ key, place }) => ({ put: Buffer.from(key, 'latin1'), value: this.#read(place) }))
    return this.#enqueue(still, 'move')
  }

  /** Segments that only a checkpoint before this one may point to. */
  async #removeDead(before: number): Promise<void> {
    for (const segment of Array.from(this.#segments.values())) {
      if (segment.number >= before || segment.liveEntries > 0) continue
      this.#segments.delete(segment.number)
      await segment.file.close()
      await this.#files.remove(segmentName(segment.number))
    }
  }
}

/** Whether an error is one to show; those of the system say nothing of what was being done. */
function readable(error: unknown): boolean {
  return error instanceof PlayheadError || error instanceof AssertionError
}

function failed(what: string, cause: unknown, retriable: boolean): PlayheadError {
  const why = cause instanceof Error ? `: ${cause.message}` : ''
  return new PlayheadError('STORAGE_FAILED', `${what}${why}`, { retriable, cause })
}
