/**
 * Which partition a record goes to. One with a key: murmur2 of the key's bytes, exactly as Kafka's Java
 * client, so that both put a key into the same partition. One without: the topic's sticky partition, which
 * stays until it has got a fair share and its batch has left, so that batches are large and partitions even
 * (KIP-480, and KIP-794 for when to move on).
 */
import type { Random } from '../../base/env.ts'

const seed = 0x9747b28c | 0
const multiplier = 0x5bd1e995 | 0

/** Kafka's murmur2 of the first `length` bytes, as a signed 32-bit number. */
export function murmur2(bytes: Uint8Array, length: number = bytes.length): number {
  let hash = seed ^ length
  const whole = length & ~3
  for (let i = 0; i < whole; i += 4) {
    let word =
      (bytes[i] as number) |
      ((bytes[i + 1] as number) << 8) |
      ((bytes[i + 2] as number) << 16) |
      ((bytes[i + 3] as number) << 24)
    word = Math.imul(word, multiplier)
    word ^= word >>> 24
    hash = Math.imul(hash, multiplier) ^ Math.imul(word, multiplier)
  }
  const rest = length - whole
  if (rest === 3) hash ^= (bytes[whole + 2] as number) << 16
  if (rest >= 2) hash ^= (bytes[whole + 1] as number) << 8
  if (rest >= 1) hash = Math.imul(hash ^ (bytes[whole] as number), multiplier)
  hash ^= hash >>> 13
  hash = Math.imul(hash, multiplier)
  return hash ^ (hash >>> 15)
}

const scratch = Buffer.allocUnsafe(4096)

/** The partition of a key, as Kafka's Java client has it. A string is hashed as its UTF-8. */
export function partitionOfKey(key: Uint8Array | string, partitionCount: number): number {
  return (hashOf(key) & 0x7fff_ffff) % partitionCount
}

function hashOf(key: Uint8Array | string): number {
  if (typeof key !== 'string') return murmur2(key)
  // A UTF-16 unit is at most three bytes of UTF-8.
  if (key.length * 3 > scratch.length) return murmur2(Buffer.from(key))
  return murmur2(scratch, scratch.write(key))
}

/** What a partitioner of one's own is asked about. */
export interface PartitionerInput {
  /** The topic it goes to. */
  readonly topic: string
  /** After the serializer. */
  readonly key: Uint8Array | string | null
  /** As the serializer made it; null: none. */
  readonly value: Uint8Array | string | null
  /** How many partitions that has. */
  readonly partitionCount: number
  /** Partitions that have a leader now. */
  readonly available: readonly number[]
}

/** Gives the partition, or undefined for the default choice. Called for records that name none. */
export type Partitioner = (input: PartitionerInput) => number | undefined

/** The partition that a topic's keyless records go to for now. */
export class StickyPartition {
  readonly #random: Random
  /** From here on the partition has had its share (KIP-794: a batch's worth). */
  readonly #shareBytes: number
  #partition = -1
  #bytes = 0

  constructor(random: Random, shareBytes: number) {
    this.#random = random
    this.#shareBytes = shareBytes
  }

  /** The partition for the next record. `available` is not empty. */
  choose(available: readonly number[]): number {
    if (this.#partition < 0) {
      this.#partition = available[Math.floor(this.#random.next() * available.length)] ?? 0
    }
    return this.#partition
  }

  /** A record of this size went there. */
  grew(bytes: number): void {
    this.#bytes += bytes
  }

  /**
   * A batch of `partition` takes no more records: a good moment to move on, as no half-filled batch stays
   * behind. Moving at the byte would leave fragments that linger (KAFKA-13448).
   */
  batchEnded(partition: number): void {
    if (partition === this.#partition && this.#bytes >= this.#shareBytes) this.forget()
  }

  /** Chooses anew at the next record: the partition has lost its leader, or there are more now. */
  forget(): void {
    this.#partition = -1
    this.#bytes = 0
  }
}
