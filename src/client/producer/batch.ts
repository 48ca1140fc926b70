/**
 * A batch on its way: its bytes, who waits for it, and what is known of its fate. Records are encoded straight
 * into its builder; what is kept of a record is who sent it and its index.
 *
 * Its life: open (takes records) → closed → under way ⇄ waiting to be tried again → settled, exactly once.
 * One that its deadline settles while it is under way stays in its queue until its request has ended.
 */
import type { Cpu } from '../../base/env.ts'
import type { PlayheadError } from '../../base/error.ts'
import {
  BatchBuilder,
  type EncodedBatch,
  type HeaderInput
} from '../../protocol/records/builder.ts'
import type { BufferPool } from '../../protocol/records/pool.ts'
import { type ProducerStamp, stampProducer } from '../../protocol/records/stamp.ts'
import type { BytesInput } from './record.ts'

/** Who waits for records of a batch: told once for each time that it was added. */
export interface Receipt {
  settled(batch: Batch): void
}

export class Batch {
  readonly topic: string
  readonly partition: number
  /** As of `clock.monotonic()`. */
  readonly openedAt: number
  /** The earliest of its records' deadlines. */
  deadline = Infinity
  /** Takes no more records. */
  closed = false
  recordCount = 0
  encoded: EncodedBatch | null = null
  /** Bytes it counts for in the producer's buffer. */
  sizeBytes = 0
  /** How often it was handed to the network. */
  attempts = 0
  inFlight = false
  /** Some attempt may have been appended although its answer was an error, or never came. */
  maybeWritten = false
  /** A request with its bytes has ended without an answer or a closed connection: the network may still read them. */
  tainted = false
  /** -1: none yet. */
  sequence = -1
  /** Its bytes have the sequence, and the producer's id and epoch. */
  stamped = false
  /** The how-manieth of its partition to be given a sequence. */
  ordinal = -1
  lastError: PlayheadError | null = null
  settled = false
  readonly #builder: BatchBuilder
  readonly #receipts: Receipt[] = []
  #error: PlayheadError | null = null
  #baseOffset = -1
  #appendTime = -1
  #halves: readonly [Batch, Batch] | null = null

  constructor(
    topic: string,
    partition: number,
    openedAt: number,
    bytes: { readonly maxBytes: number; readonly pool: BufferPool }
  ) {
    this.topic = topic
    this.partition = partition
    this.openedAt = openedAt
    this.#builder = new BatchBuilder(bytes)
  }

  /** The record's index, or -1 when it does not fit. */
  append(
    timestamp: number,
    key: BytesInput,
    value: BytesInput,
    headers: readonly HeaderInput[]
  ): number {
    if (!this.#builder.append(timestamp, key, value, headers)) return -1
    this.sizeBytes = this.#builder.sizeBytes
    return this.recordCount++
  }

  /** `settled` of the receipt will be called for this batch, once more. */
  addReceipt(receipt: Receipt): void {
    this.#receipts.push(receipt)
  }

  /** Writes the header, uncompressed. */
  seal(stamp: ProducerStamp | null, transactional: boolean, cpu: Pick<Cpu, 'crc32c'>): void {
    this.closed = true
    this.encoded = this.#builder.close({ ...stamp, transactional }, cpu)
  }

  /** Compresses; `encoded` is set when it resolves, without a producer's stamp. */
  async compress(
    compression: Parameters<Cpu['compress']>[0],
    level: number | undefined,
    transactional: boolean,
    cpu: Pick<Cpu, 'crc32c' | 'compress'>
  ): Promise<void> {
    this.closed = true
    this.encoded = await this.#builder.closeCompressed({ transactional }, compression, cpu, level)
  }

  /** Gives an encoded batch another producer id, epoch or sequence. It is not under way. */
  stamp(stamp: ProducerStamp, cpu: Pick<Cpu, 'crc32c'>): Uint8Array {
    const bytes = this.bytes()
    stampProducer(bytes, stamp, cpu)
    return bytes
  }

  /** What to send. A copy where the network may still read the original (invariant P8). */
  bytes(): Buffer {
    if (this.encoded === null) throw new TypeError('a batch is encoded before it is sent')
    if (this.tainted) {
      this.#copy ??= Buffer.from(this.encoded.bytes)
      return this.#copy
    }
    return this.encoded.bytes
  }
  #copy: Buffer | undefined

  succeed(baseOffset: number, appendTime: number): void {
    this.#baseOffset = baseOffset
    this.#appendTime = appendTime
    this.#settle()
  }

  fail(error: PlayheadError): void {
    if (this.settled) return
    this.#error = error
    this.#settle()
  }

  /** The broker found it too large: from now on these two stand for it. They were given its receipts' trust. */
  becomeHalves(halves: readonly [Batch, Batch]): void {
    this.#halves = halves
    let left = 2
    const receipt: Receipt = {
      settled: () => {
        if (--left === 0) this.#settle()
      }
    }
    for (const half of halves) half.addReceipt(receipt)
  }

  /** Null: it was written. */
  errorAt(index: number): PlayheadError | null {
    const half = this.#half(index)
    return half === null ? this.#error : half[0].errorAt(half[1])
  }

  offsetAt(index: number): number {
    const half = this.#half(index)
    if (half !== null) return half[0].offsetAt(half[1])
    return this.#baseOffset < 0 ? -1 : this.#baseOffset + index
  }

  /** The broker's time, where it replaces the records' own; else -1. */
  appendTimeAt(index: number): number {
    const half = this.#half(index)
    return half === null ? this.#appendTime : half[0].appendTimeAt(half[1])
  }

  /** Gives the bytes back; called when no request can have them any more. */
  release(): void {
    if (!this.tainted) this.encoded?.release()
    this.encoded = null
  }

  /** Forgets the records of a batch that was never encoded. */
  discard(): void {
    if (this.encoded === null) this.#builder.discard()
    else this.release()
  }

  #half(index: number): readonly [Batch, number] | null {
    if (this.#halves === null) return null
    const [first, second] = this.#halves
    return index < first.recordCount ? [first, index] : [second, index - first.recordCount]
  }

  #settle(): void {
    if (this.settled) return
    this.settled = true
    const receipts = this.#receipts
    for (let i = 0; i < receipts.length; i++) receipts[i]?.settled(this)
    receipts.length = 0
  }
}
