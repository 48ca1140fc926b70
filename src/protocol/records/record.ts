/**
 * Records, read where they lie. A cursor walks the payload of a batch and checks every length; a record is
 * made from where the cursor stands and holds only small numbers and its batch's `RecordSource`. Key, value
 * and headers are cut out of the payload when somebody asks, each time anew: keep what you use in a variable.
 *
 * One object per record, whatever a consumer adds: it subclasses `RecordSource` for what all records of a
 * batch share (its serdes, its playhead), and `RecordView` for what it shows of it:
 *
 *   class ConsumerRecord<K, V> extends RecordView<ConsumerSource<K, V>> {
 *     get value(): V { return this.source.decodeValue(this.valueBytes()) }
 *   }
 *   const cursor = new RecordCursor(source, position)
 *   while (cursor.advance()) deliver(new ConsumerRecord(source, cursor))
 */
import { RecordCursor } from './cursor.ts'
import type { RecordSource } from './source.ts'

/** A header as it was sent: the same key may come twice, and null is not empty. */
export interface Header {
  readonly key: string
  readonly value: Buffer | null
}

/** One record, without a say in what its key and value are: `RawRecord` shows the bytes. */
export class RecordView<Source extends RecordSource = RecordSource> {
  protected readonly source: Source
  private readonly offsetDelta: number
  private readonly timestampDelta: number
  private readonly keyStart: number
  private readonly keyLength: number
  private readonly valueStart: number
  private readonly valueLength: number

  /** The record under `cursor`, which walks the payload of `source`. */
  constructor(source: Source, cursor: RecordCursor) {
    this.source = source
    this.offsetDelta = cursor.offsetDelta
    this.timestampDelta = cursor.timestampDelta
    this.keyStart = cursor.keyStart
    this.keyLength = cursor.keyLength
    this.valueStart = cursor.valueStart
    this.valueLength = cursor.valueLength
  }

  get topic(): string {
    return this.source.topic
  }

  get partition(): number {
    return this.source.partition
  }

  get offset(): number {
    return this.source.baseOffset + this.offsetDelta
  }

  /** Milliseconds since 1970, by the producer's clock or the broker's; -1 when there is none. */
  get timestamp(): number {
    return this.source.baseTimestamp + this.timestampDelta
  }

  /** The epoch of the leader that appended the batch; -1 when unknown. */
  get leaderEpoch(): number {
    return this.source.leaderEpoch
  }

  /** In the order in which they were sent, duplicates and all. */
  get headers(): readonly Header[] {
    const start = this.valueStart + Math.max(0, this.valueLength)
    return this.source.payload[start] === 0 ? NO_HEADERS : readHeaders(this.source.payload, start)
  }

  protected keyBytes(): Buffer | null {
    const { keyStart, keyLength } = this
    return keyLength < 0 ? null : this.source.payload.subarray(keyStart, keyStart + keyLength)
  }

  protected valueBytes(): Buffer | null {
    const { valueStart, valueLength } = this
    return valueLength < 0
      ? null
      : this.source.payload.subarray(valueStart, valueStart + valueLength)
  }
}

/** A record whose key and value are the bytes that were sent; null and empty differ. */
export class RawRecord<Source extends RecordSource = RecordSource> extends RecordView<Source> {
  get key(): Buffer | null {
    return this.keyBytes()
  }

  get value(): Buffer | null {
    return this.valueBytes()
  }
}

/** All records of `source` from `fromOffset` on. Throws CORRUPT_RECORDS where the bytes are not records. */
export function* rawRecords(
  source: RecordSource,
  fromOffset = 0
): Generator<RawRecord, void, undefined> {
  const cursor = new RecordCursor(source, fromOffset)
  while (cursor.advance()) yield new RawRecord(source, cursor)
}

const NO_HEADERS: readonly Header[] = Object.freeze([])

/** The headers whose count stands at `start` of a payload that a cursor has checked. */
function readHeaders(payload: Buffer, start: number): readonly Header[] {
  let at = start
  const varint = (): number => {
    let value = 0
    for (let shift = 0; ; shift += 7) {
      const byte = payload[at++] ?? 0
      value |= (byte & 0x7f) << shift
      if (byte < 0x80) return (value >>> 1) ^ -(value & 1)
    }
  }
  const count = varint()
  const headers: Header[] = []
  for (let index = 0; index < count; index += 1) {
    const keyLength = varint()
    const key = payload.toString('utf8', at, at + keyLength)
    at += keyLength
    const valueLength = varint()
    const value = valueLength < 0 ? null : payload.subarray(at, at + valueLength)
    if (valueLength > 0) at += valueLength
    headers.push({ key, value })
  }
  return headers
}
