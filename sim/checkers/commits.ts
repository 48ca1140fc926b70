/**
 * The committed offset of each partition of a group: it never falls but by a rewind, a reset from outside or a cut log,
 * and what a late commit did to it is healed (G5); nothing is committed that was not handled (G4), nothing by a commit
 * from before a rewind after one from behind it (W4).
 *
 * Effective is the group's own commit, unless a commit with a higher rewind was seen: then what came with that.
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

interface Slot {
  /** The highest rewind that a commit carried, and the latest offset with it. */
  id: RewindId
  effective: number
  /** As stored now. */
  raw: number
  rawId: RewindId
  /** Since when raw is not what is effective, by a late commit. */
  staleSince: number | undefined
  /** Who committed `effective`. */
  member: string
  /** A commit that nobody saw the end of may have changed it. */
  unsure: boolean
}

interface Member {
  readonly group: string
  readonly node: string
  readonly handled: Map<Tp, number>
  /** Partitions that it owns, and since which event it does. */
  readonly owned: Set<Tp>
}

export class CommitChecker implements Checker {
  readonly #slots = new Map<string, Slot>()
  readonly #members = new Map<string, Member>()
  readonly #late = new LateCommits()
  /** Rewinds that a caller wrote, so that a fall to their target is allowed. */
  readonly #targets = new Map<string, Map<RewindId, number>>()
  /** Who sought in a partition, and so may commit less: one that was expelled and has not heard of it seeks, too. */
  readonly #sought = new Map<string, Set<string>>()
  /** By transaction, until it ends: what its offsets are of. */
  readonly #inTransaction = new Map<string, readonly string[]>()
  /** Commits under way; when the broker ends they may have been applied. */
  readonly #trying = new Map<number, Happened & Of<'commit.try'>>()

  on(event: Happened): void {
    switch (event.k) {
      case 'join':
        this.#members.set(event.member, {
          group: event.group,
          node: event.node,
          handled: new Map(),
          owned: new Set()
        })
        return
      case 'assigned':
        for (const tp of event.tps) this.#members.get(event.member)?.owned.add(tp)
        return
      case 'revoked':
      case 'lost':
        return this.#given(event)
      case 'handled':
        this.#members.get(event.member)?.handled.set(event.tp, event.offset + 1)
        return
      case 'ledger':
        return this.#ledger(event)
      case 'seek':
        return this.#seek(event)
      case 'topic.deleted':
        for (const key of this.#slots.keys()) {
          if (key.slice(key.indexOf(' ') + 1, key.lastIndexOf(':')) === event.topic)
            this.#slots.delete(key)
        }
        return
      case 'reset':
        this.#slots.delete(`${event.group} ${event.tp}`)
        return
      case 'commit.applied':
        return this.#applied(event)
      case 'tx.offsets': {
        const { group } = this.#members.get(event.member) ?? {}
        this.#inTransaction.set(
          event.tx,
          Object.keys(event.at).map(tp => `${group} ${tp}`)
        )
        return
      }
      case 'tx':
        return this.#ofTransaction(event)
      case 'commit.try':
        this.#trying.set(event.commit, event)
        return
      case 'commit.end':
        this.#trying.delete(event.commit)
        return
      case 'crash':
      case 'power.loss':
        return this.#ended(event.node)
      case 'quiet':
        return this.#quiet(event)
      default:
    }
  }

  /** What is committed of a partition, for whom it concerns. */
  effective(group: string, tp: Tp): number | undefined {
    return this.#slots.get(`${group} ${tp}`)?.effective
  }

  #ledger({ group, tp, id, target }: Of<'ledger'>): void {
    const key = `${group} ${tp}`
    const targets = this.#targets.get(key) ?? new Map<RewindId, number>()
    this.#targets.set(key, targets)
    targets.set(id, target)
  }

  /**
   * Once it has given a partition up, it knows no more of it than another, who goes on where the group says: what a late
   * commit left there stands, unless the ledger knows better.
   */
  #given({ member, tps }: Of<'revoked'> | Of<'lost'>): void {
    const { group, owned } = this.#members.get(member) ?? {}
    for (const tp of tps) {
      owned?.delete(tp)
      const slot = this.#slots.get(`${group} ${tp}`)
      if (slot?.member !== member) continue
      slot.member = ''
      if (slot.staleSince === undefined || slot.rawId !== slot.id) continue
      slot.effective = slot.raw
      slot.staleSince = undefined
    }
  }

  #seek({ member, tp }: Of<'seek'>): void {
    const { group } = this.#members.get(member) ?? {}
    const key = `${group} ${tp}`
    this.#sought.set(key, new Set([...(this.#sought.get(key) ?? []), member]))
  }

  #applied(event: Of<'commit.applied'>): void {
    const { group, tp, offset, rewindId, member } = event
    const key = `${group} ${tp}`
    const slot = this.#slots.get(key)
    const late = this.#late.isLate(event)
    if (rewindId === null) {
      throw new Violation('G5', `${tp} of ${group}: a commit of ${offset} without envelope`, event)
    }
    if (slot === undefined) {
      this.#slots.set(key, {
        id: rewindId,
        effective: offset,
        raw: offset,
        rawId: rewindId,
        staleSince: undefined,
        member,
        unsure: false
      })
      return
    }
    slot.raw = offset
    slot.rawId = rewindId
    if (slot.unsure) {
      slot.unsure = false
      if (rewindId > slot.id) slot.id = rewindId
      return this.#become(slot, event)
    }
    if (rewindId > slot.id) {
      slot.id = rewindId
      this.#become(slot, event)
    } else if (rewindId < slot.id) {
      // From before the rewind: it must not count, and its sender must not have known better. Calls that commit for an
      // empty group have one name and one connection, and know nothing of each other.
      const byCall = this.#trying.get(event.commit ?? -1)?.memberId === ''
      if (member === slot.member && !late && !byCall) {
        const what = `a commit with rewind ${rewindId} after one with ${slot.id}, in order`
        throw new Violation('W4', `${tp} of ${group}: ${what}`, event)
      }
      slot.staleSince ??= event.t
    } else if (offset < slot.effective && this.#sought.get(key)?.has(member) !== true) {
      if (!late && member === slot.member) {
        const fall = `fell from ${slot.effective} to ${offset} without a rewind`
        throw new Violation('G5', `${tp} of ${group} ${fall}`, event)
      }
      slot.staleSince ??= event.t
    } else this.#become(slot, event)
  }

  #become(slot: Slot, { group, tp, offset, member }: Of<'commit.applied'>): void {
    slot.effective = offset
    if (slot.member !== member) {
      // Whoever gave it up and sought before that commits no more.
      const seekers = this.#sought.get(`${group} ${tp}`) ?? new Set()
      for (const name of seekers) {
        if (name !== member && this.#members.get(name)?.owned.has(tp) !== true) seekers.delete(name)
      }
    }
    slot.member = member
    slot.staleSince = undefined
  }

  /** What it commits comes after any late commit that there was, unless nobody knows whether it did. */
  #ofTransaction({ tx, end }: Of<'tx'>): void {
    for (const key of this.#inTransaction.get(tx) ?? []) {
      const slot = this.#slots.get(key)
      if (slot !== undefined && end !== 'aborted') slot.staleSince = undefined
    }
    this.#inTransaction.delete(tx)
  }

  #ended(node: string): void {
    for (const [name, member] of this.#members) {
      if (member.node === node) this.#members.delete(name)
    }
    const open = [...this.#trying.values()].some(at => at.node === node)
    if (!open) return
    this.#trying.clear()
    for (const slot of this.#slots.values()) slot.unsure = true
  }

  /** All owners have had the time to see what a late commit did. */
  #quiet(event: Happened): void {
    for (const [key, slot] of this.#slots) {
      const [group, tp] = key.split(' ') as [string, string]
      const owned = [...this.#members.values()].some(
        member => member.group === group && member.owned.has(tp)
      )
      if (slot.staleSince === undefined || slot.unsure || !owned || slot.raw === slot.effective)
        continue
      const what = `is ${slot.raw} by a late commit, and should be ${slot.effective}`
      throw new Violation(
        'G5',
        `${tp} of ${group} ${what}, since ${Math.round(slot.staleSince)} ms`,
        event
      )
    }
  }
}
