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
function promiseJobs(): Promise<void> {
  return new Promise(resolve => {
    setImmediate(resolve)
  })
}

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
    return this.#ask({ dueUs, rank: 1, tie: this.#ties?.next() ?? 0, fire })
  }

  soon(fire: () => void): Timer {
    return this.#ask({ dueUs: this.#nowUs, rank: 0, tie: 0, fire })
  }

  /** Runs the next event and all promise jobs, before it too. False: there was none. */
  async step(): Promise<boolean> {
    await promiseJobs()
    const event = this.#take(Infinity)
    if (event === undefined) return false
    event.fire()
    await promiseJobs()
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
    await promiseJobs()
    for (let count = 0; ; count++) {
      if (condition?.()) return true
      assert(count < this.#maxEvents, `a run has at most ${this.#maxEvents} events`)
      const event = this.#take(untilUs)
      if (event === undefined) return false
      event.fire()
      await promiseJobs()
    }
  }

  #ask(what: Pick<Event, 'dueUs' | 'rank' | 'tie' | 'fire'>): Timer {
    const event: Event = { ...what, order: this.#asked++, live: true }
    push(this.#heap, event)
    return {
      cancel: () => {
        if (!event.live) return
        event.live = false
        this.#cancelled++
        this.#forgetCancelled()
      }
    }
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

interface Event {
  readonly dueUs: number
  /** 0 for `soon`, 1 for timers. */
  readonly rank: number
  readonly tie: number
  readonly order: number
  readonly fire: () => void
  /** Neither fired nor cancelled. */
  live: boolean
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
