/**
 * Breaks no rule: sees that what is rare or decisive did happen. A long run in which one of these never came proves less
 * than it seems to (sim/marks.ts).
 */
import type { Checker, Happened, Of, RewindId, Tp } from '../history/events.ts'

interface Member {
  readonly group: string
  readonly node: string
  readonly owned: Set<Tp>
  /** Partitions of which nothing was delivered since they were assigned. */
  readonly fresh: Set<Tp>
  /** The highest offset delivered, per partition. */
  readonly reached: Map<Tp, number>
}

interface Rewind {
  readonly group: string
  readonly node: string
  readonly tps: readonly Tp[]
}

/** What happens so soon after something else is taken to be during it. */
const soonMs = 500

export class Witness implements Checker {
  readonly #mark: (name: string) => void
  readonly #members = new Map<string, Member>()
  readonly #open = new Map<string, Rewind>()
  /** Entries that no owner has taken up yet: by group and partition. */
  readonly #pending = new Map<string, RewindId>()
  readonly #windows = new Set<string>()
  readonly #lastOwner = new Map<string, string>()
  readonly #lastDelivered = new Map<string, string>()
  readonly #connections = new Map<string, number>()
  readonly #rewound = new Map<string, RewindId>()
  readonly #paused = new Set<string>()
  readonly #moves = new Map<string, number>()
  readonly #resumes = new Map<string, number>()
  #brokerAt = -Infinity

  constructor(mark: (name: string) => void) {
    this.#mark = mark
  }

  on(event: Happened): void {
    switch (event.k) {
      case 'join':
        return this.#joined(event)
      case 'assigned':
        return this.#assigned(event)
      case 'revoked':
      case 'lost':
        return this.#gone(event)
      case 'left':
        this.#members.delete(event.member)
        return
      case 'rewind':
        return this.#asked(event)
      case 'rewind.ok':
      case 'rewind.fail':
      case 'rewind.info':
        this.#open.delete(event.w)
        return
      case 'ledger':
        return this.#ledger(event)
      case 'applied':
        return this.#applied(event)
      case 'moved':
        return this.#moved(event)
      case 'deliver':
        return this.#delivered(event)
      case 'commit.applied':
        return this.#committed(event)
      case 'cut':
        for (const key of this.#pending.keys()) {
          if (key.endsWith(` ${event.tp}`)) this.#mark('a log is cut under a rewind')
        }
        return
      case 'topic.deleted':
        if (this.#open.size > 0) this.#mark('a topic is deleted during a rewind')
        return
      case 'created':
        if (this.#open.size > 0) this.#mark('a topic grows or comes during a rewind')
        return
      case 'crash':
      case 'power.loss':
        return this.#died(event)
      default:
        this.#other(event)
    }
  }

  #other(event: Happened): void {
    if (event.k === 'pause') this.#paused.add(event.node)
    if (event.k === 'resume') {
      this.#paused.delete(event.node)
      this.#resumes.set(event.node, event.t)
    }
    if (event.k === 'start' && event.node === 'b') this.#brokerAt = event.t
  }

  #joined({ member, group, node }: Of<'join'>): void {
    const fresh = new Set<Tp>()
    this.#members.set(member, { group, node, owned: new Set(), fresh, reached: new Map() })
    for (const rewind of this.#open.values()) {
      if (rewind.group === group) this.#mark('a member joins during a rewind')
    }
  }

  #assigned({ member: name, tps, t }: Of<'assigned'> & Happened): void {
    const member = this.#members.get(name)
    if (member === undefined) return
    this.#moves.set(member.group, t)
    for (const tp of tps) {
      const key = `${member.group} ${tp}`
      member.owned.add(tp)
      member.fresh.add(tp)
      const last = this.#lastOwner.get(key)
      this.#lastOwner.set(key, name)
      if (last === name) this.#mark('a partition comes back to its owner')
      else if (last !== undefined) this.#mark('a partition goes to another member')
      if (this.#pending.has(key)) this.#mark('a new owner finds a rewind that nobody has taken up')
    }
  }

  #gone(event: Of<'revoked' | 'lost'> & Happened): void {
    const member = this.#members.get(event.member)
    if (member === undefined) return
    this.#moves.set(member.group, event.t)
    for (const tp of event.tps) {
      member.owned.delete(tp)
      member.fresh.delete(tp)
      if (!this.#pending.has(`${member.group} ${tp}`)) continue
      this.#mark(`a partition is ${event.k} with a rewind of it under way`)
    }
  }

  #asked(event: Of<'rewind'> & Happened): void {
    const tps = Object.keys(event.to)
    for (const rewind of this.#open.values()) {
      if (rewind.group !== event.group || !rewind.tps.some(tp => tps.includes(tp))) continue
      this.#mark('two rewinds of a partition at once')
    }
    const members = [...this.#members.values()].filter(({ group }) => group === event.group)
    if (members.every(({ owned }) => owned.size === 0))
      this.#mark('a rewind of a group without owners')
    if (members.some(({ node }) => this.#paused.has(node)))
      this.#mark('a rewind while an owner stands still')
    if (this.#paused.has('b')) this.#mark('a rewind while the broker stands still')
    this.#open.set(event.w, { group: event.group, node: event.node, tps })
  }

  #ledger({ group, tp, id, state, window }: Of<'ledger'>): void {
    const key = `${group} ${tp}`
    if (window !== undefined) this.#windows.add(`${key} ${id}`)
    if (state === 'pending') {
      const before = this.#pending.get(key)
      if (before !== undefined && before > id)
        this.#mark('an older rewind is recorded after a newer one')
      this.#pending.set(key, id)
    } else if (this.#pending.get(key) === id) this.#pending.delete(key)
  }

  #applied(event: Of<'applied'> & Happened): void {
    const member = this.#members.get(event.member)
    if (member === undefined) return
    const { group, node } = member
    const key = `${group} ${event.tp}`
    if (this.#pending.get(key) === event.id) this.#pending.delete(key)
    this.#rewound.set(key, event.id)
    const soon = (at: number | undefined) => at !== undefined && event.t - at < soonMs
    if (soon(this.#moves.get(group))) this.#mark('a rewind takes effect during a rebalance')
    if (soon(this.#resumes.get(node)))
      this.#mark('a rewind takes effect after its owner stood still')
    if (event.t - this.#brokerAt < 5_000)
      this.#mark('a rewind takes effect after a restart of the broker')
    if (member.fresh.has(event.tp))
      this.#mark('a rewind takes effect before its owner read anything')
    if (event.to < event.from) this.#mark('a rewind goes back')
    if (event.to > event.from) this.#mark('a rewind goes forward')
    if (event.to === event.from) this.#mark('a rewind stays where it is')
  }

  #moved({ member: name, tp }: Of<'moved'>): void {
    const member = this.#members.get(name)
    if (member === undefined) return
    this.#mark('a position is outside the log')
    if (this.#rewound.has(`${member.group} ${tp}`))
      this.#mark('a rewound position is outside the log')
  }

  #delivered({ member: name, tp, offset, rewindId }: Of<'deliver'>): void {
    const member = this.#members.get(name)
    if (member === undefined) return
    const key = `${member.group} ${tp}`
    if (member.fresh.delete(tp) && rewindId !== '0') this.#mark('a new owner begins at a rewind')
    if (offset <= (member.reached.get(tp) ?? -1)) this.#mark('a record comes again to its member')
    member.reached.set(tp, offset)
    const before = this.#lastDelivered.get(key)
    this.#lastDelivered.set(key, `${name} ${rewindId}`)
    if (this.#windows.has(`${key} ${rewindId}`)) {
      const other = before?.endsWith(` ${rewindId}`) && !before.startsWith(`${name} `)
      this.#mark(other ? 'another owner goes on in a replay' : 'a record of a replay')
    }
    if (rewindId.endsWith('.')) this.#mark('a replay is over')
  }

  #committed({ group, tp, member, connection, rewindId }: Of<'commit.applied'>): void {
    const key = `${member} ${group}`
    const last = this.#connections.get(key) ?? -1
    if (connection < last) {
      this.#mark('a late commit takes effect')
      const rewound = this.#rewound.get(`${group} ${tp}`)
      if (rewound !== undefined && (rewindId ?? '') < rewound) {
        this.#mark('a late commit from before a rewind takes effect')
      }
    } else this.#connections.set(key, connection)
    if (!this.#members.has(member)) this.#mark('a commit of a member that is gone takes effect')
  }

  #died({ node }: Happened): void {
    for (const [w, rewind] of this.#open) {
      if (rewind.node !== node) continue
      this.#mark('the caller of a rewind dies')
      this.#open.delete(w)
    }
    if (node === 'b' && this.#open.size > 0) this.#mark('the broker dies during a rewind')
    for (const [name, member] of this.#members) {
      if (member.node !== node) continue
      this.#members.delete(name)
      for (const tp of member.owned) {
        if (this.#pending.has(`${member.group} ${tp}`))
          this.#mark('an owner dies with a rewind under way')
      }
    }
  }
}
