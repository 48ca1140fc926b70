/**
 * The batches of one partition, oldest first, and which of them may go now: all the rules that keep records in
 * order and each in the log once. No I/O; the sink asks `next`, and tells what came of it.
 *
 *   [under way … | waiting to be tried again … | closed … | open]
 *
 * - Up to five batches are under way, with sequences one after the other: the broker remembers the last five
 *   and answers a repeated one with its first answer. So nothing new goes five batches after the first that is
 *   open, even when those between are done: A is appended, but its answer is a time-out; B, C, D, E are done; F
 *   goes and the broker forgets A; A, tried again, would be out of order, and end up in the log twice.
 * - Until the first batch of a producer id is known to be in the log, nothing goes beside it: a broker that has
 *   no state of a producer (any more: it keeps it for a day) takes any sequence. A (0) is refused in passing, B (1) is appended, and A, tried
 *   again, is out of order for ever.
 * - A batch that was sent before goes again only as the first of the queue, alone; what is behind it waits. So
 *   a broker never gets a batch before one that was sent earlier.
 * - A first batch that is refused as out of order was not written, nor was any behind it: something before it
 *   is missing for good, as its sender has been told. When no request is under way any more, the epoch is
 *   raised and all that are left start at sequence 0 (KIP-360). Not earlier, and not when a batch is given up:
 *   it may have been written, and then there is no gap.
 */
import { assert } from '../../base/assert.ts'
import type { Batch } from './batch.ts'
import type { ProducerStamp } from '../../protocol/records/stamp.ts'

/** What the broker knows a producer by. One object as long as it stays the same. */
export interface Identity {
  readonly producerId: bigint
  readonly epoch: number
}

export interface QueueRules {
  readonly idempotent: boolean
  /** Most batches of one partition under way. Without idempotence 1, as a repeated one may overtake the next. */
  readonly maxInFlight: number
}

const lastEpoch = 32_767
/** Batches of a producer that a broker remembers (ProducerStateEntry.NUM_BATCHES_TO_RETAIN). */
const remembered = 5
/** How long a broker surely remembers a producer that is silent; its `producer.id.expiration.ms` is a day. */
const sureOfStateMs = 3_600_000
const sequences = 2 ** 31

export class PartitionQueue {
  readonly topic: string
  readonly partition: number
  /** Oldest first. */
  readonly batches: Batch[] = []
  /** -1: none is known. */
  leader = -1
  /** Stands in its sink's line already. */
  queued = false
  /** The oldest that isn't under way is being compressed. */
  compressing = false
  /** When `next` gives nothing because it is too early: when it may give something; else Infinity. */
  wakeAt = Infinity
  /** The epoch ran out: a new producer id is needed. */
  exhausted = false
  readonly #rules: QueueRules
  #inFlight = 0
  /** The broker that has what is under way. */
  #inFlightNode = -1
  /** The broker misses something before the first batch. */
  #gap = false
  #notBefore = -Infinity
  #failures = 0
  /** What it last took from the producer; its own epoch may be ahead of that. */
  #identity: Identity | null = null
  #epoch = -1
  #sequence = 0
  /** The producer id of which the broker has state. */
  #confirmed = -1n
  #confirmedAt = -Infinity
  /** Counts the batches that were given sequences. */
  #ordinal = 0

  constructor(topic: string, partition: number, rules: QueueRules) {
    this.topic = topic
    this.partition = partition
    this.#rules = rules
  }

  get inFlight(): number {
    return this.#inFlight
  }

  /** There is another leader than the one that was sent to last. */
  get hasMoved(): boolean {
    return this.leader >= 0 && this.leader !== this.#inFlightNode
  }

  /** The batch that takes records, if there is one. */
  get open(): Batch | undefined {
    const last = this.batches[this.batches.length - 1]
    return last === undefined || last.closed ? undefined : last
  }

  add(batch: Batch): void {
    this.batches.push(batch)
  }

  /** The batch that may be sent to the leader now; undefined when there is none. `identity` is the producer's. */
  next(now: number, identity: Identity | null): Batch | undefined {
    this.wakeAt = Infinity
    if (this.leader < 0 || this.compressing || this.#inFlight >= this.#rules.maxInFlight) return
    if (this.#inFlight > 0 && (this.#gap || this.#inFlightNode !== this.leader)) return
    const at = this.#firstAtRest()
    const batch = this.batches[at]
    if (batch === undefined || (at > 0 && batch.attempts > 0)) return
    if (at > 0 && this.#rules.idempotent) {
      if (this.#identity !== identity || this.#confirmed !== identity?.producerId) return
      const oldest = this.batches[0] ?? batch
      if (oldest.openedAt - this.#confirmedAt > sureOfStateMs) return
      if (this.#ordinal - oldest.ordinal >= remembered) return
    }
    if (now < this.#notBefore) {
      this.wakeAt = this.#notBefore
      return
    }
    if (this.#gap) this.#closeGap()
    return this.exhausted && this.#identity === identity ? undefined : batch
  }

  /** `batch`, which `next` gave, goes to the leader. What to write into it; null when its bytes are right. */
  take(batch: Batch, identity: Identity | null): ProducerStamp | null {
    batch.closed = true
    batch.inFlight = true
    batch.attempts++
    this.#inFlight++
    this.#inFlightNode = this.leader
    if (!this.#rules.idempotent || identity === null) return null
    if (batch.sequence < 0) {
      if (this.#identity !== identity) this.#adopt(identity)
      batch.ordinal = this.#ordinal++
      batch.sequence = this.#sequence
      batch.stamped = false
      this.#sequence = (this.#sequence + batch.recordCount) % sequences
    }
    if (batch.stamped) return null
    batch.stamped = true
    const { producerId } = this.#identity ?? identity
    return { producerId, producerEpoch: this.#epoch, baseSequence: batch.sequence }
  }

  /** Its request has ended, in whatever way. */
  ended(batch: Batch): void {
    assert(batch.inFlight, 'only what is under way ends')
    batch.inFlight = false
    this.#inFlight--
  }

  /** It is in the log. */
  done(batch: Batch): void {
    this.#failures = 0
    this.#notBefore = -Infinity
    if (batch.sequence >= 0 && this.#identity !== null) {
      this.#confirmed = this.#identity.producerId
      this.#confirmedAt = batch.openedAt
    }
    this.drop(batch)
  }

  /** It isn't tried again. Its sequence numbers, if it had some, are not used again. */
  drop(batch: Batch): void {
    const at = this.batches.indexOf(batch)
    assert(at >= 0 && !batch.inFlight, 'what is dropped is in the queue and not under way')
    if (at === 0) this.batches.shift()
    else this.batches.splice(at, 1)
  }

  /** Two halves take the place of a batch and its sequence numbers. */
  split(batch: Batch, halves: readonly [Batch, Batch]): void {
    const at = this.batches.indexOf(batch)
    assert(at >= 0 && !batch.inFlight, 'what is split is in the queue and not under way')
    const [first, second] = halves
    // As if they had been sent: each goes alone, in order.
    for (const half of halves) {
      half.attempts = 1
      half.ordinal = batch.ordinal
    }
    first.sequence = batch.sequence
    second.sequence = batch.sequence < 0 ? -1 : (batch.sequence + first.recordCount) % sequences
    this.batches.splice(at, 1, first, second)
  }

  /** It was refused as out of order. True: there is a gap, as nothing before it is open. */
  outOfOrder(batch: Batch): boolean {
    if (this.batches[0] !== batch) return false
    this.#gap = true
    return true
  }

  /** How often something failed in a row, counting this time; how long to wait is the caller's to say. */
  failed(): number {
    return ++this.#failures
  }

  /** Nothing is sent before. */
  waitUntil(at: number): void {
    this.#notBefore = at
  }

  /** There is a new leader, say: no reason to wait any more. */
  hurry(): void {
    this.#notBefore = -Infinity
  }

  #firstAtRest(): number {
    const { batches } = this
    let at = 0
    while (at < batches.length && batches[at]?.inFlight === true) at++
    return at
  }

  #closeGap(): void {
    this.#gap = false
    if (this.#epoch >= lastEpoch) this.exhausted = true
    else this.#epoch++
    this.#restart()
  }

  #adopt(identity: Identity): void {
    this.#identity = identity
    this.#epoch = identity.epoch
    this.exhausted = false
    this.#restart()
  }

  #restart(): void {
    this.#sequence = 0
    for (const batch of this.batches) if (!batch.inFlight) batch.sequence = -1
  }
}
