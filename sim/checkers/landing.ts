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
  topicOf,
  type Tp,
  Violation
} from '../history/events.ts'
import { type Gap, Gaps } from './gaps.ts'

/** One partition of one group, at one rewind. */
interface Progress {
  target: number
  /** Behind the furthest record that anybody got since; -1: where it began is not known. */
  reached: number
}

interface Member {
  readonly group: string
  readonly startFrom: 'earliest' | 'latest'
  /** Partitions of which nothing was delivered yet since they were assigned. */
  readonly fresh: Set<Tp>
}

export class LandingChecker implements Checker {
  readonly #members = new Map<string, Member>()
  /** 'group topic:partition' for which an offset was ever committed. */
  readonly #stands = new Set<string>()
  readonly #progress = new Map<string, Progress>()
  readonly #named = new Set<string>()
  readonly #gaps = new Gaps()
  readonly #starts = new Map<Tp, number>()
  /** Topics of which a group has committed something, and partitions that came after that. */
  readonly #known = new Set<string>()
  readonly #grown = new Set<string>()

  on(event: Happened): void {
    switch (event.k) {
      case 'join':
        this.#members.set(event.member, {
          group: event.group,
          startFrom: event.startFrom ?? 'earliest',
          fresh: new Set()
        })
        return
      case 'created':
        return this.#created(event)
      case 'commit.applied':
        return this.#committed(event)
      case 'assigned':
        for (const tp of event.tps) this.#members.get(event.member)?.fresh.add(tp)
        return
      case 'revoked':
      case 'lost':
        for (const tp of event.tps) this.#members.get(event.member)?.fresh.delete(tp)
        return
      case 'seek':
        return this.#sought(event)
      case 'moved':
        return this.#moved(event)
      case 'rewind':
        for (const tp of Object.keys(event.to)) this.#named.add(`${event.group} ${tp}`)
        return
      case 'ledger':
        return this.#ledger(event)
      case 'applied':
        return this.#applied(event)
      case 'deliver':
        return this.#deliver(event)
      case 'cut':
        this.#starts.set(event.tp, Math.max(event.start, this.#starts.get(event.tp) ?? 0))
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

  #ledger({ group, tp, id, target, window, led, state }: Of<'ledger'>): void {
    this.#named.add(`${group} ${tp}`)
    const progress = this.#at(group, tp, id, target)
    // What a controller records is where it leads, whatever was asked for: the log may have been cut meanwhile.
    if (led === true && state === 'done') progress.target = progress.reached = target
    if (window === undefined || this.#progress.has(`${group} ${tp} ${id}.`)) return
    // It goes on where its owner stood, if that was further.
    this.#at(group, tp, `${id}.`, window.resume).reached = -1
  }

  /** From there on it commits, so that the next owner may begin there, too. */
  #sought({ member: name, tp, to }: Of<'seek'>): void {
    const member = this.#members.get(name)
    if (member === undefined) return
    member.fresh.delete(tp)
    for (const [key, progress] of this.#progress) {
      if (key.startsWith(`${member.group} ${tp} `)) progress.target = Math.min(progress.target, to)
    }
  }

  /** G8: a partition that is newer than the group begins with its first record, whatever `startFrom` says. */
  #created({ tps }: Of<'created'>): void {
    for (const key of this.#known) {
      const [group = '', topic] = key.split(' ')
      for (const tp of tps) if (topicOf(tp) === topic) this.#grown.add(`${group} ${tp}`)
    }
  }

  /** A group that begins at the end says where that was by its first commit, unless another was there before. */
  #committed({ group, tp, rewindId, offset, member }: Of<'commit.applied'>): void {
    this.#known.add(`${group} ${topicOf(tp)}`)
    const stands = `${group} ${tp}`
    const begins = rewindId === '0' && this.#members.get(member)?.fresh.has(tp) === true
    if (begins && !this.#stands.has(stands)) this.#progress.delete(`${stands} 0`)
    this.#stands.add(stands)
    const progress = this.#progress.get(`${group} ${tp} ${rewindId}`)
    if (progress?.reached === -1) progress.reached = offset
    if (rewindId !== '0' || progress !== undefined) return
    for (const [name, other] of this.#members) {
      if (name !== member && other.group === group && other.fresh.has(tp)) return
    }
    this.#at(group, tp, '0', offset)
  }

  /** W12, G11: whoever is outside the log goes to its nearer end; no record that is there is passed over. */
  #moved(event: Of<'moved'>): void {
    const { member: name, tp, from = 0, to } = event
    const member = this.#members.get(name)
    if (member === undefined) return
    member.fresh.delete(tp)
    const start = this.#starts.get(tp) ?? 0
    if (to <= from || to <= start) return
    const what = `went from ${from} of ${tp} to ${to}; the log begins at ${start}`
    throw new Violation('W12', `${name} ${what}`, event)
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
    const { group, startFrom } = member
    const isNew = this.#grown.has(`${group} ${tp}`)
    const fromStart = rewindId === '0' && (startFrom === 'earliest' || isNew)
    // Who began at the end and committed nothing left no trace: the next one begins at the end of its time, or at the
    // start of a partition that is new by then.
    const anew = rewindId === '0' && !fromStart && !this.#stands.has(`${group} ${tp}`)
    if (anew && member.fresh.has(tp)) this.#progress.delete(`${group} ${tp} 0`)
    const progress = this.#at(group, tp, rewindId, fromStart ? 0 : offset)
    if (member.fresh.delete(tp)) {
      const since = rewindId === '0' ? 'the beginning' : `rewind ${rewindId}`
      if (offset < progress.target) {
        const what = `began ${tp} at ${offset}, before ${progress.target}, where ${since} led`
        throw new Violation('W1', `${event.member} ${what}`, event)
      }
      const from = progress.reached < 0 ? offset : progress.reached
      this.#missed(tp, this.#gaps.pass(tp, from, offset, event))
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
