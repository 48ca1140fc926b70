/**
 * Which batches of a Fetch answer belong to aborted transactions, for `read_committed`: Kafka's own algorithm
 * (CompletedFetch.java). The broker lists the aborted transactions that reach into the answer, each by its
 * producer and first offset; from that offset to the producer's abort marker its batches are not for the
 * application. Give every batch of one partition's answer to `drops`, in order.
 */
import type { BatchView } from './batch.ts'
import { readControl } from './control.ts'

/** As in a Fetch answer. */
export interface AbortedTransaction {
  readonly producerId: bigint
  readonly firstOffset: number
}

export class AbortedTransactions {
  /** By first offset, the latest first: the next to begin is popped. */
  readonly #toCome: AbortedTransaction[]
  readonly #open = new Set<bigint>()

  /** `aborted` as in the answer of one partition: null is none. */
  constructor(aborted: readonly AbortedTransaction[] | null) {
    this.#toCome = [...(aborted ?? [])].sort((a, b) => b.firstOffset - a.firstOffset)
  }

  /**
   * Whether the records of `batch` were aborted. A control batch is never among them, though no application
   * gets to see it either (`batch.isControl`). Throws CORRUPT_RECORDS for a control batch that holds no marker.
   */
  drops(batch: BatchView): boolean {
    const { producerId } = batch
    if (producerId < 0n || !batch.isTransactional) return false
    this.#begin(batch.lastOffset)
    if (!batch.isControl) return this.#open.has(producerId)
    if (readControl(batch)?.type === 'abort') this.#open.delete(producerId)
    return false
  }

  #begin(lastOffset: number): void {
    for (let next = this.#toCome.at(-1); next !== undefined; next = this.#toCome.at(-1)) {
      if (next.firstOffset > lastOffset) return
      this.#open.add(next.producerId)
      this.#toCome.pop()
    }
  }
}
