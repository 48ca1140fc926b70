/**
 * Which broker coordinates which group or transactional id. As in Kafka a name falls into one of fifty slots by
 * its hash, and the brokers lead the slots in turn; tests move single names elsewhere. As all brokers are one
 * process, a coordinator that moves hands over nothing: only who answers changes.
 */
import type { BrokerNode } from './cluster.ts'

export type Coordinated = 'group' | 'transaction'

const slots = 50

export class Coordinators {
  readonly #nodes: ReadonlyMap<number, BrokerNode>
  readonly #moved = { group: new Map<string, number>(), transaction: new Map<string, number>() }

  constructor(nodes: ReadonlyMap<number, BrokerNode>) {
    this.#nodes = nodes
  }

  /** Undefined: no broker is up, COORDINATOR_NOT_AVAILABLE. */
  of(kind: Coordinated, name: string): BrokerNode | undefined {
    const moved = this.#nodes.get(this.#moved[kind].get(name) ?? -1)
    const node = moved?.up ? moved : this.#nodes.get(this.#placed(name))
    return node?.up ? node : undefined
  }

  /** Whether `node` must answer NOT_COORDINATOR for this name. */
  elsewhere(kind: Coordinated, name: string, node: number): boolean {
    return this.of(kind, name)?.id !== node
  }

  move(kind: Coordinated, name: string, node: number): void {
    this.#moved[kind].set(name, node)
  }

  /** Slots of a stopped broker go to the next one that is up, as Kafka elects another leader. */
  #placed(name: string): number {
    const slot = (javaHash(name) & 0x7fffffff) % slots
    const preferred = [...this.#nodes.keys()][slot % Math.max(1, this.#nodes.size)] ?? -1
    if (this.#nodes.get(preferred)?.up) return preferred
    const up = [...this.#nodes.values()].filter(node => node.up)
    return up[slot % Math.max(1, up.length)]?.id ?? -1
  }
}

/** String.hashCode of Java: Kafka places groups by it. */
function javaHash(text: string): number {
  let hash = 0
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0
  return hash
}
