/**
 * The readers that an application holds: `for await (record of consumer)`, `batches()` and `poll()`. What is in hand is
 * processed when the next is asked for, and only then: a loop that is left by `break` or an exception says nothing about
 * the record it was at, which therefore isn't committed.
 */
import type { Delivery, Reader } from './delivery.ts'
import { invalid } from './options.ts'
import type { Batch, BatchLimits, ConsumerRecord, RecordWalk } from './record.ts'

const ended = { done: true, value: undefined } as const

/** One record at a time. `next` is the hot path: no async function, nothing made but the record and its promise. */
export class RecordReader<K, V>
  implements AsyncIterableIterator<ConsumerRecord<K, V>, undefined>, Reader
{
  readonly name = 'for await (… of consumer)'
  readonly #delivery: Delivery<K, V>
  #batch: Batch<K, V> | undefined
  #walk: RecordWalk<K, V> | undefined
  /** Of the record in hand; -1: none is. */
  #offset = -1
  #leaderEpoch = -1
  #since = Infinity
  #asking = false
  #done = false

  constructor(delivery: Delivery<K, V>) {
    this.#delivery = delivery
  }

  inHandSince(): number {
    return this.#since
  }

  yields(): boolean {
    return this.#done
  }

  reportInHand(): boolean {
    if (this.#walk === undefined || this.#offset < 0) return true
    this.#walk.playhead.report(this.#walk.epoch, this.#offset + 1, this.#leaderEpoch)
    return true
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<ConsumerRecord<K, V>, undefined>> {
    const walk = this.#walk
    if (walk === undefined || this.#asking || this.#done) return this.#nextSlow()
    const { playhead } = walk
    this.#processed(walk)
    const now = this.#delivery.now()
    if (playhead.delivers && !this.#delivery.closed && this.#delivery.alive(now)) {
      try {
        const record = walk.advance()
        if (record !== undefined) {
          this.#hold(walk, record, now)
          return Promise.resolve({ done: false, value: record })
        }
      } catch (error) {
        return Promise.reject(error instanceof Error ? error : new Error(String(error)))
      }
    }
    this.#finish(walk)
    return this.#nextSlow()
  }

  return(): Promise<IteratorResult<ConsumerRecord<K, V>, undefined>> {
    const walk = this.#walk
    this.#offset = -1
    this.#since = Infinity
    if (walk !== undefined) this.#finish(walk)
    this.#done = true
    this.#delivery.release(this)
    return Promise.resolve(ended)
  }

  #hold(walk: RecordWalk<K, V>, record: ConsumerRecord<K, V>, now: number): void {
    const { offset } = record
    this.#offset = offset
    this.#leaderEpoch = record.leaderEpoch
    walk.playhead.position = offset + 1
    this.#since = now
    this.#delivery.handedOut(now)
  }

  #processed(walk: RecordWalk<K, V>): void {
    if (this.#offset < 0) return
    walk.playhead.report(walk.epoch, this.#offset + 1, this.#leaderEpoch)
    this.#offset = -1
    this.#since = Infinity
  }

  /** The walk ends: at its end, or because its partition is no longer to be delivered. */
  #finish(walk: RecordWalk<K, V>): void {
    const { playhead, epoch } = walk
    const batch = this.#batch
    this.#walk = this.#batch = undefined
    if (batch !== undefined && playhead.epoch === epoch) {
      if (walk.atEnd) {
        const all = playhead.processed === playhead.position
        playhead.position = Math.max(playhead.position, batch.nextOffset)
        if (all) playhead.report(epoch, playhead.position, batch.leaderEpoch)
      } else this.#delivery.park(batch)
    }
    playhead.handBack()
    this.#delivery.deliverable(playhead)
  }

  async #nextSlow(): Promise<IteratorResult<ConsumerRecord<K, V>, undefined>> {
    if (this.#done) return ended
    const delivery = this.#delivery
    delivery.claim(this)
    // A second `next` before the first has settled: they take turns, the second waits for nothing to be in hand.
    while (this.#asking) await delivery.wait()
    this.#asking = true
    try {
      delivery.asked()
      for (;;) {
        const batch = await delivery.next()
        if (batch === undefined || this.#done) return this.#end(batch)
        if (!delivery.stillWanted(batch)) continue
        const walk = batch[Symbol.iterator]()
        walk.playhead.handOut()
        this.#batch = batch
        this.#walk = walk
        const record = walk.advance()
        if (record !== undefined) {
          this.#hold(walk, record, delivery.env.clock.monotonic())
          return { done: false, value: record }
        }
        this.#finish(walk)
      }
    } finally {
      this.#asking = false
      delivery.wake()
    }
  }

  #end(batch: Batch<K, V> | undefined): typeof ended {
    // Taken while `return` came: it is for the next reader.
    if (batch !== undefined) this.#delivery.park(batch)
    this.#done = true
    this.#delivery.release(this)
    return ended
  }
}

/** One batch at a time: the fast way. A batch is processed as a whole, when the next is asked for. */
export class BatchReader<K, V> implements AsyncIterableIterator<Batch<K, V>, undefined>, Reader {
  readonly name = 'batches()'
  readonly #delivery: Delivery<K, V>
  #batch: Batch<K, V> | undefined
  #since = Infinity
  #asking = false
  #done = false
  readonly #limits: BatchLimits | null

  constructor(delivery: Delivery<K, V>, options: Partial<BatchLimits> = {}) {
    const { maxRecords = Infinity, maxBytes = Infinity } = options
    if (!(maxRecords >= 1 && maxBytes >= 1)) throw invalid('maxRecords and maxBytes are at least 1')
    this.#delivery = delivery
    this.#limits = maxRecords < Infinity || maxBytes < Infinity ? { maxRecords, maxBytes } : null
  }

  inHandSince(): number {
    return this.#since
  }

  yields(): boolean {
    return this.#done
  }

  reportInHand(): boolean {
    const batch = this.#batch
    if (batch === undefined) return true
    batch.playhead.report(batch.epoch, batch.nextOffset, batch.leaderEpoch)
    return true
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<Batch<K, V>, undefined>> {
    if (this.#done) return ended
    const delivery = this.#delivery
    delivery.claim(this)
    while (this.#asking) await delivery.wait()
    this.#asking = true
    try {
      this.#finish(true)
      delivery.asked()
      let batch = await delivery.next()
      while (batch !== undefined && !this.#done && !delivery.stillWanted(batch)) {
        batch = await delivery.next()
      }
      if (batch === undefined || this.#done) {
        if (batch !== undefined) delivery.park(batch)
        this.#done = true
        delivery.release(this)
        return ended
      }
      const playhead = batch.playhead
      const whole = batch
      if (this.#limits !== null) batch = whole.head(this.#limits)
      playhead.handOut()
      playhead.position = batch.nextOffset
      if (batch !== whole) delivery.park(whole)
      this.#batch = batch
      this.#since = delivery.env.clock.monotonic()
      delivery.handedOut(this.#since)
      return { done: false, value: batch }
    } finally {
      this.#asking = false
      delivery.wake()
    }
  }

  return(): Promise<IteratorResult<Batch<K, V>, undefined>> {
    this.#finish(false)
    this.#done = true
    this.#delivery.release(this)
    return Promise.resolve(ended)
  }

  #finish(processed: boolean): void {
    const batch = this.#batch
    if (batch === undefined) return
    this.#batch = undefined
    this.#since = Infinity
    const playhead = batch.playhead
    if (processed) playhead.report(batch.epoch, batch.nextOffset, batch.leaderEpoch)
    playhead.handBack()
  }
}

/** What `poll` gave out of one partition, up to `offset`. */
interface Polled {
  readonly playhead: Batch['playhead']
  readonly epoch: number
  readonly offset: number
  readonly leaderEpoch: number
  /** How many records. */
  readonly count: number
}

/** How long to wait in `poll`, and for how much. */
export interface PollOptions {
  /** How long to wait for the first record. Default 1,000. */
  readonly timeoutMs?: number
  /** Default 500. */
  readonly maxRecords?: number
}

/** The loop of the 2013 design: ask, process, ask again. */
export class PollReader<K, V> implements Reader {
  readonly name = 'poll()'
  readonly #delivery: Delivery<K, V>
  #inHand: Polled[] = []
  #since = Infinity
  #asking = false

  constructor(delivery: Delivery<K, V>) {
    this.#delivery = delivery
  }

  inHandSince(): number {
    return this.#since
  }

  /** Between two polls anybody else may ask, which is to say that what was polled is processed. */
  yields(): boolean {
    if (this.#asking) return false
    this.#finish()
    return true
  }

  reportInHand(): boolean {
    for (const { playhead, epoch, offset, leaderEpoch } of this.#inHand) {
      playhead.report(epoch, offset, leaderEpoch)
    }
    return true
  }

  async poll(options: PollOptions): Promise<ConsumerRecord<K, V>[]> {
    const { timeoutMs = 1_000, maxRecords = 500 } = options
    const delivery = this.#delivery
    if (this.#asking) throw invalid('poll(): the poll before has not returned yet')
    delivery.claim(this)
    this.#asking = true
    try {
      this.#finish()
      delivery.asked()
      const gathered: ConsumerRecord<K, V>[] = []
      let batch = await delivery.next(timeoutMs)
      while (batch !== undefined) {
        this.#gather(batch, maxRecords, gathered)
        if (gathered.length >= maxRecords) break
        // More only if it is there at once: a wait would hold back what we have.
        const more = delivery.take()
        batch = more instanceof Promise ? await more : more
      }
      const now = delivery.env.clock.monotonic()
      const inSession = gathered.length === 0 || delivery.alive(now)
      const records = inSession ? this.#current(gathered) : this.#putBack(gathered)
      if (records.length > 0) {
        this.#since = now
        delivery.handedOut(now)
      }
      return records
    } finally {
      this.#asking = false
    }
  }

  #gather(batch: Batch<K, V>, maxRecords: number, into: ConsumerRecord<K, V>[]): void {
    const { playhead, epoch, leaderEpoch } = batch
    if (!this.#delivery.stillWanted(batch)) return
    const walk = batch[Symbol.iterator]()
    const before = into.length
    while (into.length < maxRecords) {
      const record = walk.advance()
      if (record === undefined) break
      into.push(record)
      playhead.position = record.offset + 1
    }
    const count = into.length - before
    // What is left of a batch may hold no record: nothing is handed out, and a bounded replay may end with it.
    if (walk.atEnd && count === 0) playhead.passOver(batch.nextOffset)
    else if (walk.atEnd) playhead.position = batch.nextOffset
    else this.#delivery.park(batch)
    if (count === 0) return
    playhead.handOut()
    this.#inHand.push({ playhead, epoch, offset: playhead.position, leaderEpoch, count })
  }

  /**
   * Those whose partition has not jumped since they were gathered, and is not given up. A poll may wait for a batch to
   * be decompressed while it has others in hand: a rewind that takes effect in that time takes effect before them, and
   * what was taken from us, or is given up by `close`, is for the next owner.
   */
  #current(gathered: ConsumerRecord<K, V>[]): ConsumerRecord<K, V>[] {
    const { closed } = this.#delivery
    const isOurs = ({ playhead, epoch }: Polled) =>
      !closed && playhead.epoch === epoch && playhead.alive && playhead.state !== 'revoking'
    if (this.#inHand.every(isOurs)) return gathered
    const records: ConsumerRecord<K, V>[] = []
    const current: Polled[] = []
    let at = 0
    for (const polled of this.#inHand) {
      const { playhead, count } = polled
      if (isOurs(polled)) {
        current.push(polled)
        records.push(...gathered.slice(at, at + count))
      } else playhead.handBack()
      at += count
    }
    this.#inHand = current
    return records
  }

  /** The session passed while the poll waited for a batch: all of it comes again, if it is still ours by then. */
  #putBack(gathered: readonly ConsumerRecord<K, V>[]): [] {
    let at = 0
    for (const { playhead, epoch, count } of this.#inHand) {
      playhead.redeliver(epoch, gathered[at]?.offset ?? playhead.position)
      playhead.handBack()
      at += count
    }
    this.#inHand = []
    return []
  }

  #finish(): void {
    this.reportInHand()
    const inHand = this.#inHand
    this.#inHand = []
    this.#since = Infinity
    for (const { playhead } of inHand) playhead.handBack()
  }
}
