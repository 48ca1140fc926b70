/**
 * Every call settles within its deadline (C1), no error goes uncaught (C2), nothing runs hot (C4), and what closed in
 * order left nothing behind (X1).
 */
import { type Checker, type Happened, Violation } from '../history/events.ts'

/** A deadline is met when it is missed by less. */
const graceMs = 1_000

interface Call {
  readonly node: string
  readonly inc: number
  dueAt: number
}

export class CallChecker implements Checker {
  readonly #calls = new Map<string, Call>()
  readonly #pausedAt = new Map<string, number>()

  on(event: Happened): void {
    switch (event.k) {
      case 'call':
        this.#calls.set(event.call, {
          node: event.node,
          inc: event.inc,
          dueAt: event.t + event.deadlineMs + graceMs
        })
        break
      case 'settled':
        this.#check(event.call, event)
        this.#calls.delete(event.call)
        break
      case 'pause':
        this.#pausedAt.set(event.node, event.t)
        break
      case 'resume':
        return this.#resumed(event)
      case 'crash':
      case 'power.loss':
        // Nobody waits for the answers of a dead process.
        for (const [name, { node }] of this.#calls) {
          if (node === event.node) this.#calls.delete(name)
        }
        this.#pausedAt.delete(event.node)
        break
      case 'uncaught':
        throw new Violation('C2', event.error, event)
      case 'busy':
        throw new Violation('C4', `${event.events} events in a second of virtual time`, event)
      case 'closed':
        if (event.leftovers !== '') {
          throw new Violation('X1', `after the close there are still ${event.leftovers}`, event)
        }
        break
      default:
    }
  }

  /** Calls still open, at the end of a run, are overdue now or never will settle. */
  end(): void {
    for (const [name] of this.#calls) throw new Violation('C1', `${name} never settled`)
  }

  /** A process that stood still gets its time back. */
  #resumed(event: Happened): void {
    const since = this.#pausedAt.get(event.node)
    this.#pausedAt.delete(event.node)
    if (since === undefined) return
    for (const call of this.#calls.values()) {
      if (call.node === event.node) call.dueAt += event.t - since + graceMs
    }
  }

  #check(name: string, event: Happened): void {
    const call = this.#calls.get(name)
    if (call !== undefined && event.t > call.dueAt) {
      const late = Math.round(event.t - call.dueAt + graceMs)
      throw new Violation('C1', `${name} settled ${late} ms after its deadline`, event)
    }
  }
}
