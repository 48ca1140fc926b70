/**
 * Virtual time: an event is one callback; after it all promise jobs run; then time jumps to the next event.
 * Events are ordered by (moment, rank, tie): at one moment all `soon` come before the timers, and among equals
 * the one asked for first, unless `ties` shuffles them.
 */

import { AssertionError, assert } from '../../src/base/assert.ts'
import type { Clock, Random, Timer } from '../../src/base/env.ts'

// Taken at load: in a simulation the global ones throw.
const { setImmediate } = globalThis

/** A macrotask: it starts when no promise job is left, however long their chains. */
function macrotask(): Promise<void> {
  return new Promise(resolve => {
    setImmediate(resolve)
  })
}

/**
 * Runs all promise jobs, and reports rejections that nobody handles, as Node does between two timers of one moment;
 * a macrotask for each event would cost ten times as much. Does nothing within a promise job.
 */
const { _tickCallback: promiseJobs } = process as unknown as { readonly _tickCallback: () => void }

/** After so many events the rest of the process gets its turn. */
const eventsAtOnce = 1_000

export interface VirtualClockOptions {
  /** Wall-clock time at the start, ms since 1970. Default 2026-01-01. */
  readonly startMs?: number
  /** Breaks ties between timers of one moment. Default: the order in which they were asked for. */
  readonly ties?: Random
  /** More events than this in one run are a loop that makes no progress. Default ten million. */
  readonly maxEvents?: number
}

export class VirtualClock implements Clock {
  readonly #startMs: number
  readonly #ties: Random | undefined
  readonly #maxEvents: number
  #nowUs = 0
  #asked = 0
  #heap: Event[] = []
  #cancelled = 0

  constructor(options: VirtualClockOptions = {}) {
    this.#startMs = options.startMs ?? Date.UTC(2026, 0, 1)
    this.#ties = options.ties
    this.#maxEvents = options.maxEvents ?? 10_000_000
  }

  now(): number {
    return this.#startMs + Math.floor(this.#nowUs / 1000)
  }

  monotonic(): number {
    return this.#nowUs / 1000
  }

  /** How many events were ever asked for: runs that differ anywhere differ here. */
  get asked(): number {
    return this.#asked
  }

  /** How many events are to come: 0 when nothing holds on to time any more. */
  get pending(): number {
    return this.#heap.length - this.#cancelled
  }

  after(delayMs: number, fire: () => void): Timer {
    assert(Number.isFinite(delayMs), 'the delay of a timer is finite')
    // Rounded up: a timer may be late, never early.
    const dueUs = this.#nowUs + Math.max(0, Math.ceil(delayMs * 1000))
    return this.#ask(dueUs, 1, this.#ties === undefined ? 0 : tieOf(this.#ties), fire)
  }

  soon(fire: () => void): Timer {
    return this.#ask(this.#nowUs, 0, 0, fire)
  }

  /** Runs the next event and all promise jobs, before it too. False: there was none. */
  async step(): Promise<boolean> {
    await macrotask()
    const event = this.#take(Infinity)
    if (event === undefined) return false
    event.fire()
    await macrotask()
    return true
  }

  /** Runs what is due within `ms`, and leaves the clock exactly that much later. */
  async advance(ms: number): Promise<void> {
    const untilUs = this.#nowUs + Math.ceil(ms * 1000)
    await this.#run(untilUs)
    this.#nowUs = untilUs
  }

  /** Runs until no event is left. Throws when `withinMs` of virtual time were not enough. */
  async runUntilIdle(withinMs = 3_600_000): Promise<void> {
    await this.#run(this.#nowUs + Math.ceil(withinMs * 1000))
    if (this.pending > 0)
      throw new AssertionError(`still ${this.pending} events after ${withinMs} ms`)
  }

  /** Runs until `condition` holds, looked at after each event. Throws when it then never can. */
  async runUntil(condition: () => boolean, withinMs = 3_600_000): Promise<void> {
    const untilUs = this.#nowUs + Math.ceil(withinMs * 1000)
    if (!(await this.#run(untilUs, condition))) {
      const why = this.pending > 0 ? `${withinMs} ms were not enough` : 'nothing is left to happen'
      throw new AssertionError(`never true: ${String(condition)}: ${why}`)
    }
  }

  /** Runs a program written with promises to its end, in virtual time. */
  async play<T>(program: Promise<T>, withinMs = 3_600_000): Promise<T> {
    let settled = false
    const done = () => {
      settled = true
    }
    program.then(done, done)
    await this.runUntil(() => settled, withinMs)
    return program
  }

  async #run(untilUs: number, condition?: () => boolean): Promise<boolean> {
    for (let count = 0; ; count += eventsAtOnce) {
      assert(count < this.#maxEvents, `a run has at most ${this.#maxEvents} events`)
      const done = await new Promise<boolean | undefined>((resolve, reject) => {
        setImmediate(() => {
          try {
            resolve(this.#runSome(untilUs, condition))
          } catch (error) {
            reject(error instanceof Error ? error : new Error(String(error)))
          }
        })
      })
      if (done !== undefined) return done
    }
  }

  /** True: the condition holds; false: nothing is due; undefined: there is more to do. Not within a promise job. */
  #runSome(untilUs: number, condition: (() => boolean) | undefined): boolean | undefined {
    for (let count = 0; count < eventsAtOnce; count++) {
      if (condition?.()) return true
      const event = this.#take(untilUs)
      if (event === undefined) return false
      event.fire()
      promiseJobs()
    }
    return undefined
  }

  #ask(dueUs: number, rank: number, tie: number, fire: () => void): Timer {
    const event = new Event(this, dueUs, rank, tie, this.#asked++, fire)
    push(this.#heap, event)
    return event
  }

  /** Part of `Event.cancel`. */
  cancelled(): void {
    this.#cancelled++
    this.#forgetCancelled()
  }

  /** The next event that is due by `untilUs`, and time as it happens. */
  #take(untilUs: number): Event | undefined {
    for (let first = this.#heap[0]; first !== undefined; first = this.#heap[0]) {
      if (first.live && first.dueUs > untilUs) return undefined
      pop(this.#heap)
      if (first.live) {
        first.live = false
        this.#nowUs = Math.max(this.#nowUs, first.dueUs)
        return first
      }
      this.#cancelled--
    }
    return undefined
  }

  /** A request's time-out is mostly cancelled long before it is due: they must not pile up. */
  #forgetCancelled(): void {
    if (this.#cancelled < 64 || this.#cancelled * 2 < this.#heap.length) return
    // A sorted array is a heap.
    this.#heap = this.#heap.filter(event => event.live).sort(compare)
    this.#cancelled = 0
  }
}

class Event implements Timer {
  readonly dueUs: number
  /** 0 for `soon`, 1 for timers. */
  readonly rank: number
  readonly tie: number
  readonly order: number
  readonly fire: () => void
  /** Neither fired nor cancelled. */
  live = true
  readonly #clock: VirtualClock

  constructor(
    clock: VirtualClock,
    dueUs: number,
    rank: number,
    tie: number,
    order: number,
    fire: () => void
  ) {
    this.#clock = clock
    this.dueUs = dueUs
    this.rank = rank
    this.tie = tie
    this.order = order
    this.fire = fire
  }

  cancel(): void {
    if (!this.live) return
    this.live = false
    this.#clock.cancelled()
  }
}

/** A small integer: it needs no box of its own. */
function tieOf(ties: Random): number {
  return Math.floor(ties.next() * 2 ** 30)
}

function compare(a: Event, b: Event): number {
  return a.dueUs - b.dueUs || a.rank - b.rank || a.tie - b.tie || a.order - b.order
}

function push(heap: Event[], event: Event): void {
  let at = heap.length
  while (at > 0) {
    const parent = (at - 1) >> 1
    const above = heap[parent] as Event
    if (compare(above, event) <= 0) break
    heap[at] = above
    at = parent
  }
  heap[at] = event
}

function pop(heap: Event[]): void {
  const last = heap.pop() as Event
  if (heap.length === 0) return
  let at = 0
  for (;;) {
    let child = 2 * at + 1
    if (child >= heap.length) break
    if (child + 1 < heap.length && compare(heap[child + 1] as Event, heap[child] as Event) < 0) {
      child++
    }
    const below = heap[child] as Event
    if (compare(last, below) <= 0) break
    heap[at] = below
    at = child
  }
  heap[at] = last
}
