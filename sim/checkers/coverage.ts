/**
 * At least once, and on to the end: every visible record from where the group began up to its committed offset was
 * handled by someone (G6), and when all is quiet every record of every partition is delivered (G7).
 */
import { type Checker, type Happened, type Tp, Violation } from '../history/events.ts'

interface Group {
  readonly handled: Map<Tp, Set<number>>
  readonly committed: Map<Tp, number>
  /** Rewinds that skip forward excuse what lies between. */
  readonly excused: Map<Tp, (readonly [from: number, to: number])[]>
}

export class CoverageChecker implements Checker {
  readonly #groups = new Map<string, Group>()
  readonly #groupOf = new Map<string, string>()
  readonly #visible = new Map<Tp, number[]>()
  readonly #starts = new Map<Tp, number>()
  /** Groups that begin at the end of the log, and their partitions of which it is known where that was. */
  readonly #atTheEnd = new Set<string>()
  readonly #begunAt = new Set<string>()

  on(event: Happened): void {
    switch (event.k) {
      case 'join':
        this.#groupOf.set(event.member, event.group)
        this.#its(event.group)
        if (event.startFrom === 'latest') this.#atTheEnd.add(event.group)
        return
      case 'deliver':
        return this.#begun(this.#groupOf.get(event.member) ?? '', event.tp, event.offset)
      case 'handled': {
        const group = this.#its(this.#groupOf.get(event.member) ?? '')
        const handled = group.handled.get(event.tp) ?? new Set()
        group.handled.set(event.tp, handled)
        handled.add(event.offset)
        return
      }
      case 'applied':
      case 'seek':
      case 'moved': {
        const from = event.from ?? 0
        const group = this.#groupOf.get(event.member) ?? ''
        if (event.to > from) this.#excuse(group, event.tp, from, event.to)
        // It stood there already, and goes back before it has read anything.
        else if (event.to < from) this.#begun(group, event.tp, from)
        return
      }
      case 'ledger':
        // Behind a replay it goes on where the group was when that was planned.
        if (event.window !== undefined) this.#begun(event.group, event.tp, event.window.resume)
        // An owner may stand anywhere when it takes it up.
        return this.#excuseSkip(event.group, event.tp, event.target)
      case 'commit.applied': {
        this.#begun(event.group, event.tp, event.offset)
        const { committed } = this.#its(event.group)
        // Until something is committed a group that begins at the end may do so more than once.
        if (this.#atTheEnd.has(event.group) && !committed.has(event.tp))
          this.#excuse(event.group, event.tp, 0, event.offset)
        committed.set(event.tp, Math.max(event.offset, committed.get(event.tp) ?? 0))
        return
      }
      case 'cut':
        this.#starts.set(event.tp, Math.max(event.start, this.#starts.get(event.tp) ?? 0))
        return
      case 'final': {
        const visible = this.#visible.get(event.tp) ?? []
        this.#visible.set(event.tp, visible)
        visible.push(event.offset)
        return
      }
      default:
    }
  }

  /** Of a group that begins at the end, what was there before. */
  #begun(group: string, tp: Tp, offset: number): void {
    const key = `${group} ${tp}`
    if (!this.#atTheEnd.has(group) || this.#begunAt.has(key)) return
    this.#begunAt.add(key)
    this.#excuse(group, tp, 0, offset)
  }

  end(): void {
    for (const [name, group] of this.#groups) {
      for (const [tp, visible] of this.#visible) {
        const committed = group.committed.get(tp)
        if (committed !== undefined) this.#checkPartition(name, group, tp, visible, committed)
      }
    }
  }

  #checkPartition(name: string, group: Group, tp: Tp, visible: number[], committed: number): void {
    const handled = group.handled.get(tp)
    const start = this.#starts.get(tp) ?? 0
    const excused = group.excused.get(tp) ?? []
    for (const offset of visible) {
      if (offset < start || offset >= committed || handled?.has(offset)) continue
      if (excused.some(([from, to]) => offset >= from && offset < to)) continue
      throw new Violation(
        'G6',
        `${name} committed ${committed} of ${tp}, and nobody handled ${offset}`
      )
    }
  }

  #excuseSkip(group: string, tp: Tp, target: number): void {
    const handled = this.#its(group).handled.get(tp)
    let highest = -1
    for (const offset of handled ?? []) highest = Math.max(highest, offset)
    if (target > highest + 1) this.#excuse(group, tp, highest + 1, target)
  }

  #excuse(name: string, tp: Tp, from: number, to: number): void {
    const { excused } = this.#its(name)
    const ranges = excused.get(tp) ?? []
    excused.set(tp, ranges)
    ranges.push([from, to])
  }

  #its(name: string): Group {
    const group = this.#groups.get(name) ?? {
      handled: new Map(),
      committed: new Map(),
      excused: new Map()
    }
    this.#groups.set(name, group)
    return group
  }
}
