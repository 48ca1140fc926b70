/** Time from Node. What Node's timers get wrong is set right here: they may fire early, and not late enough. */

import { assert } from '../assert.ts'
import type { Clock, Timer } from '../env.ts'

/** Longest delay of one `setTimeout`: a longer one fires at once. */
const longestTimeoutMs = 2 ** 31 - 1

export const nodeClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(delayMs, fire) {
    assert(Number.isFinite(delayMs), 'the delay of a timer is finite')
    return new Alarm(performance.now() + delayMs, fire)
  },
  soon(fire) {
    const immediate = setImmediate(fire)
    return { cancel: () => clearImmediate(immediate) }
  }
}

/**
 * Node counts a timer from the loop's own time, whole milliseconds taken when the turn began: measured by
 * `performance.now()` it may fire up to a millisecond or more early. So the due moment is kept, and what
 * is left waited for again; the same loop serves delays over 24 days.
 */
class Alarm implements Timer {
  readonly #due: number
  readonly #fire: () => void
  #timeout: NodeJS.Timeout

  constructor(due: number, fire: () => void) {
    this.#due = due
    this.#fire = fire
    this.#timeout = this.#wait()
  }

  cancel(): void {
    clearTimeout(this.#timeout)
  }

  #wait(): NodeJS.Timeout {
    const leftMs = Math.ceil(this.#due - performance.now())
    return setTimeout(() => this.#ring(), Math.min(Math.max(leftMs, 0), longestTimeoutMs))
  }

  #ring(): void {
    if (performance.now() < this.#due) this.#timeout = this.#wait()
    else this.#fire()
  }
}
