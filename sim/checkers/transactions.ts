/**
 * Work in transactions (W16): what was begun before a rewind took effect at its owner is never committed after; and of
 * what is made of a record, at one rewind, one is visible at most, whoever failed meanwhile.
 */
import {
  type Checker,
  type Happened,
  type Of,
  type RewindId,
  type Tp,
  Violation
} from '../history/events.ts'

export class TransactionChecker implements Checker {
  /** The rewind that each membership is at, by partition. */
  readonly #at = new Map<string, Map<Tp, RewindId>>()
  /** Transactions that must not be committed, and why. */
  readonly #doomed = new Map<string, string>()
  /** What each value was made of. */
  readonly #madeOf = new Map<string, string>()
  readonly #visible = new Map<string, string>()
  /** Partitions in which somebody sought: there, records come again at the same rewind. */
  readonly #sought = new Set<string>()
  readonly #groups = new Map<string, string>()

  on(event: Happened): void {
    switch (event.k) {
      case 'join':
        this.#groups.set(event.member, event.group)
        this.#at.set(event.member, new Map())
        return
      case 'seek':
        this.#sought.add(`${this.#groups.get(event.member) ?? ''} ${event.tp}`)
        return
      case 'applied':
        this.#at.get(event.member)?.set(event.tp, event.id)
        return
      case 'tx.offsets':
        return this.#offsets(event)
      case 'tx': {
        const why = this.#doomed.get(event.tx)
        this.#doomed.delete(event.tx)
        if (event.end === 'committed' && why !== undefined) throw new Violation('W16', why, event)
        return
      }
      case 'send': {
        const { v, of } = event
        if (of === undefined || this.#sought.has(`${of.group} ${of.tp}`)) return
        this.#madeOf.set(v, `${of.tp}@${of.offset} of ${of.group} at rewind ${of.rewindId}`)
        return
      }
      case 'final':
        return this.#seen(event)
      default:
    }
  }

  #offsets({ tx, member, at }: Of<'tx.offsets'>): void {
    for (const [tp, id] of Object.entries(at)) {
      const now = this.#at.get(member)?.get(tp) ?? '0'
      if (id >= now) continue
      this.#doomed.set(tx, `${tx} has work on ${tp} of rewind ${id}, after ${now} took effect`)
    }
  }

  #seen(event: Of<'final'>): void {
    const source = this.#madeOf.get(event.v)
    if (source === undefined) return
    const other = this.#visible.get(source)
    if (other !== undefined && other !== event.v) {
      throw new Violation('W16', `${source} was worked on twice: ${other}, ${event.v}`, event)
    }
    this.#visible.set(source, event.v)
  }
}
