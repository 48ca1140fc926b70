/**
 * Where a new owner of a partition begins, after a crash or a rebalance: not before the target of the rewind it is at,
 * and not behind what was delivered since, so that nothing after the target is left out whoever dies (W1, W6, G6); and
 * nobody applies a rewind to a partition that no call named (W3).
 */
import {
  type Checker,
  type Happened,
  type Of,
  type RewindId,
  type Tp,
  Violation
} from '../history/events.ts'
import { type Gap, Gaps } from './gaps.ts'

/** One partition of one group, at one rewind. */
interface Progress {
  readonly target: number
  /** Behind the furthest record that anybody got since. */
  reached: number
}

interface Member {
  readonly group: string
  /** Partitions of which nothing was delivered yet since they were assigned. */
  readonly fresh: Set<Tp>
}

export class LandingChecker implements Checker {
  readonly #members = new Map<string, Member>()
  readonly #progress = new Map<string, Progress>()
  readonly #named = new Set<string>()
  readonly #gaps = new Gaps()

  on(event: Happened): void {
    switch (event.k) {
      case 'join':
        this.#members.set(event.member, { group: event.group, fresh: new Set() })
        return
      case 'assigned':
        for (const tp of event.tps) this.#members.get(event.member)?.fresh.add(tp)
        return
      case 'revoked':
      case 'lost':
        for (const tp of event.tps) this.#members.get(event.member)?.fresh.delete(tp)
        return
      case 'seek':
      case 'moved':
        this.#members.get(event.member)?.fresh.delete(event.tp)
        return
      case 'rewind':
        for (const tp of Object.keys(event.to)) this.#named.add(`${event.group} ${tp}`)
        return
      case 'ledger':
        this.#named.add(`${event.group} ${event.tp}`)
        return
      case 'applied':
        return this.#applied(event)
      case 'deliver':
        return this.#deliver(event)
      case 'cut':
        return this.#gaps.cut(event.tp, event.start)
      case 'final':
        return this.#missed(event.tp, this.#gaps.see(event.tp, event.offset))
      default:
    }
  }

  #applied(event: Of<'applied'>): void {
    const member = this.#members.get(event.member)
    if (member === undefined) return
    const { group } = member
    if (!this.#named.has(`${group} ${event.tp}`)) {
      const what = `${event.member} applied ${event.id} to ${event.tp}, which no rewind named`
      throw new Violation('W3', what, event)
    }
    member.fresh.add(event.tp)
    this.#at(group, event.tp, event.id, event.to)
  }

  #at(group: string, tp: Tp, id: RewindId, target: number): Progress {
    const key = `${group} ${tp} ${id}`
    const progress = this.#progress.get(key) ?? { target, reached: target }
    this.#progress.set(key, progress)
    return progress
  }

  #deliver(event: Of<'deliver'>): void {
    const { tp, offset, rewindId } = event
    const member = this.#members.get(event.member)
    if (member === undefined) return
    // Of an owner that died before it could say where it went, the first record says it.
    const progress = this.#at(member.group, tp, rewindId, rewindId === '0' ? 0 : offset)
    if (member.fresh.delete(tp)) {
      const since = rewindId === '0' ? 'the beginning' : `rewind ${rewindId}`
      if (offset < progress.target) {
        const what = `began ${tp} at ${offset}, before ${progress.target}, where ${since} led`
        throw new Violation('W1', `${event.member} ${what}`, event)
      }
      this.#missed(tp, this.#gaps.pass(tp, progress.reached, offset, event))
    }
    progress.reached = Math.max(progress.reached, offset + 1)
    this.#missed(tp, this.#gaps.see(tp, offset))
  }

  #missed(tp: Tp, gap: Gap | undefined): void {
    if (gap === undefined) return
    const what = `began behind ${tp}@${gap.offset}, which nobody got since the rewind it is at`
    const by = 'member' in gap.event ? gap.event.member : gap.event.node
    throw new Violation('W1', `${by} ${what}`, gap.event)
  }
}
