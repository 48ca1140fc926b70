/** Reads and writes whole batches as plain values, for the tests of record batches. */
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { PlayheadError } from '../../src/base/error.ts'
import type { BatchView } from '../../src/protocol/records/batch.ts'
import {
  BatchBuilder,
  type BatchHeader,
  type HeaderInput
} from '../../src/protocol/records/builder.ts'
import { RecordCursor } from '../../src/protocol/records/cursor.ts'
import { RawRecord } from '../../src/protocol/records/record.ts'
import { RecordSource } from '../../src/protocol/records/source.ts'
import type { Bytes } from '../../src/protocol/records/write.ts'

export const cpu = nodeCpu()
export const MiB = 1024 * 1024

export interface PlainRecord {
  readonly offset: number
  readonly timestamp: number
  readonly key: string | null
  readonly value: string | null
  readonly headers: readonly (readonly [string, string | null])[]
}

/** Every record of a batch from `fromOffset` on, its bytes in hex. */
export async function recordsOf(batch: BatchView, fromOffset = 0): Promise<PlainRecord[]> {
  batch.verify(cpu)
  return recordsIn(batch, await batch.decompress(cpu, 64 * MiB), fromOffset)
}

export function recordsIn(batch: BatchView, payload: Buffer, fromOffset = 0): PlainRecord[] {
  const source = new RecordSource(batch, payload, 'orders', 3)
  const cursor = new RecordCursor(source, fromOffset)
  const records: PlainRecord[] = []
  while (cursor.advance()) records.push(plain(new RawRecord(source, cursor)))
  return records
}

function plain({ offset, timestamp, key, value, headers }: RawRecord): PlainRecord {
  const hex = (bytes: Buffer | null) => bytes?.toString('hex') ?? null
  return {
    offset,
    timestamp,
    key: hex(key),
    value: hex(value),
    headers: headers.map(header => [header.key, hex(header.value)] as const)
  }
}

export interface Input {
  readonly timestamp?: number
  readonly key?: Bytes
  readonly value?: Bytes
  readonly headers?: readonly HeaderInput[]
}

/** An uncompressed batch of these records. */
export function batchOf(records: readonly Input[], header: BatchHeader = {}): Buffer {
  const builder = new BatchBuilder({ maxBytes: 64 * MiB })
  for (const { timestamp = 1000, key, value, headers } of records) {
    builder.append(timestamp, key, value, headers)
  }
  return builder.close(header, cpu).bytes
}

/** Sets the checksum right after a test has changed the bytes. */
export function resealed(batch: Buffer): Buffer {
  batch.writeUInt32BE(cpu.crc32c(batch.subarray(21)), 17)
  return batch
}

/** For assert.throws and assert.rejects: a PlayheadError with this code, whose message matches. */
export function failsWith(code: PlayheadError['code'], message = /./): (error: unknown) => boolean {
  return error => {
    if (!(error instanceof PlayheadError)) throw error
    if (error.code === code && message.test(error.message)) return true
    throw new Error(`not ${code} ${message}: ${error.code} ${error.message}`)
  }
}
