/**
 * The whole simulated world: one clock, one network, nodes with their processes and disks, and the history of what
 * happens. Programs on nodes are written like any other, and know of none of this.
 */
import type { LogFields } from '../../src/base/env.ts'
import { PlayheadError } from '../../src/base/error.ts'
import { MemoryNetwork } from '../../src/net/memory.ts'
import { type Checker, type Happened, type Happening, Violation } from '../history/events.ts'
import { History } from '../history/history.ts'
import { VirtualClock } from './clock.ts'
import { simulatedCpu } from './cpu.ts'
import { type LogLevel, Process } from './process.ts'
import { SeededRandom } from './random.ts'
import type { Storage } from './store.ts'
import { FaultyWire, type WireFaults } from './wire.ts'

/** What runs on a node. Called for each of its processes; must not reject. */
export type Program = (process: Process) => Promise<void>

interface Node {
  readonly name: string
  readonly program: Program
  wallOffsetMs: number
  readonly disk: Storage | undefined
  incarnation: number
  process: Process | undefined
  /** Its program has come to its end. */
  finished: boolean
  /** Without power. */
  dark: boolean
}

export interface WorldOptions {
  readonly seed: bigint
  readonly faults: WireFaults
  readonly checkers: readonly Checker[]
  readonly trace?: ((event: Happened) => void) | undefined
  /** Log messages at or above `info`, for a trace. */
  readonly log?: ((line: string) => void) | undefined
}

/** More callbacks than this within a second of virtual time, on one node, are a loop without progress. */
const hotEvents = 20_000

/** How far a wall clock is from the true time, at most. */
const mostOffsetMs = 1_740_000

export class World {
  readonly clock: VirtualClock
  readonly random: SeededRandom
  readonly network: MemoryNetwork
  readonly wire: FaultyWire
  readonly history: History
  /** How often each rare or decisive thing happened. */
  readonly marks = new Map<string, number>()
  /** The first rule that did not hold; the run is over then. */
  violation: Violation | undefined
  readonly #nodes = new Map<string, Node>()
  readonly #logMarks = new Map<string, string>()
  readonly #log: ((line: string) => void) | undefined

  constructor({ seed, faults, checkers, trace, log }: WorldOptions) {
    this.random = new SeededRandom(seed)
    this.clock = new VirtualClock({ ties: this.random.split('ties') })
    this.wire = new FaultyWire(this.random.split('wire'), faults, this.clock, name =>
      this.mark(name)
    )
    this.network = new MemoryNetwork({
      clock: this.clock,
      random: this.random.split('net'),
      wire: this.wire
    })
    this.history = new History({ now: () => this.clock.monotonic(), checkers, trace })
    this.#log = log
  }

  mark(name: string): void {
    this.marks.set(name, (this.marks.get(name) ?? 0) + 1)
  }

  /** Something happened that is worth a line in the history. */
  add(node: string, incarnation: number, what: Happening): void {
    if (this.violation !== undefined) return
    try {
      this.history.add(node, incarnation, what)
    } catch (error) {
      this.#caught(error)
    }
  }

  /** The same, as seen by a process; what a dead one sees does not count. */
  saw(process: Process, what: Happening): void {
    if (!process.dead) this.add(process.node, process.incarnation, what)
  }

  /** Runs `ms` of virtual time, or until a rule does not hold, or `until` does. */
  async run(ms: number, until: () => boolean = () => false): Promise<void> {
    let over = false
    const end = this.clock.after(ms, () => {
      over = true
    })
    await this.clock.runUntil(() => over || this.violation !== undefined || until(), ms + 1)
    end.cancel()
  }

  /** Calls `then` in `ms`, as nobody on any node. */
  at(ms: number, then: () => void): void {
    this.clock.after(Math.max(0, ms - this.clock.monotonic()), then)
  }

  // ── Nodes ──────────────────────────────────────────────────────────────────────────────────────────────────────

  addNode(name: string, program: Program, wallOffsetMs = 0, disk?: Storage): void {
    this.network.node(name)
    this.#nodes.set(name, {
      name,
      program,
      wallOffsetMs,
      disk,
      incarnation: 0,
      process: undefined,
      finished: false,
      dark: false
    })
  }

  get nodes(): readonly string[] {
    return [...this.#nodes.keys()]
  }

  process(name: string): Process | undefined {
    return this.#nodes.get(name)?.process
  }

  finished(name: string): boolean {
    return this.#node(name).finished
  }

  start(name: string): void {
    const node = this.#node(name)
    if (node.process !== undefined || node.dark) return
    node.incarnation++
    const process = new Process(name, node.incarnation, {
      clock: this.clock,
      net: this.network.node(name),
      cpu: simulatedCpu,
      random: this.random.split(`${name} ${node.incarnation}`),
      wallOffsetMs: () => node.wallOffsetMs,
      uncaught: (_, error) => this.uncaught(error),
      logged: (_, level, message, fields) => this.#logged(name, level, message, fields)
    })
    node.process = process
    node.finished = false
    this.saw(process, { k: 'start' })
    process.enter(() => {
      node.program(process).then(
        () => {
          if (!process.dead) node.finished = true
        },
        (error: unknown) => {
          if (!process.dead) this.uncaught(error)
        }
      )
    })
  }

  /** The process ends without a word, as by kill -9. */
  crash(name: string): void {
    const node = this.#node(name)
    if (node.process === undefined) return
    this.saw(node.process, { k: 'crash' })
    node.process.kill()
    node.process = undefined
    this.network.kill(name)
    node.disk?.crashed()
  }

  /** The machine goes dark; `start` after `restorePower` brings it back. */
  losePower(name: string): void {
    const node = this.#node(name)
    if (node.process === undefined) return
    this.saw(node.process, { k: 'power.loss' })
    node.process.kill()
    node.process = undefined
    node.dark = true
    this.network.powerOff(name)
    node.disk?.lostPower()
  }

  restorePower(name: string): void {
    this.#node(name).dark = false
    this.network.powerOn(name)
  }

  pause(name: string): void {
    const { process } = this.#node(name)
    if (process === undefined || process.paused) return
    this.saw(process, { k: 'pause' })
    process.pause()
  }

  resume(name: string): void {
    const { process } = this.#node(name)
    if (process === undefined || !process.paused) return
    this.saw(process, { k: 'resume' })
    process.resume()
  }

  /**
   * The node's wall clock is set. No two are an hour apart: a broker takes no timestamps from further ahead
   * (`message.timestamp.after.max.ms`), so that whoever writes them would write nothing.
   */
  setClock(name: string, byMs: number): void {
    const node = this.#node(name)
    const to = node.wallOffsetMs + byMs
    node.wallOffsetMs = Math.max(-mostOffsetMs, Math.min(mostOffsetMs, to))
  }

  /** Nothing gets from one to the other until `mend`. */
  cut(from: string, to: string): void {
    this.wire.cut(from, to)
  }

  strand(name: string, forMs: number): void {
    this.wire.strand(name, forMs)
  }

  mend(from: string, to: string): void {
    this.wire.mend(from, to)
    this.network.retry()
  }

  /** All faults end. */
  heal(): void {
    this.wire.heal()
    this.network.retry()
    for (const { name, process, disk } of this.#nodes.values()) {
      if (disk !== undefined) disk.failing = false
      process?.slow(0)
      this.resume(name)
    }
    this.add('world', 0, { k: 'healed' })
  }

  /** Looks for loops without progress, once a virtual second, for as long as the run goes on. */
  watch(): void {
    const before = new Map<Process, number>()
    const look = (): void => {
      for (const { process } of this.#nodes.values()) {
        if (process === undefined) continue
        const events = process.events - (before.get(process) ?? 0)
        before.set(process, process.events)
        if (events > hotEvents) this.saw(process, { k: 'busy', events })
      }
      this.clock.after(1_000, look)
    }
    look()
  }

  /** Whether anybody listens to what is told. */
  get tells(): boolean {
    return this.#log !== undefined
  }

  /** For a trace only. */
  tell(text: () => string): void {
    this.#log?.(`${this.clock.monotonic().toFixed(3)} ${text()}`)
  }

  uncaught(error: unknown): void {
    if (error instanceof Violation) return this.#caught(error)
    const text = error instanceof Error ? (error.stack ?? String(error)) : String(error)
    this.add('world', 0, { k: 'uncaught', error: text })
  }

  #caught(error: unknown): void {
    if (error instanceof Violation) this.violation ??= error
    else
      this.violation ??= new Violation('C2', String(error instanceof Error ? error.stack : error))
  }

  #logged(node: string, level: LogLevel, message: string, fields?: LogFields): void {
    this.mark(this.#markOf(message))
    const error = fields?.['error']
    if (this.#log !== undefined) {
      const text = Object.entries(fields ?? {}).map(([name, value]) => `${name}=${String(value)}`)
      this.#log(
        `${this.clock.monotonic().toFixed(3)} ${node} ${level} ${message} ${text.join(' ')}`
      )
    }
    // A bug shows first where it was caught and logged.
    if (level === 'error' && error instanceof Error && !(error instanceof PlayheadError)) {
      this.uncaught(error)
    }
  }

  #markOf(message: string): string {
    let mark = this.#logMarks.get(message)
    if (mark === undefined) {
      mark = `log: ${message.replace(/[0-9]+/g, 'N').slice(0, 80)}`
      this.#logMarks.set(message, mark)
    }
    return mark
  }

  #node(name: string): Node {
    const node = this.#nodes.get(name)
    if (node === undefined) throw new Error(`there is no node ${name}`)
    return node
  }
}

/** Resolves `ms` later, as the process sees it; none of the process's own timers. A dead one never hears of it. */
export function sleep(world: World, process: Process, ms: number): Promise<void> {
  return new Promise(resolve => {
    world.clock.after(ms, () => {
      process.enter(resolve)
    })
  })
}
