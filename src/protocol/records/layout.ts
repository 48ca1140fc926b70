/**
 * Where everything is in a record batch (magic 2), and the one error for bytes that do not fit it.
 *
 *   0 baseOffset int64 · 8 batchLength int32 (of what follows) · 12 partitionLeaderEpoch int32 · 16 magic int8
 *   17 crc uint32 (of what follows) · 21 attributes int16 · 23 lastOffsetDelta int32 · 27 baseTimestamp int64
 *   35 maxTimestamp int64 · 43 producerId int64 · 51 producerEpoch int16 · 53 baseSequence int32
 *   57 recordCount int32 · 61 the records, one after the other, compressed together or not at all
 *
 * baseOffset, length and leader epoch are outside the checksum, so that a broker can set them in place.
 * (Kafka's documentation, "Message Format"; KIP-98; attributes also KIP-534.)
 */
import type { Compression } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'

export const at = {
  baseOffset: 0,
  length: 8,
  leaderEpoch: 12,
  magic: 16,
  crc: 17,
  attributes: 21,
  lastOffsetDelta: 23,
  baseTimestamp: 27,
  maxTimestamp: 35,
  producerId: 43,
  producerEpoch: 51,
  baseSequence: 53,
  recordCount: 57,
  records: 61
} as const

/** Bytes of a batch before its first record. */
export const HEADER_BYTES = at.records
/** What `batchLength` does not count: baseOffset and itself. */
export const LENGTH_OVERHEAD = 12
/** The smallest record: six one-byte fields behind a one-byte length. */
export const MIN_RECORD_BYTES = 7

/** Bits of `attributes`; the lowest three are the compression. */
export const attribute = {
  compressionMask: 0x07,
  logAppendTime: 0x08,
  transactional: 0x10,
  control: 0x20,
  deleteHorizon: 0x40
} as const

/** Compressions by their code in `attributes`. */
export const compressions: readonly Compression[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd']

/** Bytes of a batch that cannot be: whoever knows topic and partition adds them. */
export function corrupt(offset: number | string, what: string): PlayheadError {
  return new PlayheadError('CORRUPT_RECORDS', `record batch at offset ${offset}: ${what}`)
}

/** An int64 as a number; `corrupt` when it is beyond the safe integers. */
export function safeInt64(bytes: Buffer, position: number, offset: number, name: string): number {
  const value = bytes.readInt32BE(position) * 0x1_0000_0000 + bytes.readUInt32BE(position + 4)
  if (!Number.isSafeInteger(value)) {
    throw corrupt(offset, `${name} ${bytes.readBigInt64BE(position)} is beyond 2^53`)
  }
  return value
}

export function writeInt64(bytes: Buffer, value: number, position: number): void {
  const high = Math.floor(value / 0x1_0000_0000)
  bytes.writeInt32BE(high, position)
  bytes.writeUInt32BE(value - high * 0x1_0000_0000, position + 4)
}
