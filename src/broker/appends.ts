/**
 * What one request writes, over all partitions it touches: one transaction of the store (invariant D7). What was
 * appended becomes readable when the transaction is durable, in all partitions at once.
 */
import { Changes, type Store } from '../base/store.ts'
import type { BatchView } from '../protocol/records/batch.ts'
import type { Partition } from './partition.ts'

export class Appends {
  /** Whatever else belongs in the same transaction goes here. */
  readonly changes = new Changes()
  readonly #before = new Map<Partition, number>()

  append(partition: Partition, batch: BatchView): number {
    this.#touch(partition)
    return partition.append(batch, this.changes)
  }

  endTransaction(partition: Partition, end: Parameters<Partition['endTransaction']>[0]): void {
    this.#touch(partition)
    partition.endTransaction(end, this.changes)
  }

  /** Resolves when all is durable, and everything committed before too; also when nothing was appended. */
  async commit(store: Store): Promise<void> {
    const ends = [...this.#before].map(([partition, position]) => ({
      partition,
      endOffset: partition.log.endOffset,
      bytes: partition.log.endPosition - position
    }))
    await store.commit(this.changes)
    for (const { partition, endOffset, bytes } of ends) partition.durable(endOffset, bytes)
  }

  #touch(partition: Partition): void {
    if (!this.#before.has(partition)) this.#before.set(partition, partition.log.endPosition)
  }
}
