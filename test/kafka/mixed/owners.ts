/**
 * Who has what in a group of several processes, by what each of them says: a partition has one owner at a time, and
 * who gets a record owns its partition. A process that was killed owns nothing more; one that was stopped for longer
 * than its session has lost what it had, whether or not it knows: it must not deliver any of it once it runs again.
 */
import { type Checker, type Happened, type Tp, Violation } from '../../../sim/history/events.ts'

interface Owner {
  readonly member: string
  readonly node: string
  /** It doesn't run, or its process is gone. */
  silent: boolean
}

export class OwnerChecker implements Checker {
  readonly #owners = new Map<Tp, Owner>()
  /** Partitions that changed hands. */
  moves = 0

  on(event: Happened): void {
    switch (event.k) {
      case 'assigned':
        for (const tp of event.tps) this.#take(event.member, tp, event)
        return
      case 'revoked':
      case 'lost':
        for (const tp of event.tps) this.#release(event.member, tp)
        return
      case 'left':
        for (const tp of this.#owners.keys()) this.#release(event.member, tp)
        return
      case 'crash':
      case 'pause':
        for (const owner of this.#owners.values()) {
          if (owner.node === event.node) owner.silent = true
        }
        return
      case 'deliver': {
        const owner = this.#owners.get(event.tp)
        if (owner?.member === event.member) return
        const what = `${event.member} got ${event.tp}@${event.offset} of ${owner?.member}`
        throw new Violation('G1', what, event)
      }
      default:
    }
  }

  #take(member: string, tp: Tp, event: Happened): void {
    const before = this.#owners.get(tp)
    if (before !== undefined && before.member !== member && !before.silent) {
      throw new Violation('G1', `${tp} goes to ${member}, and ${before.member} has it`, event)
    }
    if (before?.member !== member) this.moves++
    this.#owners.set(tp, { member, node: event.node, silent: false })
  }

  #release(member: string, tp: Tp): void {
    if (this.#owners.get(tp)?.member === member) this.#owners.delete(tp)
  }
}
