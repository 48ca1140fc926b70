/**
 * Rewinds: where they land, that nothing from before them comes after, that what was said of them is so (W1, W4, W7,
 * W8, W10).
 *
 * A rewind that was answered binds every owner from then on; one that an owner applied binds that owner from then on.
 * A member that the coordinator has already expelled, and that has not heard of it, is bound by neither; G12 bounds it.
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

interface Call {
  readonly group: string
  readonly to: Readonly<Record<Tp, number>>
  readonly calledAt: number
  readonly calledI: number
  answeredI: number
  id: RewindId | undefined
  state: 'running' | 'ok' | 'fail' | 'unknown'
}

/** The latest answered rewind of a partition of a group. */
interface Landed {
  readonly id: RewindId
  readonly target: number
}

interface Member {
  readonly group: string
  readonly node: string
  readonly owned: Set<Tp>
  /** The rewind it is at, per partition. */
  readonly at: Map<Tp, RewindId>
}

export class RewindChecker implements Checker {
  readonly #calls = new Map<string, Call>()
  readonly #landed = new Map<string, Landed>()
  readonly #members = new Map<string, Member>()
  /** Who owns what, says the coordinator; where that can't be known, every member counts as an owner. */
  readonly #owners = new Map<string, Map<Tp, string>>()
  readonly #deleted = new Set<string>()
  readonly #appliedIds = new Map<RewindId, Set<Tp>>()

  on(event: Happened): void {
    switch (event.k) {
      case 'join':
        this.#members.set(event.member, {
          group: event.group,
          node: event.node,
          owned: new Set(),
          at: new Map()
        })
        return
      case 'assigned':
        for (const tp of event.tps) {
          this.#members.get(event.member)?.owned.add(tp)
          this.#members.get(event.member)?.at.delete(tp)
        }
        return
      case 'revoked':
      case 'lost':
        for (const tp of event.tps) this.#members.get(event.member)?.owned.delete(tp)
        return
      case 'left':
        this.#members.delete(event.member)
        return
      case 'group.gen':
        this.#owners.set(event.group, new Map(Object.entries(event.owners)))
        return
      case 'rewind':
        this.#calls.set(event.w, {
          group: event.group,
          to: event.to,
          calledAt: event.t,
          calledI: event.i,
          answeredI: Infinity,
          id: undefined,
          state: 'running'
        })
        return
      case 'rewind.ok':
        return this.#answered(event)
      case 'rewind.fail':
      case 'rewind.info':
        return this.#failed(event)
      case 'applied':
        return this.#applied(event)
      case 'deliver':
        return this.#deliver(event)
      case 'topic.deleted':
        this.#deleted.add(event.topic)
        return
      case 'reset':
        this.#landed.delete(`${event.group} ${event.tp}`)
        return
      default:
    }
  }

  #answered(event: Of<'rewind.ok'>): void {
    const call = this.#calls.get(event.w)
    if (call === undefined) throw new Violation('W8', `${event.w} was never called`, event)
    call.state = 'ok'
    call.id = event.id
    call.answeredI = event.i
    for (const [w, other] of this.#calls) {
      if (other.id === undefined || other === call || other.group !== call.group) continue
      // With a topic all that was known of its rewinds is deleted.
      if (Object.keys(other.to).some(tp => this.#deleted.has(topicOf(tp)))) {
        continue
      }
      if (other.answeredI < call.calledI && other.id >= event.id) {
        throw new Violation(
          'W8',
          `${event.w} has ${event.id}; ${w}, answered before, has ${other.id}`,
          event
        )
      }
    }
    const said = new Set([...Object.keys(event.applied), ...event.superseded])
    for (const tp of Object.keys(call.to)) {
      if (!said.has(tp))
        throw new Violation('W8', `${event.w} was not told what became of ${tp}`, event)
    }
    for (const [tp, target] of Object.entries(event.applied)) {
      const key = `${call.group} ${tp}`
      const before = this.#landed.get(key)
      if (before === undefined || before.id < event.id)
        this.#landed.set(key, { id: event.id, target })
    }
  }

  #failed(event: Of<'rewind.fail' | 'rewind.info'>): void {
    const call = this.#calls.get(event.w)
    if (call === undefined) return
    call.state = event.k === 'rewind.fail' ? 'fail' : 'unknown'
    call.answeredI = event.i
  }

  #applied(event: Of<'applied'>): void {
    const member = this.#members.get(event.member)
    if (member === undefined) return
    const at = member.at.get(event.tp)
    if (at !== undefined && event.id !== '0' && at >= event.id) {
      throw new Violation('W10', `${event.tp} was at ${at}, and applies ${event.id} again`, event)
    }
    member.at.set(event.tp, event.id)
    const tps = this.#appliedIds.get(event.id) ?? new Set()
    this.#appliedIds.set(event.id, tps)
    tps.add(event.tp)
  }

  #deliver(event: Of<'deliver'>): void {
    const { tp, rewindId } = event
    const member = this.#members.get(event.member)
    if (member === undefined) return
    const at = member.at.get(tp)
    if (at !== undefined && rewindId < at) {
      const what = `a record of ${rewindId} after ${at} was applied`
      throw new Violation('W1', `${event.member} got ${tp}@${event.offset}: ${what}`, event)
    }
    member.at.set(tp, rewindId)
    const landed = this.#landed.get(`${member.group} ${tp}`)
    if (landed === undefined || rewindId >= landed.id) return
    const owner = this.#owners.get(member.group)?.get(tp)
    if (owner !== undefined && owner !== event.member) return
    throw new Violation(
      'W4',
      `${event.member} got ${tp}@${event.offset} of rewind ${rewindId}, after ${landed.id} to ${landed.target} was answered`,
      event
    )
  }

  end(): void {
    for (const [w, call] of this.#calls) {
      if (call.state !== 'fail' || call.id === undefined) continue
      if (this.#appliedIds.has(call.id)) {
        throw new Violation('W10', `${w} is said to have failed, and was applied`)
      }
    }
  }
}
