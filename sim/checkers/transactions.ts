/**
 * Work in transactions (W16): what was begun before a rewind took effect at its owner is never committed after; and of
 * what is made of a record, at one rewind, one is visible at most, whoever failed meanwhile. Unless a commit that came late
 * undid a transaction's offsets, or came when nobody had the time to put it right.
 */
import {
  type Checker,
  type Happened,
  type Of,
  type RewindId,
  type Tp,
  Violation
} from '../history/events.ts'
import { LateCommits } from './late.ts'

/** Who has a partition for so long after a late commit has looked, and put it right. */
const toPutRightMs = 5_000

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
  /** By transaction that took offsets and has not ended: whose they are. */
  readonly #open = new Map<string, readonly string[]>()
  readonly #late = new LateCommits()
  /** When a late commit came last, by group and partition. */
  readonly #lateAt = new Map<string, number>()

  on(event: Happened): void {
    switch (event.k) {
      case 'join':
        this.#groups.set(event.member, event.group)
        this.#at.set(event.member, new Map())
        return
      case 'seek':
        this.#sought.add(this.#keyOf(event.member, event.tp))
        return
      case 'applied':
        this.#at.get(event.member)?.set(event.tp, event.id)
        return
      case 'tx.offsets':
        return this.#offsets(event)
      case 'commit.applied':
        return this.#committed(event)
      case 'revoked':
      case 'lost':
        for (const tp of event.tps) this.#left(this.#keyOf(event.member, tp), event.t)
        return
      case 'crash':
        for (const key of this.#lateAt.keys()) this.#left(key, event.t)
        return
      case 'tx': {
        this.#open.delete(event.tx)
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

  #keyOf(member: string, tp: Tp): string {
    return `${this.#groups.get(member) ?? ''} ${tp}`
  }

  /** A late commit that comes behind a transaction's offsets stands when that is committed, as in Kafka. */
  #committed(event: Of<'commit.applied'> & Happened): void {
    if (!this.#late.isLate(event)) return
    const key = `${event.group} ${event.tp}`
    this.#lateAt.set(key, event.t)
    if ([...this.#open.values()].some(keys => keys.includes(key))) this.#sought.add(key)
  }

  #left(key: string, t: number): void {
    if (t - (this.#lateAt.get(key) ?? -Infinity) < toPutRightMs) this.#sought.add(key)
  }

  #offsets({ tx, member, at }: Of<'tx.offsets'>): void {
    this.#open.set(
      tx,
      Object.keys(at).map(tp => this.#keyOf(member, tp))
    )
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
