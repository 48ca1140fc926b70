/**
 * What a broker holds against a produced batch before it appends it (LogValidator.java): the batch is whole and
 * its checksum right, offsets start at its base and leave no gap, every record is one.
 */
import type { Cpu } from '../../base/env.ts'
import type { BatchView } from './batch.ts'
import { RecordCursor } from './cursor.ts'
import { corrupt } from './layout.ts'
import { RecordSource } from './source.ts'

/**
 * Throws CORRUPT_RECORDS unless `batch` may be appended, as far as its header and checksum tell: all that can
 * be known of a compressed batch without decompressing it.
 */
export function checkProducedHeader(batch: BatchView, cpu: Pick<Cpu, 'crc32c'>): void {
  batch.verify(cpu)
  checkProducedFields(batch)
}

/** The same without the checksum: for who has looked at it already. */
export function checkProducedFields(batch: BatchView): void {
  const { baseOffset, lastOffset, recordCount, producerId } = batch
  if (recordCount === 0) throw corrupt(baseOffset, 'a produced batch without records')
  if (recordCount !== lastOffset - baseOffset + 1) {
    throw corrupt(baseOffset, `${recordCount} records in offsets ${baseOffset} to ${lastOffset}`)
  }
  if (batch.isControl)
    throw corrupt(baseOffset, 'only a transaction coordinator writes control batches')
  if (batch.hasDeleteHorizon) throw corrupt(baseOffset, 'only a log cleaner sets a delete horizon')
  if (batch.isTransactional && producerId < 0n) {
    throw corrupt(baseOffset, 'a transactional batch without a producer id')
  }
  if (producerId >= 0n && (batch.producerEpoch < 0 || batch.baseSequence < 0)) {
    throw corrupt(baseOffset, 'a producer id without an epoch or a sequence')
  }
}

/** Throws CORRUPT_RECORDS unless each record of `batch` is one, at the offset due. `payload`: decompressed. */
export function checkProducedRecords(batch: BatchView, payload: Buffer): void {
  const cursor = new RecordCursor(new RecordSource(batch, payload, '', -1))
  for (let delta = 0; cursor.advance(); delta += 1) {
    if (cursor.offsetDelta !== delta) {
      throw corrupt(
        batch.baseOffset,
        `record ${delta} of it has offset delta ${cursor.offsetDelta}`
      )
    }
  }
}
