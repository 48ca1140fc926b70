/** A batch that the broker found too large, as two: what Kafka's own client does on MESSAGE_TOO_LARGE (KIP-126). */
import type { Cpu } from '../../base/env.ts'
import { onlyBatch } from '../../protocol/records/batch.ts'
import { RecordCursor } from '../../protocol/records/cursor.ts'
import type { BufferPool } from '../../protocol/records/pool.ts'
import { RawRecord } from '../../protocol/records/record.ts'
import { RecordSource } from '../../protocol/records/source.ts'
import { Batch } from './batch.ts'

/** Records of a batch of ours, decompressed, are at most what they were when they were appended. */
const maxBytes = 2 ** 30

/** The halves have the records in order, the deadline, and no sequence yet. */
export async function splitBatch(
  batch: Batch,
  world: { readonly pool: BufferPool; readonly now: number },
  cpu: Pick<Cpu, 'decompress'>
): Promise<readonly [Batch, Batch]> {
  const { topic, partition } = batch
  const view = onlyBatch(batch.bytes())
  const source = new RecordSource(view, await view.decompress(cpu, maxBytes), topic, partition)
  const cursor = new RecordCursor(source)
  const half = () => {
    const part = new Batch(topic, partition, world.now, { maxBytes, pool: world.pool })
    part.deadline = batch.deadline
    part.maybeWritten = batch.maybeWritten
    return part
  }
  const halves = [half(), half()] as const
  const inFirst = batch.recordCount >>> 1
  for (let index = 0; cursor.advance(); index++) {
    const record = new RawRecord(source, cursor)
    const part = halves[index < inFirst ? 0 : 1]
    part.append(record.timestamp, record.key, record.value, record.headers)
  }
  for (const part of halves) part.closed = true
  return halves
}
