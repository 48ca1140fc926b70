/** The broker's time, which a test may push on: what was to happen in the time that is skipped happens there and then. */
import type { Clock, Timer } from '../base/env.ts'

export class ShiftedClock implements Clock {
  readonly #clock: Clock
  readonly #alarms = new Set<Alarm>()
  #aheadMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  now(): number {
    return this.#clock.now() + Math.round(this.#aheadMs)
  }

  monotonic(): number {
    return this.#clock.monotonic() + this.#aheadMs
  }

  after(delayMs: number, fire: () => void): Timer {
    const alarm = new Alarm(this.monotonic() + delayMs, () => {
      this.#alarms.delete(alarm)
      fire()
    })
    this.#alarms.add(alarm)
    alarm.wait(this.#clock, delayMs)
    return {
      cancel: () => {
        alarm.stop()
        this.#alarms.delete(alarm)
      }
    }
  }

  soon(fire: () => void): Timer {
    return this.#clock.soon(fire)
  }

  /** It is so much later from now on; what is due by then fires before this returns, what was due first first. */
  advance(ms: number): void {
    this.#aheadMs += ms
    const now = this.monotonic()
    for (const alarm of [...this.#alarms].sort((a, b) => a.dueMs - b.dueMs)) {
      // One before it may have cancelled it.
      if (!this.#alarms.has(alarm)) continue
      if (alarm.dueMs > now) alarm.wait(this.#clock, alarm.dueMs - now)
      else alarm.ring()
    }
  }
}

class Alarm {
  readonly dueMs: number
  readonly #fire: () => void
  #timer: Timer | undefined

  constructor(dueMs: number, fire: () => void) {
    this.dueMs = dueMs
    this.#fire = fire
  }

  wait(clock: Clock, delayMs: number): void {
    this.#timer?.cancel()
    this.#timer = clock.after(delayMs, this.#fire)
  }

  ring(): void {
    this.stop()
    this.#fire()
  }

  stop(): void {
    this.#timer?.cancel()
  }
}
