/**
 * `run`: a handler for each record, several at a time. Order is kept per partition: each partition's records are handled
 * one after the other, up to `concurrency` partitions at once. Or per key: records of one key one after the other, up to
 * `concurrency` records at once whatever their partition, and what is committed is behind the first that is not done.
 */
import { onAbort } from '../../base/abort.ts'
import type { Timer } from '../../base/env.ts'
import type { Delivery, Reader } from './delivery.ts'
import { invalid } from './options.ts'
import type { Playhead } from './playhead.ts'
import type { Batch, ConsumerRecord } from './record.ts'
import { type DeadLetters, type HandlerRetries, Retries, type RetriesHost } from './retries.ts'

/** What a handler gets beside the record. */
export interface HandlerContext {
  /**
   * Fires when the record's partition jumped or was lost: what the handler does is no longer wanted. And when it is being
   * given up and the handler has held that up for `revokeWaitMs`: it may still end, but should soon. What it rejects
   * with after that is nobody's concern: the record comes again, here or elsewhere.
   */
  readonly signal: AbortSignal
  /** How often the handler has been called for this record, this time included. */
  readonly attempt: number
}

/**
 * What it rejects with is tried again as `retry` says, then given to `deadLetters`; without them it ends `run`, which
 * rejects with the same. The record is not processed then: it comes again.
 */
export type Handler<K, V> = (record: ConsumerRecord<K, V>, context: HandlerContext) => unknown

/** How many handlers run at once, and in what order. */
export interface RunOptions<K = Buffer, V = Buffer> {
  /** Handlers at a time. Default 1. */
  readonly concurrency?: number
  /** Default 'partition'. Records without a key have no order among each other with 'key'. */
  readonly order?: 'partition' | 'key'
  /** How often a handler that fails is called again for its record, which others of its order wait for. Default: never. */
  readonly retry?: HandlerRetries
  /** Where a record goes whose handler has failed for the last time. Default: nowhere; `run` ends. */
  readonly deadLetters?: DeadLetters<K, V>
  /** Ends `run` once the handlers that run have ended. */
  readonly signal?: AbortSignal
}

/** A partition gives way to others that wait after so long. */
const turnMs = 100

export class Runner<K, V> implements Reader {
  readonly name = 'run()'
  readonly #delivery: Delivery<K, V>
  readonly #handler: Handler<K, V>
  readonly #concurrency: number
  readonly #byKey: boolean
  readonly #retries: Retries<K, V>
  /** When each running handler began. */
  readonly #began = new Map<symbol, number>()
  /** Partitions with a running handler, of whichever of their playheads. */
  readonly #lanes = new Map<string, Playhead[]>()
  readonly #keys = new Map<string, Promise<void>>()
  readonly #progress = new Map<Playhead, Progress>()
  #active = 0
  #slotFree: (() => void) | undefined
  #stopping = false
  #failure: { readonly error: unknown } | undefined
  #over = false
  readonly #finished: Promise<void>
  #finish: () => void = () => {}

  constructor(
    delivery: Delivery<K, V>,
    handler: Handler<K, V>,
    options: RunOptions<K, V>,
    world: Omit<RetriesHost, 'random'>
  ) {
    const { concurrency = 1, order = 'partition', retry, deadLetters } = options
    if (!Number.isInteger(concurrency) || concurrency < 1) {
      throw invalid('concurrency is a positive integer')
    }
    this.#delivery = delivery
    this.#handler = handler
    this.#concurrency = concurrency
    this.#byKey = order === 'key'
    const host = { ...world, random: delivery.env.random }
    this.#retries = new Retries(host, retry, deadLetters)
    this.#finished = new Promise(resolve => (this.#finish = resolve))
  }

  inHandSince(): number {
    let oldest = Infinity
    for (const began of this.#began.values()) oldest = Math.min(oldest, began)
    return oldest
  }

  yields(): boolean {
    return this.#over
  }

  /** What handlers have is not processed before they end. */
  reportInHand(): boolean {
    return false
  }

  async run(signal: AbortSignal | undefined): Promise<void> {
    this.#delivery.claim(this)
    const stop = (): void => {
      this.#stopping = true
      this.#delivery.wake()
      this.#slotFree?.()
    }
    const deafen = signal && onAbort(signal, stop)
    if (signal?.aborted) stop()
    try {
      await this.#dispatch()
    } finally {
      while (this.#active > 0) await this.#slot()
      await this.#retries.close()
      this.#over = true
      deafen?.()
      this.#finish()
      this.#delivery.release(this)
    }
    if (this.#failure !== undefined) throw this.#failure.error
  }

  async #dispatch(): Promise<void> {
    const delivery = this.#delivery
    delivery.asked()
    while (!this.#stopping) {
      if (this.#active >= this.#concurrency) {
        await this.#slot()
        continue
      }
      const batch = await delivery.next(Infinity, () => this.#stopping)
      if (batch === undefined) return
      if (this.#stopping) return delivery.park(batch)
      if (!delivery.stillWanted(batch)) continue
      if (this.#byKey) await this.#spread(batch)
      else this.#occupy(batch)
    }
  }

  /** Resolves when no handler runs any more, or at `deadline` (monotonic): one that never ends holds up no close. */
  async endBy(deadline: number): Promise<void> {
    const { clock } = this.#delivery.env
    let timer: Timer | undefined
    const late = new Promise<void>(resolve => {
      timer = clock.after(Math.max(0, deadline - clock.monotonic()), resolve)
    })
    await Promise.race([this.#finished, late])
    timer?.cancel()
  }

  /** No handler starts any more: a close waits for those that run, not for the rest of their batches. */
  #mustStop(playhead: Playhead, now: number): boolean {
    const { closed } = this.#delivery
    return this.#stopping || closed || !playhead.delivers || !this.#delivery.alive(now)
  }

  get #othersWait(): boolean {
    return this.#active >= this.#concurrency && this.#delivery.anyReady
  }

  #slot(): Promise<void> {
    return new Promise(resolve => (this.#slotFree = resolve))
  }

  #ended(): void {
    this.#active -= 1
    this.#slotFree?.()
    // With nothing in hand the member that was too slow may join again.
    if (this.#active === 0) this.#delivery.asked()
  }

  // By partition

  #occupy(batch: Batch<K, V>): void {
    const { playhead } = batch
    const waiting = this.#lanes.get(playhead.key)
    playhead.busy = true
    if (waiting !== undefined) {
      // The partition was lost and is back, and a handler of its former life still runs.
      this.#delivery.park(batch)
      waiting.push(playhead)
      return
    }
    this.#lanes.set(playhead.key, [playhead])
    this.#active += 1
    playhead.handOut()
    this.#oneByOne(batch)
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        const playheads = this.#lanes.get(playhead.key) ?? []
        this.#lanes.delete(playhead.key)
        playhead.handBack()
        for (const one of playheads) {
          one.busy = false
          this.#delivery.deliverable(one)
        }
        this.#ended()
      })
  }

  async #oneByOne(batch: Batch<K, V>): Promise<void> {
    const { playhead, epoch } = batch
    const { clock } = this.#delivery.env
    const walk = batch[Symbol.iterator]()
    const turnEnds = clock.monotonic() + turnMs
    for (;;) {
      const now = clock.monotonic()
      if (this.#mustStop(playhead, now) || (now > turnEnds && this.#othersWait))
        return this.#delivery.park(batch)
      const record = walk.advance()
      if (record === undefined) break
      playhead.position = record.offset + 1
      this.#delivery.handedOut(now)
      let done = false
      try {
        done = await this.#see(playhead, record, now)
      } finally {
        if (!done) playhead.redeliver(epoch, record.offset)
      }
      if (!done) return
      playhead.report(epoch, record.offset + 1, record.leaderEpoch)
    }
    if (playhead.epoch !== epoch) return
    playhead.position = batch.nextOffset
    if (playhead.processed >= batch.firstOffset) {
      playhead.report(epoch, batch.nextOffset, batch.leaderEpoch)
    }
  }

  /** Has the record handled. False: it is no longer wanted here, or not now. Rejects when that fails for good. */
  #see(
    playhead: Playhead,
    record: ConsumerRecord<K, V>,
    now: number,
    attempt = 1
  ): boolean | Promise<boolean> {
    const { signal } = playhead
    const id = Symbol()
    this.#began.set(id, now)
    const failed = (error: unknown): boolean | Promise<boolean> => {
      this.#began.delete(id)
      return signal.aborted ? false : this.#afterFailure(playhead, record, error, attempt)
    }
    let result: unknown
    try {
      result = this.#handler(record, { signal, attempt })
    } catch (error) {
      return failed(error)
    }
    if (!isThenable(result)) {
      this.#began.delete(id)
      return true
    }
    return Promise.resolve(result).then(() => {
      this.#began.delete(id)
      return true
    }, failed)
  }

  async #afterFailure(
    playhead: Playhead,
    record: ConsumerRecord<K, V>,
    error: unknown,
    attempts: number
  ): Promise<boolean> {
    const waitMs = this.#retries.waitMs(error, attempts)
    if (waitMs === undefined) {
      await this.#retries.giveUp({ record, error, attempts })
      return true
    }
    if (!(await this.#waited(playhead, waitMs))) return false
    return await this.#see(playhead, record, this.#delivery.env.clock.monotonic(), attempts + 1)
  }

  /** Waits; false as soon as the partition jumps or goes, or no handler is called any more. */
  async #waited(playhead: Playhead, ms: number): Promise<boolean> {
    const delivery = this.#delivery
    const { clock } = delivery.env
    const { signal } = playhead
    const until = clock.monotonic() + ms
    const deafen = onAbort(signal, () => delivery.wake())
    try {
      while (!signal.aborted && !this.#stopping && !delivery.closed) {
        if (playhead.state === 'revoking') return false
        const leftMs = until - clock.monotonic()
        if (leftMs <= 0) return true
        await delivery.wait(leftMs)
      }
      return false
    } finally {
      deafen()
    }
  }

  #failed(error: unknown): void {
    this.#failure ??= { error }
    this.#stopping = true
    this.#delivery.wake()
  }

  // By key

  /** Starts the records of `batch`, as slots come free; resolves when the last has started. */
  async #spread(batch: Batch<K, V>): Promise<void> {
    const { playhead, epoch } = batch
    const { clock } = this.#delivery.env
    const progress = this.#progressOf(playhead, epoch)
    const walk = batch[Symbol.iterator]()
    progress.open += 1
    playhead.handOut()
    try {
      for (;;) {
        while (this.#active >= this.#concurrency) await this.#slot()
        const now = clock.monotonic()
        if (this.#mustStop(playhead, now)) {
          return this.#delivery.park(batch)
        }
        const record = walk.advance()
        if (record === undefined) break
        playhead.position = record.offset + 1
        this.#delivery.handedOut(now)
        this.#start(playhead, progress, record)
      }
      if (playhead.epoch === epoch) {
        playhead.position = batch.nextOffset
        progress.end(batch.nextOffset, batch.leaderEpoch)
      }
    } finally {
      progress.open -= 1
      playhead.handBack()
      this.#settle(playhead, progress)
    }
  }

  #progressOf(playhead: Playhead, epoch: number): Progress {
    let progress = this.#progress.get(playhead)
    if (progress === undefined || progress.epoch !== epoch) {
      this.#progress.set(playhead, (progress = new Progress(epoch)))
    }
    return progress
  }

  #start(playhead: Playhead, progress: Progress, record: ConsumerRecord<K, V>): void {
    const item = progress.begin(record.offset, record.leaderEpoch)
    const key = keyText(record)
    const before = key === undefined ? undefined : this.#keys.get(key)
    this.#active += 1
    playhead.handOut()
    const work = async (): Promise<void> => {
      if (before !== undefined) await before
      // A jump or a failure came while it waited for the one before of its key.
      if (playhead.epoch !== progress.epoch || this.#failure !== undefined) return
      item.done = await this.#see(playhead, record, this.#delivery.env.clock.monotonic())
    }
    const done = work()
      .catch((error: unknown) => this.#failed(error))
      .then(() => {
        if (key !== undefined && this.#keys.get(key) === done) this.#keys.delete(key)
        progress.running -= 1
        playhead.handBack()
        this.#settle(playhead, progress)
        this.#ended()
      })
    if (key !== undefined) this.#keys.set(key, done)
  }

  #settle(playhead: Playhead, progress: Progress): void {
    const at = progress.advance()
    if (at !== undefined) playhead.report(progress.epoch, at.offset, at.leaderEpoch)
    if (progress.open > 0 || progress.running > 0) return
    if (this.#progress.get(playhead) === progress) this.#progress.delete(playhead)
    // What failed, and what was after it, comes again.
    const first = progress.firstUndone
    if (first !== undefined) playhead.redeliver(progress.epoch, first)
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value
}

function keyText({ topic, partition, key }: ConsumerRecord<unknown, unknown>): string | undefined {
  if (key === null || key === undefined) return undefined
  const text = Buffer.isBuffer(key) ? key.toString('latin1') : JSON.stringify(key)
  return `${topic}/${partition}/${text}`
}

interface Item {
  readonly next: number
  readonly leaderEpoch: number
  done: boolean
}

/** How far a partition is processed when its records end in any order: up to the first that is not done. */
export class Progress {
  readonly epoch: number
  /** Walks that still begin records. */
  open = 0
  /** Records that were begun and have not ended, well or badly. */
  running = 0
  readonly #items: Item[] = []
  #head = 0

  constructor(epoch: number) {
    this.epoch = epoch
  }

  /** The offset of the first record that was begun and is not done; undefined: there is none. */
  get firstUndone(): number | undefined {
    const item = this.#items[this.#head]
    return item === undefined ? undefined : item.next - 1
  }

  begin(offset: number, leaderEpoch: number): Item {
    this.running += 1
    const item = { next: offset + 1, leaderEpoch, done: false }
    this.#items.push(item)
    return item
  }

  /** A batch ends at `next`: what lies between its last record and that needs no handler. */
  end(next: number, leaderEpoch: number): void {
    this.#items.push({ next, leaderEpoch, done: true })
  }

  /** Passes what is done; where that leads, if it leads anywhere. */
  advance(): { readonly offset: number; readonly leaderEpoch: number } | undefined {
    let last: Item | undefined
    for (let item = this.#items[this.#head]; item?.done; item = this.#items[this.#head]) {
      last = item
      this.#head += 1
    }
    if (this.#head > 1_024) {
      this.#items.splice(0, this.#head)
      this.#head = 0
    }
    return last === undefined ? undefined : { offset: last.next, leaderEpoch: last.leaderEpoch }
  }
}
