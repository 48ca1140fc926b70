/**
 * Encoding: records go straight into the bytes of the batch when they are appended; no object of theirs is
 * kept. The header is written by `close`, which knows the producer's sequence.
 *
 * Who owns the bytes: the builder, until `close`. Then the `EncodedBatch`, alone: the builder forgets the
 * buffer and starts its next batch in another. `EncodedBatch.release` gives the buffer to the pool for some
 * later batch, so it is called only when no network can still have it: the request is answered for good, or
 * its connection destroyed (invariant P8). Never to call it is safe, and costs an allocation.
 */
import { assert } from '../../base/assert.ts'
import type { Compression, Cpu } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { at, attribute, compressions, HEADER_BYTES, LENGTH_OVERHEAD, writeInt64 } from './layout.ts'
import { BufferPool } from './pool.ts'
import {
  type Bytes,
  bytesLength,
  putBytes,
  putVarint,
  putVarlong,
  varintSize,
  varlongSize
} from './write.ts'

export interface HeaderInput {
  readonly key: string
  readonly value?: Bytes
}

/** What `close` writes beside what the records say. The defaults are those of a plain producer. */
export interface BatchHeader {
  /** Default -1n: not idempotent. */
  readonly producerId?: bigint | undefined
  readonly producerEpoch?: number | undefined
  readonly baseSequence?: number | undefined
  readonly transactional?: boolean | undefined
  readonly control?: boolean | undefined
  /** Default 0; the broker sets its own. */
  readonly baseOffset?: number | undefined
  /** Default -1; the broker sets its own. */
  readonly leaderEpoch?: number | undefined
}

/** A finished batch, owner of its bytes. */
export class EncodedBatch {
  readonly bytes: Buffer
  readonly recordCount: number
  #pool: BufferPool | undefined
  readonly #buffer: Buffer

  constructor(
    buffer: Buffer,
    sizeBytes: number,
    recordCount: number,
    pool: BufferPool | undefined
  ) {
    this.bytes = buffer.subarray(0, sizeBytes)
    this.recordCount = recordCount
    this.#buffer = buffer
    this.#pool = pool
  }

  /** Lets `bytes` be written over. Once, and only when nobody can still send or read them. */
  release(): void {
    this.#pool?.give(this.#buffer)
    this.#pool = undefined
  }
}

export interface BatchBuilderOptions {
  /** `append` refuses what would make the batch larger, header included and before compression. */
  readonly maxBytes: number
  /** Where buffers come from and go to; shared by builders. Default: none are used again. */
  readonly pool?: BufferPool | undefined
}

const NO_POOL = new BufferPool(0)
const FIRST_BYTES = 1024
const MAX_RECORD_COUNT = 2 ** 31 - 1
const NO_HEADERS: readonly HeaderInput[] = []

/** One batch after another. */
export class BatchBuilder {
  readonly #maxBytes: number
  readonly #pool: BufferPool
  #buffer: Buffer | undefined
  #end: number = HEADER_BYTES
  #recordCount = 0
  #baseTimestamp = 0
  #maxTimestamp = 0

  constructor(options: BatchBuilderOptions) {
    this.#maxBytes = options.maxBytes
    this.#pool = options.pool ?? NO_POOL
  }

  get recordCount(): number {
    return this.#recordCount
  }

  /** Bytes of the batch so far, header included and before compression. */
  get sizeBytes(): number {
    return this.#end
  }

  get isEmpty(): boolean {
    return this.#recordCount === 0
  }

  /**
   * Adds a record; false, with nothing changed, when it does not fit. An empty builder takes a record of any
   * size: whether that is too large is the caller's to say (`recordSize`).
   *
   * `timestamp` in milliseconds. Throws INVALID_ARGUMENT when it is no safe integer.
   */
  append(
    timestamp: number,
    key: Bytes,
    value: Bytes,
    headers: readonly HeaderInput[] = NO_HEADERS
  ): boolean {
    if (!Number.isSafeInteger(timestamp)) {
      throw new PlayheadError('INVALID_ARGUMENT', `timestamp ${timestamp} is not a safe integer`)
    }
    const count = this.#recordCount
    const timestampDelta = count === 0 ? 0 : timestamp - this.#baseTimestamp
    if (!Number.isSafeInteger(timestampDelta)) {
      const message = `timestamp ${timestamp} is too far from ${this.#baseTimestamp}, the batch's first`
      throw new PlayheadError('INVALID_ARGUMENT', message)
    }
    const keyLength = bytesLength(key)
    const valueLength = bytesLength(value)
    const bodyLength =
      1 +
      varlongSize(timestampDelta) +
      varintSize(count) +
      varintSize(keyLength) +
      (keyLength > 0 ? keyLength : 0) +
      varintSize(valueLength) +
      (valueLength > 0 ? valueLength : 0) +
      (headers.length === 0 ? 1 : headersSize(headers))
    const end = this.#end + varintSize(bodyLength) + bodyLength
    if (count > 0 && (end > this.#maxBytes || count === MAX_RECORD_COUNT)) return false
    let buffer = this.#buffer
    if (buffer === undefined || end > buffer.length) buffer = this.#grow(end)

    let position = putVarint(buffer, this.#end, bodyLength)
    buffer[position] = 0
    position = putVarlong(buffer, position + 1, timestampDelta)
    position = putVarint(buffer, position, count)
    position = putBytes(buffer, position, key, keyLength)
    position = putBytes(buffer, position, value, valueLength)
    if (headers.length === 0) buffer[position++] = 0
    else position = putHeaders(buffer, position, headers)
    assert(position === end, 'a record takes the bytes that were reckoned')

    if (count === 0) {
      this.#baseTimestamp = timestamp
      this.#maxTimestamp = timestamp
    } else if (timestamp > this.#maxTimestamp) this.#maxTimestamp = timestamp
    this.#recordCount = count + 1
    this.#end = end
    return true
  }

  /** Finishes the batch as it is, without compression; the builder is empty again. */
  close(header: BatchHeader, cpu: Pick<Cpu, 'crc32c'>): EncodedBatch {
    const draft = this.#detach()
    return finish(draft, draft.buffer, draft.sizeBytes, header, 'none', this.#pool, cpu)
  }

  /**
   * Finishes the batch and compresses it; the builder is empty again at once, and takes records of the next
   * batch while this one is compressed. `level` as the compression's own library counts it.
   */
  closeCompressed(
    header: BatchHeader,
    compression: Compression,
    cpu: Pick<Cpu, 'crc32c' | 'compress'>,
    level?: number
  ): Promise<EncodedBatch> {
    const pool = this.#pool
    const draft = this.#detach()
    const records = draft.buffer.subarray(HEADER_BYTES, draft.sizeBytes)
    return cpu.compress(compression, records, level).then(packed => {
      const sizeBytes = HEADER_BYTES + packed.length
      const buffer = pool.take(sizeBytes)
      buffer.set(packed, HEADER_BYTES)
      // Only now: until here the compression may have read the records, from another thread.
      pool.give(draft.buffer)
      return finish(draft, buffer, sizeBytes, header, compression, pool, cpu)
    })
  }

  /** Forgets the records of a batch that is not to be sent. */
  discard(): void {
    if (this.#buffer !== undefined) this.#pool.give(this.#buffer)
    this.#reset()
  }

  #detach(): Draft {
    const buffer = this.#buffer
    assert(buffer !== undefined && this.#recordCount > 0, 'a batch that is closed has records')
    const draft = {
      buffer,
      sizeBytes: this.#end,
      recordCount: this.#recordCount,
      baseTimestamp: this.#baseTimestamp,
      maxTimestamp: this.#maxTimestamp
    }
    this.#reset()
    return draft
  }

  #reset(): void {
    this.#buffer = undefined
    this.#end = HEADER_BYTES
    this.#recordCount = 0
  }

  #grow(neededBytes: number): Buffer {
    const old = this.#buffer
    const larger = this.#pool.take(
      Math.max(neededBytes, old === undefined ? FIRST_BYTES : old.length * 2)
    )
    if (old !== undefined) {
      old.copy(larger, HEADER_BYTES, HEADER_BYTES, this.#end)
      this.#pool.give(old)
    }
    this.#buffer = larger
    return larger
  }
}

/**
 * The size of a batch with this record alone, before compression: what a broker's `max.message.bytes` is
 * held against.
 */
export function singleRecordSize(
  key: Bytes,
  value: Bytes,
  headers: readonly HeaderInput[] = []
): number {
  const keyLength = bytesLength(key)
  const valueLength = bytesLength(value)
  const body =
    3 +
    varintSize(keyLength) +
    Math.max(0, keyLength) +
    varintSize(valueLength) +
    Math.max(0, valueLength) +
    headersSize(headers)
  return HEADER_BYTES + varintSize(body) + body
}

interface Draft {
  readonly buffer: Buffer
  readonly sizeBytes: number
  readonly recordCount: number
  readonly baseTimestamp: number
  readonly maxTimestamp: number
}

function finish(
  draft: Draft,
  buffer: Buffer,
  sizeBytes: number,
  header: BatchHeader,
  compression: Compression,
  pool: BufferPool,
  cpu: Pick<Cpu, 'crc32c'>
): EncodedBatch {
  const flags =
    compressions.indexOf(compression) |
    (header.transactional === true ? attribute.transactional : 0) |
    (header.control === true ? attribute.control : 0)
  writeInt64(buffer, header.baseOffset ?? 0, at.baseOffset)
  buffer.writeInt32BE(sizeBytes - LENGTH_OVERHEAD, at.length)
  buffer.writeInt32BE(header.leaderEpoch ?? -1, at.leaderEpoch)
  buffer.writeInt8(2, at.magic)
  buffer.writeInt16BE(flags, at.attributes)
  buffer.writeInt32BE(draft.recordCount - 1, at.lastOffsetDelta)
  writeInt64(buffer, draft.baseTimestamp, at.baseTimestamp)
  writeInt64(buffer, draft.maxTimestamp, at.maxTimestamp)
  buffer.writeBigInt64BE(header.producerId ?? -1n, at.producerId)
  buffer.writeInt16BE(header.producerEpoch ?? -1, at.producerEpoch)
  buffer.writeInt32BE(header.baseSequence ?? -1, at.baseSequence)
  buffer.writeInt32BE(draft.recordCount, at.recordCount)
  buffer.writeUInt32BE(cpu.crc32c(buffer.subarray(at.attributes, sizeBytes)), at.crc)
  return new EncodedBatch(buffer, sizeBytes, draft.recordCount, pool)
}

function headersSize(headers: readonly HeaderInput[]): number {
  let size = varintSize(headers.length)
  for (const header of headers) {
    const keyLength = bytesLength(header.key)
    const valueLength = bytesLength(header.value)
    size += varintSize(keyLength) + keyLength
    size += varintSize(valueLength) + (valueLength > 0 ? valueLength : 0)
  }
  return size
}

function putHeaders(buffer: Buffer, start: number, headers: readonly HeaderInput[]): number {
  let position = putVarint(buffer, start, headers.length)
  for (const { key, value } of headers) {
    position = putBytes(buffer, position, key, bytesLength(key))
    position = putBytes(buffer, position, value, bytesLength(value))
  }
  return position
}
