/**
 * Takes down what happens, asks every checker at once, and hashes it, so that two runs of one seed can be compared.
 * Only the last events are kept unless a trace is wanted.
 */
import { createHash } from 'node:crypto'
import type { Checker, Happened, Happening } from './events.ts'

const kept = 4_000
/** Hashed at once: a call for each event costs more than the hash. */
const hashedAtOnce = 32 * 1024

export interface HistoryOptions {
  readonly now: () => number
  readonly checkers: readonly Checker[]
  /** Each event as it comes. */
  readonly trace?: ((event: Happened) => void) | undefined
}

export class History {
  readonly #options: HistoryOptions
  readonly #hash = createHash('sha256')
  #events: Happened[] = []
  #count = 0
  #text = ''

  constructor(options: HistoryOptions) {
    this.#options = options
  }

  get count(): number {
    return this.#count
  }

  /** The last of what happened. */
  get tail(): readonly Happened[] {
    return this.#events
  }

  /** Throws `Violation` when a rule doesn't hold any more. */
  add(node: string, inc: number, what: Happening): void {
    const event: Happened = { i: this.#count++, t: this.#options.now(), node, inc, ...what }
    this.note(JSON.stringify(event))
    if (this.#events.length >= 2 * kept) this.#events = this.#events.slice(kept)
    this.#events.push(event)
    this.#options.trace?.(event)
    for (const checker of this.#options.checkers) checker.on(event)
  }

  /** What is no event for a checker, and still must be the same in each run. */
  note(text: string): void {
    this.#text += text
    if (this.#text.length < hashedAtOnce) return
    this.#hash.update(this.#text)
    this.#text = ''
  }

  end(): void {
    for (const checker of this.#options.checkers) checker.end?.()
  }

  get hash(): string {
    return this.#hash.copy().update(this.#text).digest('hex').slice(0, 16)
  }
}
