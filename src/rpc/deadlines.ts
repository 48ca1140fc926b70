/**
 * The deadlines of all calls of a cluster, on one timer. It is set to the earliest; most calls are answered
 * long before theirs, so when it fires it mostly finds nothing to end and is set again, about once in a
 * request time-out, however many calls there are.
 */
import type { Clock, Timer } from '../base/env.ts'

export interface Expiring {
  /** As of `clock.monotonic()`. */
  readonly deadline: number
  /** The deadline has passed. */
  expire(): void
}

export class Deadlines {
  readonly #clock: Clock
  readonly #all = new Set<Expiring>()
  #timer: Timer | null = null
  #armedFor = Infinity

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(item: Expiring): void {
    this.#all.add(item)
    if (item.deadline < this.#armedFor) this.#arm(item.deadline)
  }

  remove(item: Expiring): void {
    this.#all.delete(item)
  }

  /** Forgets all, and the timer. */
  close(): void {
    this.#all.clear()
    this.#timer?.cancel()
    this.#timer = null
    this.#armedFor = Infinity
  }

  #arm(deadline: number): void {
    this.#timer?.cancel()
    this.#armedFor = deadline
    const delayMs = Math.max(0, deadline - this.#clock.monotonic())
    this.#timer = this.#clock.after(delayMs, () => this.#fire())
  }

  #fire(): void {
    this.#timer = null
    this.#armedFor = Infinity
    const now = this.#clock.monotonic()
    let next = Infinity
    for (const item of this.#all) {
      if (item.deadline <= now) {
        this.#all.delete(item)
        item.expire()
      } else if (item.deadline < next) next = item.deadline
    }
    // An `expire` may have added one, and armed.
    if (next < this.#armedFor) this.#arm(next)
  }
}
