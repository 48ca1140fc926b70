/**
 * What many runs came to, summed; and a campaign: sums that a file keeps, so that a later piece goes on where the one
 * before ended. A campaign counts the seeds in a row without a violation, and remembers the violations.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import type { Answer } from './crew.ts'
import type { Plan } from './plan/plan.ts'

export class Totals {
  runs = 0
  virtualMs = 0
  cpuMs = 0
  events = 0
  readonly marks = new Map<string, number>()

  add({ outcome, cpuMs }: Answer): void {
    this.runs++
    this.virtualMs += outcome.virtualMs
    this.cpuMs += cpuMs
    this.events += outcome.events
    for (const [mark, count] of outcome.marks) this.#mark(mark, count)
  }

  /** Of marks whose name begins so. */
  count(...names: readonly string[]): number {
    let sum = 0
    for (const [mark, count] of this.marks) {
      if (names.some(name => mark.startsWith(name))) sum += count
    }
    return sum
  }

  load({ runs, virtualMs, cpuMs, events, marks }: Sums): void {
    this.runs = runs
    this.virtualMs = virtualMs
    this.cpuMs = cpuMs
    this.events = events
    for (const [mark, count] of Object.entries(marks)) this.#mark(mark, count)
  }

  get sums(): Sums {
    const { runs, virtualMs, cpuMs, events } = this
    return { runs, virtualMs, cpuMs, events, marks: Object.fromEntries(this.sorted) }
  }

  get sorted(): readonly (readonly [string, number])[] {
    return [...this.marks].sort(([a], [b]) => (a < b ? -1 : 1))
  }

  /** In a line. */
  get text(): string {
    const speed = this.virtualMs / Math.max(1, this.cpuMs)
    return (
      `${this.runs} runs, ${(this.virtualMs / 3_600_000).toFixed(2)} virtual hours, ${this.events} events, ` +
      `${this.count('do: rewind')} rewinds asked for, ${this.count('do: crash')} crashes, ` +
      `${this.count('do: power')} power losses, ${speed.toFixed(0)} virtual s per CPU s, ` +
      `${(this.cpuMs / 1000 / Math.max(1, this.runs)).toFixed(2)} CPU s a run, ${this.marks.size} marks hit`
    )
  }

  #mark(mark: string, count: number): void {
    this.marks.set(mark, (this.marks.get(mark) ?? 0) + count)
  }
}

interface Sums {
  readonly runs: number
  readonly virtualMs: number
  readonly cpuMs: number
  readonly events: number
  readonly marks: Readonly<Record<string, number>>
}

interface Found {
  readonly seed: string
  readonly world: string
  readonly message: string
  readonly commit: string
}

interface Kept {
  readonly base: string
  readonly next: number
  /** Seeds in a row, up to the last, in which every rule held; and the sums of these. */
  readonly streak: Sums
  readonly all: Sums
  readonly found: readonly Found[]
  /** Commits that were run, each from which seed on. */
  readonly commits: Readonly<Record<string, number>>
}

export class Campaign {
  readonly base: bigint
  /** Counts from the base: the first seed that was not begun. */
  next = 0
  readonly all = new Totals()
  streak = new Totals()
  readonly found: Found[] = []
  readonly #file: string
  readonly #commits: Record<string, number> = {}
  readonly #commit: string

  constructor(file: string, base: bigint, commit: string) {
    this.#file = file
    this.#commit = commit
    if (!existsSync(file)) this.base = base
    else {
      const kept = JSON.parse(readFileSync(file, 'utf8')) as Kept
      this.base = BigInt(kept.base)
      this.next = kept.next
      this.all.load(kept.all)
      this.streak.load(kept.streak)
      this.found.push(...kept.found)
      Object.assign(this.#commits, kept.commits)
    }
    this.#commits[commit] ??= this.next
  }

  /** A seed was played, whatever came of it. */
  played(answer: Answer): void {
    this.all.add(answer)
    this.streak.add(answer)
  }

  /** The plan is kept beside the file: a seed draws another once the drawing changes. */
  violated(plan: Plan, trouble: string): void {
    const { seed, world } = plan
    const message = trouble.slice(0, 400)
    this.found.push({ seed, world, message, commit: this.#commit })
    const kept = { rule: message.split(':')[0], message, plan }
    writeFileSync(`${this.#file}.${seed}.json`, `${JSON.stringify(kept, null, 2)}\n`)
    this.streak = new Totals()
  }

  /** So that not even a crash in between leaves half a file. */
  save(next: number): void {
    const kept: Kept = {
      base: `0x${this.base.toString(16)}`,
      next,
      streak: this.streak.sums,
      all: this.all.sums,
      found: this.found,
      commits: this.#commits
    }
    writeFileSync(`${this.#file}.new`, `${JSON.stringify(kept, null, 2)}\n`)
    renameSync(`${this.#file}.new`, this.#file)
  }

  get text(): string {
    const found = this.found.map(({ seed, world, message, commit }) => {
      return `  ${seed} ${world} (${commit}): ${message.split('\n')[0] ?? ''}`
    })
    return [
      `campaign from base 0x${this.base.toString(16)}`,
      `violations: ${found.length}`,
      ...found.slice(-20),
      `all:    ${this.all.text}`,
      `in a row without one: ${this.streak.text}`
    ].join('\n')
  }
}
