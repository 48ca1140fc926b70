/**
 * What one partition knows of the producers that write to it: enough to tell a retry from a new batch, a gap from
 * a sequence, an old producer from its successor; and which transactions are open in it.
 * (ProducerAppendInfo.java, ProducerStateEntry.java; KIP-98, KIP-890)
 *
 * An entry is stored in the transaction that stores its batch (invariant D6).
 */
import type { Changes, Store } from '../base/store.ts'
import { KafkaError } from '../protocol/errors.ts'
import type { BatchView } from '../protocol/records/batch.ts'
import { afterAll, partitionKey, spaces } from './keys.ts'
import { StoredProducer, readStored, writeStored } from './stored.ts'

/** Batches of a producer that are remembered: it has at most five requests on their way. */
const batchesKept = 5

export interface AppendedBatch {
  readonly firstSequence: number
  readonly lastSequence: number
  readonly baseOffset: number
  readonly timestamp: number
}

export interface ProducerState {
  readonly epoch: number
  readonly coordinatorEpoch: number
  readonly lastTimestamp: number
  /** -1: it has no transaction open here. */
  readonly transactionFirstOffset: number
  /** Of this epoch, the oldest first. */
  readonly batches: readonly AppendedBatch[]
}

export type Verdict =
  | { readonly is: 'new' }
  | { readonly is: 'duplicate'; readonly of: AppendedBatch }
  | { readonly is: 'wrong'; readonly error: number }

const accepted: Verdict = { is: 'new' }

export class Producers {
  readonly #prefix: Buffer
  readonly #states = new Map<bigint, ProducerState>()
  /** First offsets of open transactions, the lowest first: they are opened in the order of the log. */
  readonly #open = new Map<bigint, number>()

  constructor(store: Store, topicId: string, partition: number) {
    this.#prefix = partitionKey(spaces.producer, topicId, partition)
    for (const { key, value } of store.range({ from: this.#prefix, to: afterAll(this.#prefix) })) {
      const id = key.readBigInt64BE(this.#prefix.length)
      this.#states.set(id, readStored(StoredProducer, value))
    }
    const open = [...this.#states].map(([id, state]) => [id, state.transactionFirstOffset] as const)
    open.sort((a, b) => a[1] - b[1])
    for (const [id, offset] of open) if (offset >= 0) this.#open.set(id, offset)
  }

  get(producerId: bigint): ProducerState | undefined {
    return this.#states.get(producerId)
  }

  entries(): Iterable<[bigint, ProducerState]> {
    return this.#states
  }

  /** First offset of the oldest open transaction; Infinity: none is open. */
  get firstOpenOffset(): number {
    for (const offset of this.#open.values()) return offset
    return Infinity
  }

  /** Judges a batch of a client. */
  check(batch: BatchView): Verdict {
    const { producerId, producerEpoch: epoch, baseSequence } = batch
    if (producerId < 0n) return accepted
    const state = this.#states.get(producerId)
    if (state === undefined) return accepted
    if (epoch < state.epoch) return { is: 'wrong', error: KafkaError.INVALID_PRODUCER_EPOCH }
    if (epoch > state.epoch) {
      const outOfOrder = baseSequence !== 0
      if (outOfOrder) return { is: 'wrong', error: KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER }
      return this.#transaction(state, batch)
    }
    const last = lastSequence(batch)
    const same = state.batches.find(
      b => b.firstSequence === baseSequence && b.lastSequence === last
    )
    if (same !== undefined) return { is: 'duplicate', of: same }
    const before = state.batches.at(-1)?.lastSequence ?? -1
    if (baseSequence !== after(before)) {
      return { is: 'wrong', error: KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER }
    }
    return this.#transaction(state, batch)
  }

  #transaction(state: ProducerState, batch: BatchView): Verdict {
    const stray = state.transactionFirstOffset >= 0 && !batch.isTransactional
    return stray ? { is: 'wrong', error: KafkaError.INVALID_TXN_STATE } : accepted
  }

  /** Takes note of a batch that was found 'new' and got its offset. */
  appended(batch: BatchView, baseOffset: number, changes: Changes): void {
    const { producerId, producerEpoch: epoch } = batch
    if (producerId < 0n) return
    const state = this.#states.get(producerId)
    const newest = {
      firstSequence: batch.baseSequence,
      lastSequence: lastSequence(batch),
      baseOffset,
      timestamp: batch.maxTimestamp
    }
    const older = state?.epoch === epoch ? state.batches.slice(1 - batchesKept) : []
    const open = state?.transactionFirstOffset ?? -1
    this.#set(changes, producerId, {
      epoch,
      coordinatorEpoch: state?.coordinatorEpoch ?? -1,
      lastTimestamp: batch.maxTimestamp,
      transactionFirstOffset: open < 0 && batch.isTransactional ? baseOffset : open,
      batches: [...older, newest]
    })
  }

  /** A marker ends the transaction; returns its first offset, -1 when none was open here. */
  ended(producerId: bigint, epoch: number, timestamp: number, changes: Changes): number {
    const state = this.#states.get(producerId)
    this.#set(changes, producerId, {
      epoch,
      coordinatorEpoch: 0,
      lastTimestamp: timestamp,
      transactionFirstOffset: -1,
      batches: state !== undefined && state.epoch === epoch ? state.batches : []
    })
    return state?.transactionFirstOffset ?? -1
  }

  /** Forgets who has not written since `timestamp` and has nothing open. */
  expire(timestamp: number, changes: Changes): void {
    for (const [id, state] of this.#states) {
      if (state.lastTimestamp >= timestamp || state.transactionFirstOffset >= 0) continue
      this.#states.delete(id)
      changes.delete(this.#key(id))
    }
  }

  #set(changes: Changes, producerId: bigint, state: ProducerState): void {
    this.#states.set(producerId, state)
    if (state.transactionFirstOffset < 0) this.#open.delete(producerId)
    else if (!this.#open.has(producerId)) this.#open.set(producerId, state.transactionFirstOffset)
    changes.put(this.#key(producerId), writeStored(StoredProducer, state))
  }

  #key(producerId: bigint): Buffer {
    const key = Buffer.alloc(this.#prefix.length + 8)
    this.#prefix.copy(key)
    key.writeBigInt64BE(producerId, this.#prefix.length)
    return key
  }
}

const lastOfAll = 0x7fffffff

/** Sequences wrap to 0 after 2^31 - 1. */
function after(sequence: number): number {
  return sequence === lastOfAll ? 0 : sequence + 1
}

function lastSequence(batch: BatchView): number {
  return (batch.baseSequence + batch.lastOffset - batch.baseOffset) % (lastOfAll + 1)
}
