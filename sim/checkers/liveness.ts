/**
 * When all is well again, every group gets to the end of every partition: the last visible record of each was delivered
 * to an owner that still has it (G7). Not a rule to break by one event: the run waits for it.
 */
import { type Checker, type Happened, type Of, topicOf, type Tp } from '../history/events.ts'

interface Member {
  readonly group: string
  readonly startFrom: 'earliest' | 'latest'
  readonly node: string
  /** Where it is, per partition that it owns. */
  readonly at: Map<Tp, number>
}

export class LivenessChecker implements Checker {
  readonly #members = new Map<string, Member>()
  /** What each subscribes to; undefined: all that there is. */
  readonly #groups = new Map<string, readonly string[] | undefined>()
  readonly #deleted = new Set<string>()
  /** The last record that everybody must see, per partition. */
  readonly #last = new Map<Tp, number>()
  /** Offsets of transactions that have not ended. */
  readonly #open = new Map<string, Map<Tp, number>>()
  readonly #txOf = new Map<string, string>()
  /** What is wrong with each rewind; undefined: nothing. */
  readonly #rewinds = new Map<string, string | undefined>()

  on(event: Happened): void {
    switch (event.k) {
      case 'send':
        if (event.tx !== undefined) this.#txOf.set(event.v, event.tx)
        return
      case 'send.ok':
        return this.#sent(event)
      case 'tx':
        if (event.end !== 'committed') return
        for (const [tp, offset] of this.#open.get(event.tx) ?? []) this.#visible(tp, offset)
        return
      case 'rewind':
        this.#rewinds.set(event.w, 'is not answered')
        return
      case 'rewind.ok':
        this.#rewinds.set(event.w, event.superseded.length > 0 ? 'is superseded' : undefined)
        return
      case 'rewind.fail':
      case 'rewind.info':
        this.#rewinds.set(event.w, `ended with ${event.why}`)
        return
      case 'join':
        return this.#joined(event)
      case 'assigned':
        for (const tp of event.tps) this.#members.get(event.member)?.at.set(tp, -1)
        return
      case 'deliver':
        this.#members.get(event.member)?.at.set(event.tp, event.offset)
        return
      case 'cut':
        // What is gone nobody need see.
        if (event.start > (this.#last.get(event.tp) ?? -1)) this.#last.delete(event.tp)
        return
      case 'topic.deleted':
        this.#deleted.add(event.topic)
        for (const tp of this.#last.keys()) if (topicOf(tp) === event.topic) this.#last.delete(tp)
        return
      case 'applied':
      case 'moved':
      case 'again':
      case 'stands':
      case 'seek':
        this.#members.get(event.member)?.at.set(event.tp, event.to - 1)
        return
      case 'revoked':
      case 'lost':
        for (const tp of event.tps) this.#members.get(event.member)?.at.delete(tp)
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
      default:
    }
  }

  /** Of the rewind asked for last: what is wrong with it. */
  get lastRewind(): string | undefined {
    return [...this.#rewinds.values()].at(-1)
  }

  get groups(): readonly string[] {
    return [...this.#groups.keys()]
  }

  /** Behind the last record that everybody must see. */
  endOf(tp: Tp): number {
    return (this.#last.get(tp) ?? -1) + 1
  }

  /** What some group has not got to yet, in words; empty: all is delivered. `committed`: what needn't be. */
  behind(committed: (group: string, tp: Tp) => number): string {
    for (const [group, topics] of this.#groups) {
      for (const [tp, last] of this.#last) {
        if (topics !== undefined && !topics.includes(topicOf(tp))) continue
        const owners = [...this.#members].filter(([, one]) => one.group === group && one.at.has(tp))
        if (owners.length === 0) return `nobody in ${group} owns ${tp}`
        const at = Math.max(
          ...owners.map(([, one]) => one.at.get(tp) ?? -1),
          committed(group, tp) - 1
        )
        // Of a group that begins at the end nobody knows where that was, before something came.
        const anywhere = at < 0 && owners.every(([, one]) => one.startFrom === 'latest')
        if (at < last && !anywhere)
          return `${owners.map(([name]) => name).join()} is at ${at} of ${last} of ${tp}`
      }
    }
    return ''
  }

  #joined({ member, group, topics, startFrom = 'earliest', node }: Of<'join'>): void {
    this.#members.set(member, { group, startFrom, node, at: new Map() })
    this.#groups.set(group, topics)
  }

  #sent({ v, tp, offset }: Of<'send.ok'>): void {
    const tx = this.#txOf.get(v)
    if (tx === undefined) return this.#visible(tp, offset)
    const offsets = this.#open.get(tx) ?? new Map<Tp, number>()
    this.#open.set(tx, offsets)
    offsets.set(tp, Math.max(offset, offsets.get(tp) ?? -1))
  }

  #visible(tp: Tp, offset: number): void {
    if (this.#deleted.has(topicOf(tp))) return
    this.#last.set(tp, Math.max(offset, this.#last.get(tp) ?? -1))
  }
}
