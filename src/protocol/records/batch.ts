/**
 * Record batches as they lie in a Fetch answer, a Produce request or a log: a view over the bytes, nothing
 * copied, nothing decoded but the header fields that say where the batch ends.
 *
 *   const batches = new BatchReader(partition.records)
 *   for (let batch = batches.next(); batch !== undefined; batch = batches.next()) {
 *     batch.verify(cpu)
 *     const payload = batch.compression === 'none' ? batch.payload : await batch.decompress(cpu, maxBytes)
 *     const source = new RecordSource(batch, payload, topic, partition)
 *     for (const record of new RecordIterator(source, RawRecord, fromOffset)) deliver(record)      // record.ts
 *   }
 *   if (nothing came) fetch again with batches.neededBytes
 *
 * A view keeps the whole buffer it was cut from alive.
 */
import type { Compression, Cpu } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import {
  at,
  attribute,
  compressions,
  corrupt,
  HEADER_BYTES,
  LENGTH_OVERHEAD,
  MIN_RECORD_BYTES,
  safeInt64
} from './layout.ts'

export type TimestampType = 'CreateTime' | 'LogAppendTime'

/**
 * One complete batch. Made by `BatchReader`, which has checked that its length, magic, compression and counts
 * agree with each other and with the bytes; the checksum only `verify` looks at.
 */
export class BatchView {
  /** The whole batch, header and all, as it came. */
  readonly bytes: Buffer
  readonly baseOffset: number
  /** The offset of the last record the batch was written with; compaction may have removed that record. */
  readonly lastOffset: number
  readonly attributes: number
  /** Records that are in the batch now. 0 for one that compaction emptied. */
  readonly recordCount: number

  constructor(bytes: Buffer, baseOffset: number, attributes: number) {
    const lastOffsetDelta = bytes.readInt32BE(at.lastOffsetDelta)
    this.bytes = bytes
    this.baseOffset = baseOffset
    this.lastOffset = baseOffset + lastOffsetDelta
    this.attributes = attributes
    this.recordCount = bytes.readInt32BE(at.recordCount)
  }

  /** The offset to fetch after this batch. */
  get nextOffset(): number {
    return this.lastOffset + 1
  }

  get sizeBytes(): number {
    return this.bytes.length
  }

  /** -1 when unknown. */
  get leaderEpoch(): number {
    return this.bytes.readInt32BE(at.leaderEpoch)
  }

  get magic(): number {
    return this.bytes.readInt8(at.magic)
  }

  get crc(): number {
    return this.bytes.readUInt32BE(at.crc)
  }

  get compression(): Compression {
    return compressions[this.attributes & attribute.compressionMask] ?? 'none'
  }

  get timestampType(): TimestampType {
    return (this.attributes & attribute.logAppendTime) !== 0 ? 'LogAppendTime' : 'CreateTime'
  }

  get isTransactional(): boolean {
    return (this.attributes & attribute.transactional) !== 0
  }

  /** It holds a transaction marker, not records for an application. */
  get isControl(): boolean {
    return (this.attributes & attribute.control) !== 0
  }

  /** `baseTimestamp` is the time at which a tombstone or marker may go (KIP-534). */
  get hasDeleteHorizon(): boolean {
    return (this.attributes & attribute.deleteHorizon) !== 0
  }

  /** Milliseconds; records count theirs from it. Throws CORRUPT_RECORDS beyond the safe integers. */
  get baseTimestamp(): number {
    return safeInt64(this.bytes, at.baseTimestamp, this.baseOffset, 'baseTimestamp')
  }

  /** Milliseconds; -1 when unknown. Throws CORRUPT_RECORDS beyond the safe integers. */
  get maxTimestamp(): number {
    return safeInt64(this.bytes, at.maxTimestamp, this.baseOffset, 'maxTimestamp')
  }

  /** -1n without idempotence. */
  get producerId(): bigint {
    return this.bytes.readBigInt64BE(at.producerId)
  }

  get producerEpoch(): number {
    return this.bytes.readInt16BE(at.producerEpoch)
  }

  get baseSequence(): number {
    return this.bytes.readInt32BE(at.baseSequence)
  }

  /** The bytes behind the header: the records, or their compressed form. */
  get payload(): Buffer {
    return this.bytes.subarray(HEADER_BYTES)
  }

  /** Whether the checksum is that of the bytes. */
  isIntact(cpu: Pick<Cpu, 'crc32c'>): boolean {
    return cpu.crc32c(this.bytes.subarray(at.attributes)) === this.crc
  }

  /** Throws CORRUPT_RECORDS unless the checksum is that of the bytes. */
  verify(cpu: Pick<Cpu, 'crc32c'>): void {
    const actual = cpu.crc32c(this.bytes.subarray(at.attributes))
    if (actual !== this.crc) {
      throw corrupt(
        this.baseOffset,
        `its checksum is ${hex(actual)}, the header says ${hex(this.crc)}`
      )
    }
  }

  /**
   * The records' bytes, whatever the compression. Rejects with DECOMPRESSION_FAILED when they are damaged or
   * grow beyond `maxBytes` (or 1,000 : 1), with UNSUPPORTED_COMPRESSION when this Node has no library for it,
   * and with CORRUPT_RECORDS when `recordCount` records cannot be in them.
   */
  decompress(cpu: Pick<Cpu, 'decompress'>, maxBytes: number): Promise<Buffer> {
    const { baseOffset, recordCount, payload } = this
    const compression = recordCount === 0 && payload.length === 0 ? 'none' : this.compression
    return cpu.decompress(compression, payload, maxBytes).then(
      bytes => {
        checkCount(recordCount, bytes.length, baseOffset)
        return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      },
      (error: unknown) => {
        if (!(error instanceof PlayheadError)) throw error
        const message = `record batch at offset ${baseOffset}: ${error.message}`
        throw new PlayheadError(error.code, message, { cause: error })
      }
    )
  }
}

/** Walks the batches in a buffer. The last may be cut off: a broker sends as many bytes as were asked for. */
export class BatchReader implements Iterable<BatchView> {
  readonly #bytes: Buffer
  #at = 0

  /** `records` as in a Fetch answer: null is empty. */
  constructor(records: Buffer | null) {
    this.#bytes = records ?? EMPTY
  }

  /**
   * The next complete batch; undefined at the end, or when what is left is a part of one. Throws
   * CORRUPT_RECORDS, again at each call, when the bytes cannot be a batch.
   */
  next(): BatchView | undefined {
    const bytes = this.#bytes
    const start = this.#at
    const left = bytes.length - start
    if (left <= at.magic) return undefined
    const baseOffset = safeInt64(bytes, start, 0, 'its offset')
    const length = bytes.readInt32BE(start + at.length)
    checkFraming(baseOffset, length, bytes.readInt8(start + at.magic))
    if (left < LENGTH_OVERHEAD + length) return undefined
    const end = start + LENGTH_OVERHEAD + length
    const batch = open(bytes.subarray(start, end), baseOffset)
    this.#at = end
    return batch
  }

  /** Bytes not yet walked; when `next` has given undefined, those of the cut-off batch. */
  get remainingBytes(): number {
    return this.#bytes.length - this.#at
  }

  /** How large the batch in front is in whole, as far as can be seen; 0 when nothing is left. */
  get neededBytes(): number {
    const left = this.remainingBytes
    if (left === 0) return 0
    if (left < LENGTH_OVERHEAD) return HEADER_BYTES
    return LENGTH_OVERHEAD + Math.max(0, this.#bytes.readInt32BE(this.#at + at.length))
  }

  *[Symbol.iterator](): Generator<BatchView, void, undefined> {
    for (let batch = this.next(); batch !== undefined; batch = this.next()) yield batch
  }
}

const EMPTY = Buffer.alloc(0)

/** The only batch in `bytes`, as a log or a Produce request of one batch holds it. Throws CORRUPT_RECORDS. */
export function onlyBatch(bytes: Buffer): BatchView {
  const batches = new BatchReader(bytes)
  const batch = batches.next()
  if (batch === undefined) throw corrupt('?', `it is cut off at ${bytes.length} bytes`)
  if (batches.remainingBytes > 0) {
    throw corrupt(
      batch.baseOffset,
      `${batches.remainingBytes} bytes follow where one batch was due`
    )
  }
  return batch
}

function checkFraming(baseOffset: number, length: number, magic: number): void {
  if (magic === 0 || magic === 1) {
    const message = `message format v${magic} (Kafka before 0.11) is not supported`
    throw corrupt(baseOffset, message)
  }
  if (magic !== 2) throw corrupt(baseOffset, `magic ${magic} is unknown`)
  if (baseOffset < 0) throw corrupt(baseOffset, 'the offset is negative')
  if (length < HEADER_BYTES - LENGTH_OVERHEAD) {
    throw corrupt(baseOffset, `length ${length} is shorter than a batch's header`)
  }
}

function open(bytes: Buffer, baseOffset: number): BatchView {
  const attributes = bytes.readUInt16BE(at.attributes)
  const batch = new BatchView(bytes, baseOffset, attributes)
  const { lastOffset, recordCount } = batch
  if (lastOffset < baseOffset || !Number.isSafeInteger(lastOffset)) {
    throw corrupt(
      baseOffset,
      `last offset ${lastOffset} is not at or after the first, or beyond 2^53`
    )
  }
  if ((attributes & attribute.compressionMask) >= compressions.length) {
    throw corrupt(baseOffset, `compression ${attributes & attribute.compressionMask} is unknown`)
  }
  if (recordCount < 0 || recordCount > lastOffset - baseOffset + 1) {
    throw corrupt(baseOffset, `${recordCount} records in offsets ${baseOffset} to ${lastOffset}`)
  }
  if ((attributes & attribute.compressionMask) === 0) {
    checkCount(recordCount, bytes.length - HEADER_BYTES, baseOffset)
  }
  return batch
}

function checkCount(recordCount: number, payloadBytes: number, baseOffset: number): void {
  if (recordCount * MIN_RECORD_BYTES > payloadBytes) {
    throw corrupt(baseOffset, `${recordCount} records cannot be in ${payloadBytes} bytes`)
  }
}

const hex = (crc: number): string => `0x${crc.toString(16).padStart(8, '0')}`
