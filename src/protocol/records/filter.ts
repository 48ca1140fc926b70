/**
 * What a broker makes of a batch: one with fewer records, or with another compression. Offsets, times, producer and
 * sequence stay, so that who reads it finds what is left at the old offsets.
 */
import type { Compression, Cpu } from '../../base/env.ts'
import { type BatchView, onlyBatch } from './batch.ts'
import { RecordCursor } from './cursor.ts'
import { at, attribute, compressions, HEADER_BYTES, LENGTH_OVERHEAD } from './layout.ts'
import { RecordSource } from './source.ts'

/**
 * The batch with those records for which `keeps` is true; 'all' when that is every one, undefined when it is none.
 * `payload`: its records, decompressed.
 */
export function filterBatch(
  batch: BatchView,
  payload: Buffer,
  keeps: (cursor: RecordCursor) => boolean,
  cpu: Pick<Cpu, 'crc32c' | 'compress'>
): Promise<Buffer | 'all' | undefined> | Buffer | 'all' | undefined {
  const cursor = new RecordCursor(new RecordSource(batch, payload, '', -1))
  const pieces: Buffer[] = []
  let count = 0
  let start = 0
  while (cursor.advance()) {
    const { end } = cursor
    if (keeps(cursor)) {
      pieces.push(payload.subarray(start, end))
      count++
    }
    start = end
  }
  if (count === batch.recordCount) return 'all'
  if (count === 0) return undefined
  const records = Buffer.concat(pieces)
  if (batch.compression === 'none') return rebuilt(batch, records, count, cpu)
  return cpu
    .compress(batch.compression, records)
    .then(compressed => rebuilt(batch, compressed, count, cpu))
}

/** The same records, compressed otherwise. `payload`: decompressed. */
export function recompressed(
  batch: BatchView,
  payload: Buffer,
  compression: Compression,
  cpu: Pick<Cpu, 'crc32c' | 'compress'>
): Promise<BatchView> {
  return cpu.compress(compression, payload).then(compressed => {
    const bytes = rebuilt(batch, compressed, batch.recordCount, cpu)
    const others = batch.attributes & ~attribute.compressionMask
    bytes.writeInt16BE(others | compressions.indexOf(compression), at.attributes)
    bytes.writeUInt32BE(cpu.crc32c(bytes.subarray(at.attributes)), at.crc)
    return onlyBatch(bytes)
  })
}

function rebuilt(
  batch: BatchView,
  payload: Uint8Array,
  count: number,
  cpu: Pick<Cpu, 'crc32c'>
): Buffer {
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + payload.length)
  batch.bytes.copy(bytes, 0, 0, HEADER_BYTES)
  bytes.set(payload, HEADER_BYTES)
  bytes.writeInt32BE(bytes.length - LENGTH_OVERHEAD, at.length)
  bytes.writeInt32BE(count, at.recordCount)
  bytes.writeUInt32BE(cpu.crc32c(bytes.subarray(at.attributes)), at.crc)
  return bytes
}
