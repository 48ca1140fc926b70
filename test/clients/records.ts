/** Records as they lie in a log, unpacked by our own codecs. */
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { BatchReader } from '../../src/protocol/records/batch.ts'
import { RecordCursor } from '../../src/protocol/records/cursor.ts'
import { RawRecord } from '../../src/protocol/records/record.ts'
import { RecordSource } from '../../src/protocol/records/source.ts'

const cpu = nodeCpu()

export interface LogRecord {
  readonly offset: number
  readonly value: string
  /** A marker at the end of a transaction. */
  readonly isControl: boolean
}

export async function recordsIn(records: Buffer | null): Promise<LogRecord[]> {
  const found: LogRecord[] = []
  for (const batch of new BatchReader(records)) {
    batch.verify(cpu)
    const isPlain = batch.compression === 'none'
    const payload = isPlain ? batch.payload : await batch.decompress(cpu, 2 ** 26)
    const source = new RecordSource(batch, payload, '', 0)
    const cursor = new RecordCursor(source)
    while (cursor.advance()) {
      const { offset, value } = new RawRecord(source, cursor)
      found.push({ offset, value: value?.toString() ?? '', isControl: batch.isControl })
    }
  }
  return found
}
