/**
 * What one consumer gets of one partition: the visible records, each once, in order, from where it started until it is
 * told to go elsewhere (L6, W2); only while the partition is its own (G2); what is marked as handled was delivered.
 *
 * That nothing was left out is known once the log is: offsets passed over are remembered, and a record that turns out
 * to be there was skipped.
 */
import { type Checker, type Happened, type Of, type Tp, Violation } from '../history/events.ts'

interface Stream {
  /** The offset delivered last; -1: none since the stream began. */
  last: number
  /** Where a rewind or seek led, until the first record from there came. */
  target: number | undefined
  because: string
}

interface Member {
  readonly owned: Map<Tp, Stream>
  readonly committedOnly: boolean
}

interface Skip {
  readonly event: Happened
  readonly committedOnly: boolean
}

export class OrderChecker implements Checker {
  readonly #members = new Map<string, Member>()
  /** Offsets that somebody passed over, and offsets that have a visible record; per partition. */
  readonly #skipped = new Map<Tp, Map<number, Skip>>()
  readonly #visible = new Map<Tp, Set<number>>()
  readonly #starts = new Map<Tp, number>()

  on(event: Happened): void {
    switch (event.k) {
      case 'join':
        this.#members.set(event.member, {
          owned: new Map(),
          committedOnly: event.committedOnly
        })
        return
      case 'assigned':
        for (const tp of event.tps) this.#begin(event.member, tp, undefined, 'assigned')
        return
      case 'revoked':
      case 'lost':
        for (const tp of event.tps) this.#members.get(event.member)?.owned.delete(tp)
        return
      case 'left':
        this.#members.delete(event.member)
        return
      case 'applied':
        return this.#moved(event, event.tp, event.to, `the rewind ${event.id}`)
      case 'seek':
        return this.#moved(event, event.tp, event.to, 'a seek')
      case 'moved':
        return this.#moved(event, event.tp, event.to, 'the cut log')
      case 'deliver':
        return this.#deliver(event)
      case 'cut':
        this.#starts.set(event.tp, Math.max(event.start, this.#starts.get(event.tp) ?? 0))
        return
      case 'final':
        return this.#see(event.tp, event.offset, event, true)
      default:
    }
  }

  #begin(name: string, tp: Tp, target: number | undefined, because: string): void {
    this.#members.get(name)?.owned.set(tp, { last: -1, target, because })
  }

  #moved(event: Of<'applied' | 'seek' | 'moved'>, tp: Tp, to: number, because: string): void {
    if (this.#members.get(event.member)?.owned.has(tp)) this.#begin(event.member, tp, to, because)
  }

  #deliver(event: Of<'deliver'>): void {
    const { tp, offset } = event
    const member = this.#members.get(event.member)
    if (member === undefined) throw new Violation('G2', `${event.member} is no member`, event)
    const stream = member.owned.get(tp)
    if (stream === undefined) {
      throw new Violation('G2', `${event.member} got ${tp}@${offset}, which it does not own`, event)
    }
    const { last, target, because } = stream
    if (target !== undefined) {
      if (offset < target) {
        throw new Violation(
          'W1',
          `${tp}@${offset} is before ${target}, where ${because} led`,
          event
        )
      }
      this.#pass(tp, target, offset, event, member)
    } else if (last >= 0) {
      if (offset <= last) {
        throw new Violation('L6', `${tp}@${offset} comes after ${last} (since ${because})`, event)
      }
      this.#pass(tp, last + 1, offset, event, member)
    }
    stream.last = offset
    stream.target = undefined
    // To a reader of uncommitted records more is visible than to the others.
    if (member.committedOnly) this.#see(tp, offset, event, true)
  }

  #pass(tp: Tp, from: number, to: number, event: Happened, { committedOnly }: Member): void {
    const begin = Math.max(from, this.#starts.get(tp) ?? 0)
    if (begin >= to) return
    const skipped = this.#skipped.get(tp) ?? new Map<number, Skip>()
    this.#skipped.set(tp, skipped)
    const visible = this.#visible.get(tp)
    for (let offset = begin; offset < to; offset++) {
      if (visible?.has(offset)) throw this.#gap(tp, offset, event)
      if (!skipped.has(offset)) skipped.set(offset, { event, committedOnly })
    }
  }

  #see(tp: Tp, offset: number, event: Happened, visible: boolean): void {
    const seen = this.#visible.get(tp) ?? new Set<number>()
    this.#visible.set(tp, seen)
    if (seen.has(offset)) return
    seen.add(offset)
    const skip = this.#skipped.get(tp)?.get(offset)
    if (skip !== undefined && visible) throw this.#gap(tp, offset, skip.event)
    void event
  }

  #gap(tp: Tp, offset: number, event: Happened): Violation {
    return new Violation('L6', `${tp}@${offset} was skipped by this delivery`, event)
  }
}
