/**
 * What is ready, handed to whoever asks: the async iterators, `poll` and `run` are all readers of this. One reader at a
 * time: two would have to share out records by chance.
 *
 * Partitions take turns, a batch each. What a reader may not have (paused, revoked, jumped, a session that may be over)
 * is decided here, at the last moment before a record is handed out.
 */
import type { Env, Timer } from '../../base/env.ts'
import type { PlayheadError } from '../../base/error.ts'
import type { Unpacker } from './chunk.ts'
import { invalid } from './options.ts'
import type { Playhead } from './playhead.ts'
import type { Batch } from './record.ts'

export interface DeliveryHost {
  readonly env: Env
  /** Monotonic ms until which this member is surely in its group; Infinity without a group. */
  aliveUntil(): number
  /** The application asks for more: what it had in hand is done with. */
  asked(): void
  /** `aliveUntil` has passed. */
  expired(): void
}

/** Somebody who takes records: an iterator, `poll` or `run`. */
export interface Reader {
  /** For messages: 'batches()'. */
  readonly name: string
  /** Since when (monotonic ms) the application has had the oldest of what it has in hand; Infinity: nothing. */
  inHandSince(): number
  /** The application says that it is done with what it has in hand. False: that cannot be said of it. */
  reportInHand(): boolean
  /** Another reader begins. False: this one is still at work. */
  yields(): boolean
}

/** So many records may be handed out by one look at the clock. */
const nowUses = 16

export class Delivery<K, V> {
  readonly env: Env
  readonly #host: DeliveryHost
  readonly #unpacker: Unpacker<K, V>
  /** Those that have something, in the order of their turns. */
  readonly #ready = new Set<Playhead>()
  readonly #troubles: PlayheadError[] = []
  readonly #sleepers = new Set<() => void>()
  #reader: Reader | null = null
  #fatal: PlayheadError | null = null
  #closed = false
  #lastAt: number
  #now = -Infinity
  #nowUses = 0
  #turn: Timer | null = null

  constructor(host: DeliveryHost, unpacker: Unpacker<K, V>) {
    this.env = host.env
    this.#host = host
    this.#unpacker = unpacker
    this.#lastAt = host.env.clock.monotonic()
  }

  get closed(): boolean {
    return this.#closed
  }

  get reader(): Reader | null {
    return this.#reader
  }

  /** When something was last handed out, or asked for and not there. */
  get lastAt(): number {
    return this.#lastAt
  }

  get anyReady(): boolean {
    return this.#ready.size > 0
  }

  /** Whether somebody waits for records. */
  get wanted(): boolean {
    return this.#sleepers.size > 0
  }

  /** Makes `reader` the one who reads. Throws when another is at work. */
  claim(reader: Reader): void {
    if (this.#reader !== null && this.#reader !== reader && !this.#reader.yields()) {
      throw invalid(
        `${reader.name}: ${this.#reader.name} is still reading from this consumer: end it first (break, or return())`
      )
    }
    this.#reader = reader
  }

  release(reader: Reader): void {
    if (this.#reader === reader) this.#reader = null
    this.#host.asked()
  }

  /** It may have become deliverable. */
  deliverable(playhead: Playhead): void {
    if (!playhead.delivers || playhead.busy || !playhead.loaded) return
    this.#ready.add(playhead)
    this.wake()
  }

  forget(playhead: Playhead): void {
    this.#ready.delete(playhead)
  }

  /** The next who asks is told. */
  trouble(error: PlayheadError): void {
    this.#troubles.push(error)
    this.wake()
  }

  /** Whoever asks from now on is told. */
  fail(error: PlayheadError): void {
    this.#fatal ??= error
    this.wake()
  }

  close(): void {
    this.#closed = true
    this.#turn?.cancel()
    this.#turn = null
    this.#ready.clear()
    this.wake()
  }

  wake(): void {
    if (this.#sleepers.size === 0) return
    const sleepers = [...this.#sleepers]
    this.#sleepers.clear()
    for (const wakeUp of sleepers) wakeUp()
  }

  /**
   * The time, for handing out: read anew in each turn of the event loop, and every few records within one. Reading it
   * for each record is a tenth of what a record costs.
   */
  now(): number {
    if (this.#nowUses > 0) {
      this.#nowUses -= 1
      return this.#now
    }
    this.#now = this.env.clock.monotonic()
    this.#nowUses = nowUses
    if (!this.#closed)
      this.#turn ??= this.env.clock.soon(() => {
        this.#turn = null
        this.#nowUses = 0
      })
    return this.#now
  }

  /** Whether anything may be handed out at this moment: see `sessionTimeoutMs`. */
  alive(now: number): boolean {
    if (now <= this.#host.aliveUntil()) return true
    this.#host.expired()
    return false
  }

  handedOut(now: number): void {
    this.#lastAt = now
  }

  /** Throws what the reader is to be told; otherwise says whether there is an end. */
  check(): boolean {
    if (this.#fatal !== null) throw this.#fatal
    const error = this.#closed ? undefined : this.#troubles.shift()
    if (error !== undefined) throw error
    return this.#closed
  }

  /** The reader asks for more. */
  asked(): void {
    this.#host.asked()
  }

  /**
   * The next batch, or a promise of one; undefined when there is none now. A promise may resolve to undefined while
   * there are others. The playhead's position stays before the batch: the reader moves it.
   */
  take(): Batch<K, V> | undefined | Promise<Batch<K, V> | undefined> {
    if (!this.alive(this.env.clock.monotonic())) return undefined
    for (const playhead of this.#ready) {
      this.#ready.delete(playhead)
      if (!playhead.delivers || playhead.busy) continue
      const { parked } = playhead
      if (parked !== undefined) {
        playhead.parked = undefined
        this.deliverable(playhead)
        return parked
      }
      const taken = this.#unpack(playhead)
      if (taken !== undefined) return taken
    }
    return undefined
  }

  #unpack(playhead: Playhead): ReturnType<Delivery<K, V>['take']> {
    while (playhead.chunks.length > 0 && playhead.delivers) {
      const taken = this.#unpacker.next(playhead)
      if (taken instanceof Promise) return this.#unpacked(playhead, taken)
      if (taken === undefined) continue
      this.deliverable(playhead)
      return taken
    }
    return undefined
  }

  async #unpacked(
    playhead: Playhead,
    taking: Promise<Batch<K, V> | undefined>
  ): Promise<Batch<K, V> | undefined> {
    let taken: Batch<K, V> | undefined
    try {
      taken = await taking
    } finally {
      this.deliverable(playhead)
    }
    return taken !== undefined && this.stillWanted(taken) ? taken : undefined
  }

  /**
   * Whether `batch` may be handed out after all: between its taking and this moment promises were waited for. If not,
   * it waits for its turn again, unless its partition has jumped or is no longer ours. A batch that took long to
   * decompress may outlast the session, too: by then another member may have its partition.
   */
  stillWanted(batch: Batch<K, V>): boolean {
    const playhead = batch.playhead
    if (playhead.epoch !== batch.epoch) return false
    if (playhead.delivers && !this.#closed && this.alive(this.env.clock.monotonic())) return true
    this.park(batch)
    return false
  }

  /** What is left of `batch` behind the playhead's position comes first at the next turn. */
  park(batch: Batch<K, V>): void {
    const playhead = batch.playhead
    if (playhead.epoch !== batch.epoch) return
    if (playhead.state !== 'reading' && playhead.state !== 'held') return
    playhead.parked = batch.rest() as never
    this.deliverable(playhead)
  }

  /** Resolves at the next `wake`, or after `timeoutMs`. */
  wait(timeoutMs = Infinity): Promise<void> {
    return new Promise(resolve => {
      const wakeUp = () => {
        timer?.cancel()
        this.#sleepers.delete(wakeUp)
        resolve()
      }
      const timer = timeoutMs < Infinity ? this.env.clock.after(timeoutMs, wakeUp) : undefined
      this.#sleepers.add(wakeUp)
    })
  }

  /** The next batch, however long it takes; undefined at the end, once `timeoutMs` have passed, or `stop` says so. */
  async next(timeoutMs = Infinity, stop?: () => boolean): Promise<Batch<K, V> | undefined> {
    const deadline = this.env.clock.monotonic() + timeoutMs
    for (;;) {
      if (this.check() || stop?.()) return undefined
      const taken = this.take()
      if (taken !== undefined) {
        const batch = taken instanceof Promise ? await taken : taken
        if (batch !== undefined && this.stillWanted(batch)) return batch
        continue
      }
      // Nothing is awaited between `take` and `wait`: what comes in between would wake nobody.
      const leftMs = deadline - this.env.clock.monotonic()
      if (leftMs <= 0) return undefined
      await this.wait(leftMs)
    }
  }
}
