/**
 * Offsets that somebody passed over. A gap is right where there is no visible record (a marker, an aborted record, a
 * place that compaction emptied), and whether there is one may only be known later, at the latest after the final read.
 */
import type { Happened, Tp } from '../history/events.ts'

/** An offset that was passed over though it has a visible record, and by which event. */
export interface Gap {
  readonly offset: number
  readonly event: Happened
}

export class Gaps {
  readonly #passed = new Map<Tp, Map<number, Happened>>()
  readonly #visible = new Map<Tp, Set<number>>()
  readonly #starts = new Map<Tp, number>()

  /** The log begins at `start` now: what was before is not missed. */
  cut(tp: Tp, start: number): void {
    this.#starts.set(tp, Math.max(start, this.#starts.get(tp) ?? 0))
  }

  /** `event` passed over the offsets from `from` up to `to`. The first of them that has a visible record. */
  pass(tp: Tp, from: number, to: number, event: Happened): Gap | undefined {
    const passed = this.#passed.get(tp) ?? new Map<number, Happened>()
    this.#passed.set(tp, passed)
    const visible = this.#visible.get(tp)
    for (let offset = Math.max(from, this.#starts.get(tp) ?? 0); offset < to; offset++) {
      if (visible?.has(offset)) return { offset, event }
      if (!passed.has(offset)) passed.set(offset, event)
    }
    return undefined
  }

  /** There is a visible record at `offset`. Who has passed over it. */
  see(tp: Tp, offset: number): Gap | undefined {
    const visible = this.#visible.get(tp) ?? new Set<number>()
    this.#visible.set(tp, visible)
    if (visible.has(offset)) return undefined
    visible.add(offset)
    const event = this.#passed.get(tp)?.get(offset)
    return event && { offset, event }
  }
}
