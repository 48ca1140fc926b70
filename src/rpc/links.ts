/**
 * The links of a cluster: one for each broker, and one for each place of the bootstrap list until it turns out
 * to be a broker's own (then the same connections go on under the broker's id).
 */
import type { Address, Env } from '../base/env.ts'
import type { PlayheadError } from '../base/error.ts'
import type { LaneName } from './call.ts'
import { Link, type LinkEvents } from './link.ts'
import type { Metadata } from './metadata.ts'
import type { ClusterSettings } from './options.ts'
import type { VersionTable } from './versions.ts'

/** Of a link to a place of the bootstrap list. */
const unknownNode = -1

export class Links {
  readonly #env: Env
  readonly #settings: ClusterSettings
  readonly #events: LinkEvents
  /** By broker id. */
  readonly #brokers = new Map<number, Link>()
  /** Parallel to the bootstrap list; null: never used, or adopted by a broker. */
  readonly #bootstrap: (Link | null)[]
  /** Brokers that the newest metadata names. */
  #current: ReadonlySet<number> = new Set()

  constructor(env: Env, settings: ClusterSettings, events: LinkEvents) {
    this.#env = env
    this.#settings = settings
    this.#events = events
    this.#bootstrap = settings.bootstrap.map(() => null)
  }

  get(node: number): Link | undefined {
    return this.#brokers.get(node)
  }

  /** What the newest metadata says about who is where. */
  update({ brokers }: Metadata): void {
    this.#current = new Set(brokers.keys())
    for (const { id, host, port } of brokers.values()) this.learn(id, host, port, true)
    for (const [node, link] of this.#brokers) {
      // One that is not named may be restarting: its connections end by themselves, then it is forgotten.
      if (!brokers.has(node) && link.empty) this.#brokers.delete(node)
    }
    for (const link of this.#bootstrap) link?.endIdle()
  }

  /** A broker was named. `sure`: it replaces what was known. */
  learn(node: number, host: string, port: number, sure = false): void {
    const address = { host, port, tls: this.#settings.tls }
    const known = this.#brokers.get(node)
    if (known) {
      if (sure) known.move(address)
      return
    }
    this.#brokers.set(node, this.#adopted(node, address) ?? this.#make(node, address))
  }

  /**
   * The best for a request that any broker can answer: connected before not, and none that just failed, while
   * there is another. The bootstrap list counts when all known brokers are in trouble (KIP-899: at once, as it
   * costs nothing), or were tried. Undefined: all were tried.
   */
  any(tried: ReadonlySet<Link>): Link | undefined {
    const brokers = [...this.#currentBrokers()]
    const alone = brokers.every(link => link.troubled)
    if (alone) return this.#best([...brokers, ...this.#seeds()], tried)
    return this.#best(brokers, tried) ?? this.#best(this.#seeds(), tried)
  }

  /** The named brokers are not to be trusted any more (KIP-1102): only the bootstrap list is. */
  forgetBrokers(): void {
    this.#current = new Set()
  }

  /** What some broker speaks, if one was ever asked. */
  get versions(): VersionTable | null {
    for (const link of this.#brokers.values()) if (link.versions) return link.versions
    for (const link of this.#bootstrap) if (link?.versions) return link.versions
    return null
  }

  endLane(lane: LaneName): void {
    for (const link of this.#brokers.values()) link.endIdle(lane)
  }

  async close(why: PlayheadError): Promise<void> {
    const links = [...this.#brokers.values(), ...this.#bootstrap]
    await Promise.all(links.map(link => link?.close(why)))
  }

  *#currentBrokers(): Generator<Link> {
    for (const [node, link] of this.#brokers) if (this.#current.has(node)) yield link
  }

  /** Made when first needed, and again after one was adopted by a broker that is gone by now. */
  #seeds(): Link[] {
    const places = new Set([...this.#currentBrokers()].map(link => placeOf(link.address)))
    const seeds: Link[] = []
    this.#settings.bootstrap.forEach((address, i) => {
      if (places.has(placeOf(address))) return
      seeds.push((this.#bootstrap[i] ??= this.#make(unknownNode, address)))
    })
    return seeds
  }

  #best(links: readonly Link[], tried: ReadonlySet<Link>): Link | undefined {
    let best: Link | undefined
    let bestScore = Infinity
    for (const link of links) {
      if (tried.has(link)) continue
      const score = link.backingOff ? 2 + link.waitMs : link.connected ? 0 : 1
      const chance = this.#env.random.next() * 0.5
      if (score + chance < bestScore) {
        best = link
        bestScore = score + chance
      }
    }
    return best
  }

  #adopted(node: number, { host, port }: Address): Link | undefined {
    const at = this.#bootstrap.findIndex(link => {
      return link !== null && link.address.host === host && link.address.port === port
    })
    const link = at < 0 ? null : this.#bootstrap[at]
    if (!link) return undefined
    this.#bootstrap[at] = null
    link.adopt(node)
    return link
  }

  #make(node: number, address: Address): Link {
    return new Link(this.#env, node, address, this.#settings.link, this.#events)
  }
}

function placeOf({ host, port }: Address): string {
  return `${host}:${port}`
}
