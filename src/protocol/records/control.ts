/**
 * Control batches: a transaction's end as the coordinator writes it into each partition. One record, whose key
 * says commit or abort and whose value is an EndTxnMarker. (ControlRecordType.java, EndTransactionMarker.java)
 */
import type { Cpu } from '../../base/env.ts'
import type { BatchView } from './batch.ts'
import { BatchBuilder } from './builder.ts'
import { RecordCursor } from './cursor.ts'
import { corrupt } from './layout.ts'
import { RawRecord } from './record.ts'
import { RecordSource } from './source.ts'

export type TransactionEnd = 'abort' | 'commit'

export interface ControlRecord {
  /** 'other': a control record that is no transaction's end (KRaft's own); to be passed over. */
  readonly type: TransactionEnd | 'other'
  readonly offset: number
  /** The transaction coordinator's; -1 for 'other'. */
  readonly coordinatorEpoch: number
}

/**
 * What a control batch says; undefined when compaction emptied it. Throws CORRUPT_RECORDS when it is
 * compressed (Kafka never does) or its record is none.
 */
export function readControl(batch: BatchView): ControlRecord | undefined {
  const { baseOffset } = batch
  if (batch.compression !== 'none') throw corrupt(baseOffset, 'a compressed control batch')
  const source = new RecordSource(batch, batch.payload, '', -1)
  const cursor = new RecordCursor(source)
  if (!cursor.advance()) return undefined
  const { key, value, offset } = new RawRecord(source, cursor)
  if (key === null || key.length < 4) throw corrupt(baseOffset, 'a control record without a type')
  const version = key.readInt16BE(0)
  if (version < 0) throw corrupt(baseOffset, `control record key of version ${version}`)
  const type = key.readInt16BE(2)
  if (type !== 0 && type !== 1) return { type: 'other', offset, coordinatorEpoch: -1 }
  if (value === null || value.length < 6) throw corrupt(baseOffset, 'an EndTxnMarker cut short')
  return { type: type === 0 ? 'abort' : 'commit', offset, coordinatorEpoch: value.readInt32BE(2) }
}

export interface TransactionMarker {
  readonly type: TransactionEnd
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly coordinatorEpoch: number
  readonly timestamp: number
  readonly baseOffset: number
  readonly leaderEpoch: number
}

/** The control batch that ends a transaction in one partition. */
export function transactionMarker(marker: TransactionMarker, cpu: Pick<Cpu, 'crc32c'>): Buffer {
  const key = Buffer.alloc(4)
  key.writeInt16BE(marker.type === 'abort' ? 0 : 1, 2)
  const value = Buffer.alloc(6)
  value.writeInt32BE(marker.coordinatorEpoch, 2)
  const builder = new BatchBuilder({ maxBytes: 128 })
  builder.append(marker.timestamp, key, value)
  return builder.close({ ...marker, transactional: true, control: true }, cpu).bytes
}
