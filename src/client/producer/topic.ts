/** What a producer knows of a topic: its partitions' queues, and where keyless records go for now. */
import type { TopicMetadata } from '../../rpc/metadata.ts'
import { PlayheadError } from '../../base/error.ts'
import { PartitionQueue, type QueueRules } from './partition.ts'
import { type Partitioner, partitionOfKey, type StickyPartition } from './partitioner.ts'
import type { WireRecord } from './record.ts'

type Bytes = Uint8Array | string | null

export class Topic {
  readonly name: string
  readonly partitions: PartitionQueue[] = []
  readonly sticky: StickyPartition
  /** base64url uuid; zeros: unknown. */
  topicId = ''
  /** The cluster said that there is no such topic, and has not said otherwise since. */
  missing = true
  /** Partitions with a leader; all of them when none has one. */
  #available: readonly number[] = []
  /** As the cluster says; a topic that was made anew may have fewer than there are queues. */
  #count = 0

  constructor(name: string, sticky: StickyPartition) {
    this.name = name
    this.sticky = sticky
  }

  /** Takes in the newest metadata; calls `moved` for each partition whose leader changed. */
  update(
    metadata: TopicMetadata | undefined,
    rules: QueueRules,
    moved: (partition: PartitionQueue) => void
  ): void {
    this.missing = metadata === undefined
    const count = metadata?.partitions.length ?? 0
    if (metadata !== undefined) {
      this.topicId = metadata.topicId
      if (count !== this.#count) this.sticky.forget()
      this.#count = count
    }
    while (this.partitions.length < count) {
      this.partitions.push(new PartitionQueue(this.name, this.partitions.length, rules))
    }
    const available: number[] = []
    for (const partition of this.partitions) {
      const leader = metadata?.partitions[partition.partition]?.leader ?? -1
      if (leader >= 0) available.push(partition.partition)
      if (leader === partition.leader) continue
      partition.leader = leader
      if (leader < 0) this.sticky.forget()
      moved(partition)
    }
    this.#available =
      available.length > 0 ? available : Array.from({ length: this.#count }, (_, index) => index)
  }

  get partitionCount(): number {
    return this.#count
  }

  /** The queue for a record. Throws UNKNOWN_PARTITION. */
  choose(record: WireRecord, partitioner: Partitioner | undefined): PartitionQueue {
    const { key = null } = record
    let chosen = record.partition
    if (chosen === undefined && partitioner !== undefined) {
      chosen = this.#ask(partitioner, key, record.value ?? null)
    }
    chosen ??= key === null ? this.sticky.choose(this.#available) : partitionOfKey(key, this.#count)
    const queue = this.partitions[chosen]
    if (queue === undefined || chosen >= this.#count) throw this.unknownPartition(chosen)
    return queue
  }

  #ask(partitioner: Partitioner, key: Bytes, value: Bytes): number | undefined {
    const [partitionCount, available] = [this.#count, this.#available]
    try {
      return partitioner({ topic: this.name, key, value, partitionCount, available })
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause)
      const message = `producer: the partitioner failed for a record of ${this.name}: ${why}`
      throw new PlayheadError('INVALID_ARGUMENT', message, { topic: this.name, cause })
    }
  }

  /** The queue that records without key or partition go to. */
  chooseSticky(): PartitionQueue | undefined {
    return this.partitions[this.sticky.choose(this.#available)]
  }

  unknownPartition(partition: number): PlayheadError {
    const message = `topic ${this.name} has partitions 0 to ${this.#count - 1}, not ${partition}`
    return new PlayheadError('UNKNOWN_PARTITION', message, { topic: this.name, partition })
  }
}
