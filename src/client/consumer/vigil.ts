/**
 * What a consumer keeps an eye on while it runs: a commit every so often, handlers that take too long, and whether it
 * delivers anything at all. Few timers, none per record.
 */
import type { Clock, Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import type { Events } from './events.ts'
import type { Settings } from './options.ts'
import { type StallFacts, stallOf } from './stall.ts'

export interface VigilHost {
  readonly clock: Clock
  readonly settings: Settings
  readonly events: Events
  /** Since when the application has had what it has in hand; Infinity: nothing. */
  inHandSince(): number
  /** When something was last handed out. */
  lastAt(): number
  stallFacts(now: number, forMs: number): StallFacts
  commit(): void
  /** The member is to leave its group, as a handler is too slow. */
  overdue(): void
  caughtUp(): void
}

export class Vigil {
  readonly #host: VigilHost
  readonly #timers = new Set<Timer>()
  #overdue = false
  /** The `lastAt` that a stall was said for. */
  #said = -Infinity
  #closed = false

  constructor(host: VigilHost) {
    this.#host = host
  }

  start(): void {
    const { group, autoCommit, commitIntervalMs, stalledAfterMs, maxProcessingMs } =
      this.#host.settings
    this.#every(Math.max(1_000, stalledAfterMs / 3), () => this.#lookForStall())
    if (group === null) return
    if (autoCommit) this.#every(commitIntervalMs, () => this.#host.commit())
    this.#watchHandlers(maxProcessingMs)
  }

  /** Nothing is in hand any more: a member that left because it was too slow joins again. */
  asked(): void {
    if (!this.#overdue) return
    this.#overdue = false
    this.#host.caughtUp()
  }

  close(): void {
    this.#closed = true
    for (const timer of this.#timers) timer.cancel()
    this.#timers.clear()
  }

  /** One timer: it looks again when the oldest that is in hand now would be too old. */
  #watchHandlers(maxMs: number): void {
    const look = (): void => {
      const since = this.#host.inHandSince()
      const now = this.#host.clock.monotonic()
      if (!this.#overdue && now - since >= maxMs) this.#becomeOverdue(now - since)
      const idle = since === Infinity || this.#overdue
      this.#after(idle ? maxMs : Math.max(1, since + maxMs - now), look)
    }
    this.#after(maxMs, look)
  }

  #becomeOverdue(forMs: number): void {
    this.#overdue = true
    const { group, maxProcessingMs } = this.#host.settings
    const message =
      `group '${group}': what was handed out ${Math.round(forMs)} ms ago is not processed yet, maxProcessingMs is ` +
      `${maxProcessingMs}: this member leaves its group, and joins again when it is. Raise maxProcessingMs, or take less at a time.`
    this.#host.overdue()
    const error = new PlayheadError('PROCESSING_TIMEOUT', message, { group: group ?? undefined })
    this.#host.events.emit('error', { error })
  }

  #lookForStall(): void {
    const now = this.#host.clock.monotonic()
    const lastAt = this.#host.lastAt()
    const forMs = now - lastAt
    if (forMs < this.#host.settings.stalledAfterMs || this.#said === lastAt) return
    const stall = stallOf(this.#host.stallFacts(now, forMs))
    if (stall === undefined) return
    this.#said = lastAt
    this.#host.events.emit('stalled', { ...stall, forMs })
  }

  #every(ms: number, fire: () => void): void {
    this.#after(ms, () => {
      fire()
      this.#every(ms, fire)
    })
  }

  #after(ms: number, fire: () => void): void {
    if (this.#closed) return
    const timer = this.#host.clock.after(ms, () => {
      this.#timers.delete(timer)
      fire()
    })
    this.#timers.add(timer)
  }
}
