/**
 * Ownership in a group: one owner per partition and generation (G1), nothing committed that was not handled (G4), and
 * a member out of touch for longer than its session delivers nothing (G12).
 */
import { type Checker, type Happened, type Of, type Tp, Violation } from '../history/events.ts'

interface Member {
  readonly group: string
  readonly sessionMs: number
  readonly rebalanceMs: number
  readonly node: string
  readonly inc: number
  readonly owned: Set<Tp>
  /** Highest offset delivered, and handled, per partition. */
  readonly delivered: Map<Tp, number>
  /** When the last heartbeat was answered. */
  answeredAt: number
  /** And the last one in time: one that was long on its way was given up by then, and its answer goes unheard. */
  heardAt: number
}

/** By what reading may end: what is transient goes by. */
const reasons: ReadonlySet<string> = new Set(['handler', 'CLOSED', 'FENCED'])

export class GroupChecker implements Checker {
  readonly #members = new Map<string, Member>()
  readonly #generations = new Map<string, number>()

  on(event: Happened): void {
    switch (event.k) {
      case 'join':
        this.#members.set(event.member, {
          group: event.group,
          sessionMs: event.sessionMs,
          rebalanceMs: event.rebalanceMs ?? Infinity,
          node: event.node,
          inc: event.inc,
          owned: new Set(),
          delivered: new Map(),
          answeredAt: event.t,
          heardAt: event.t
        })
        return
      case 'heartbeat':
        return this.#heard(event)
      case 'assigned':
        return this.#assigned(event)
      case 'revoked':
      case 'lost':
      case 'yielded':
        for (const tp of event.tps) this.#members.get(event.member)?.owned.delete(tp)
        return
      case 'left':
        this.#members.delete(event.member)
        return
      case 'crash':
      case 'power.loss':
        for (const [name, { node }] of this.#members) {
          if (node === event.node) this.#members.delete(name)
        }
        return
      case 'deliver':
        return this.#deliver(event)
      case 'handled':
        return this.#handled(event)
      case 'group.gen':
        return this.#generation(event)
      case 'ended':
        if (reasons.has(event.why)) return
        throw new Violation('G11', `${event.member} ended reading by ${event.why}`, event)
      default:
    }
  }

  #heard(event: Of<'heartbeat'> & Happened): void {
    const member = this.#members.get(event.member)
    if (member === undefined) return
    // What comes late may give away what the member has, and it hears of that by its next heartbeat: a join of before
    // says that it has nothing, and any other that it has what it had then.
    if (event.late === true || (event.joins === true && member.owned.size > 0)) {
      member.heardAt = -Infinity
      return
    }
    const { everyMs = 1_000 } = event
    const givenUpMs = everyMs + Math.max(1_000, member.sessionMs / 3)
    if (event.t - member.answeredAt < givenUpMs) member.heardAt = event.t
    member.answeredAt = event.t
  }

  /** Two members may only hold one partition while one of them is out of touch: it has been expelled, and not heard of it. */
  #assigned(event: Of<'assigned'>): void {
    const member = this.#members.get(event.member)
    if (member === undefined) return
    // What it was given before it was expelled may be assigned when it has heard of the topic, or stands still no more.
    const expelled = event.t - member.heardAt > Math.min(member.sessionMs, member.rebalanceMs)
    for (const tp of event.tps) {
      member.owned.add(tp)
      if (expelled) continue
      for (const [name, other] of this.#members) {
        if (other === member || other.group !== member.group || !other.owned.has(tp)) continue
        // It may have been expelled, and not know: then it last heard a session ago, or it did not join again in time.
        if (event.t - other.heardAt < Math.min(other.sessionMs, other.rebalanceMs) / 2) {
          const heard = `which heard from the group ${Math.round(event.t - other.heardAt)} ms ago`
          throw new Violation(
            'G1',
            `${tp} is assigned, and still owned by ${name}, ${heard}`,
            event
          )
        }
      }
    }
  }

  #deliver(event: Of<'deliver'>): void {
    const member = this.#members.get(event.member)
    if (member === undefined) return
    const silentMs = event.t - member.answeredAt
    if (silentMs > member.sessionMs + 1) {
      const since = `${Math.round(silentMs)} ms after its last heartbeat's answer`
      throw new Violation('G12', `${event.member} got ${event.tp}@${event.offset} ${since}`, event)
    }
    const highest = member.delivered.get(event.tp) ?? -1
    member.delivered.set(event.tp, Math.max(highest, event.offset))
  }

  #handled(event: Of<'handled'>): void {
    const member = this.#members.get(event.member)
    if (member === undefined) return
    if (event.offset > (member.delivered.get(event.tp) ?? -1)) {
      throw new Violation(
        'G4',
        `${event.tp}@${event.offset} was handled, and never delivered`,
        event
      )
    }
  }

  #generation(event: Of<'group.gen'>): void {
    const before = this.#generations.get(event.group) ?? -1
    if (event.gen < before) {
      throw new Violation('G3', `the group's generation fell from ${before} to ${event.gen}`, event)
    }
    this.#generations.set(event.group, event.gen)
  }
}
