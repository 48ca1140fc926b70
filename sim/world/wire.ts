/**
 * The simulated network's faults, as one Wire (src/net/wire.ts): latency with a slow tail, directions that are cut,
 * resets in mid-frame, refused and half-open connections, and what was sent before a connection ended arriving any
 * time later: the late commits of live-rewind.md.
 */
import type { Clock } from '../../src/base/env.ts'
import { type Carriage, type Link, type Wire, fairWire } from '../../src/net/wire.ts'
import type { SeededRandom } from './random.ts'

/** How much goes wrong. Probabilities are per dial, per chunk carried, per connection's end. */
export interface WireFaults {
  readonly latencyMs: number
  /** Of a chunk: to take up to fifty times longer. */
  readonly tail: number
  readonly reset: number
  readonly refused: number
  /** Of a dial: to be answered never. */
  readonly halfOpen: number
  /** Of a connection that ends with bytes on their way: that these come late. */
  readonly late: number
  readonly lateMs: number
  /** Of a chunk of requests: to be stuck for seconds, as on a route that fails, while other connections are well. */
  readonly stuck?: number
  /** Of a chunk: to be cut at any byte. Half of them unless said otherwise; each piece is an event more. */
  readonly cuts?: number
}

export const calm: WireFaults = {
  latencyMs: 1,
  tail: 0,
  reset: 0,
  refused: 0,
  halfOpen: 0,
  late: 0,
  lateMs: 0
}

/** Of a node, requests on every third connection up to the newest of then: they arrive at `untilMs`. */
interface Stranded {
  readonly upTo: number
  readonly third: number
  readonly untilMs: number
}

/** Longer than a heartbeat is waited for. */
const stuckMs = 5_000

export class FaultyWire implements Wire {
  faults: WireFaults
  readonly #random: SeededRandom
  readonly #fair: Wire
  readonly #mark: (name: string) => void
  /** 'a>b': nothing gets from a to b. */
  readonly #cut = new Set<string>()
  readonly #halfOpen = new Set<number>()
  readonly #late = new Set<string>()
  readonly #clock: Pick<Clock, 'monotonic'>
  /** The newest connection. */
  #newest = 0
  readonly #stranded = new Map<string, Stranded>()

  constructor(
    random: SeededRandom,
    faults: WireFaults,
    clock: Pick<Clock, 'monotonic'>,
    mark: (name: string) => void
  ) {
    this.#random = random
    this.#clock = clock
    this.#fair = fairWire(random)
    this.#mark = mark
    this.faults = faults
  }

  /** Nothing gets from `from` to `to`. The network must be asked again after `mend`. */
  cut(from: string, to: string): void {
    this.#cut.add(`${from}>${to}`)
  }

  mend(from: string, to: string): void {
    this.#cut.delete(`${from}>${to}`)
  }

  /** What `from` sends on some of its connections of now arrives after `forMs`, even if it closes them meanwhile. */
  strand(from: string, forMs: number): void {
    const untilMs = this.#clock.monotonic() + forMs
    this.#stranded.set(from, { upTo: this.#newest, third: this.#random.between(0, 2), untilMs })
  }

  /** All is well from now on, but what already is late. */
  heal(): void {
    this.#stranded.clear()
    this.faults = { ...calm, latencyMs: this.faults.latencyMs, cuts: this.faults.cuts ?? 0.5 }
    this.#cut.clear()
    this.#halfOpen.clear()
  }

  dial(link: Link): number | 'refused' {
    this.#newest = Math.max(this.#newest, link.connection)
    if (this.#isCut(link)) return Infinity
    if (this.#random.chance(this.faults.refused)) {
      this.#mark('a connection is refused')
      return 'refused'
    }
    if (this.#random.chance(this.faults.halfOpen)) {
      this.#mark('a connection stays half open')
      this.#halfOpen.add(link.connection)
      return Infinity
    }
    return this.#delayMs()
  }

  carry(link: Link, bytes: number): Carriage | 'reset' {
    if (this.#halfOpen.has(link.connection) || this.#isCut(link)) {
      return { bytes, delayMs: Infinity }
    }
    const strandedMs = this.#strandedMs(link)
    if (strandedMs > 0) {
      this.#mark('a request is stranded')
      return { bytes, delayMs: strandedMs }
    }
    if (this.#late.delete(directionOf(link))) {
      this.#mark('bytes arrive long after their sender closed')
      return { bytes, delayMs: this.#random.next() * this.faults.lateMs }
    }
    const { stuck = 0, lateMs } = this.faults
    if (stuck > 0 && link.direction === 'request' && this.#random.chance(stuck)) {
      this.#mark('a request is stuck')
      return { bytes, delayMs: this.#random.next() * Math.max(lateMs, stuckMs) }
    }
    if (this.#random.chance(this.faults.reset)) {
      this.#mark('a connection is reset')
      return 'reset'
    }
    const chunk = this.#cutOf(bytes)
    if (chunk < 4 && bytes >= 4) this.#mark('a chunk ends within a length')
    return { bytes: chunk, delayMs: this.#delayMs() }
  }

  lose(link: Link, bytes: number): number {
    if (this.#strandedMs(link) > 0) return bytes
    if (this.#random.chance(this.faults.late)) {
      this.#late.add(directionOf(link))
      return bytes
    }
    return this.#fair.lose(link, bytes)
  }

  /** At any byte, and now and then within a frame's length. */
  #cutOf(bytes: number): number {
    const { cuts = 0.5 } = this.faults
    if (bytes === 0 || !this.#random.chance(cuts)) return bytes
    const most = this.#random.chance(0.8) ? bytes : Math.min(bytes, 8)
    return this.#random.between(1, most)
  }

  #strandedMs({ connection, direction, from }: Link): number {
    const stranded = this.#stranded.get(from)
    if (stranded === undefined || direction !== 'request') return 0
    if (connection > stranded.upTo || connection % 3 !== stranded.third) return 0
    return Math.max(0, stranded.untilMs - this.#clock.monotonic())
  }

  #isCut({ from, to }: Link): boolean {
    return this.#cut.has(`${from}>${to}`)
  }

  #delayMs(): number {
    const { latencyMs, tail } = this.faults
    const long = this.#random.chance(tail) ? 50 * this.#random.next() : 1
    return 0.05 + this.#random.next() * latencyMs * long
  }
}

function directionOf({ connection, direction }: Link): string {
  return `${connection} ${direction}`
}
