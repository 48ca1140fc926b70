/**
 * What is set in the bytes of a finished batch, in place: by a broker that appends it, or by a producer that
 * sends it again under a new epoch. Only for the owner of the bytes.
 */
import type { Cpu } from '../../base/env.ts'
import { at, attribute, writeInt64 } from './layout.ts'

/** Gives the batch its place in the log. Outside the checksum. */
export function stampOffset(batch: Buffer, baseOffset: number, leaderEpoch: number): void {
  writeInt64(batch, baseOffset, at.baseOffset)
  batch.writeInt32BE(leaderEpoch, at.leaderEpoch)
}

/** Makes `timestamp` that of all its records (`message.timestamp.type=LogAppendTime`). */
export function stampLogAppendTime(
  batch: Buffer,
  timestamp: number,
  cpu: Pick<Cpu, 'crc32c'>
): void {
  batch.writeInt16BE(batch.readInt16BE(at.attributes) | attribute.logAppendTime, at.attributes)
  writeInt64(batch, timestamp, at.maxTimestamp)
  stampChecksum(batch, cpu)
}

export interface ProducerStamp {
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly baseSequence: number
}

/** Gives the batch another producer, epoch or sequence: what was not accepted is sent again after a bump. */
export function stampProducer(batch: Buffer, stamp: ProducerStamp, cpu: Pick<Cpu, 'crc32c'>): void {
  batch.writeBigInt64BE(stamp.producerId, at.producerId)
  batch.writeInt16BE(stamp.producerEpoch, at.producerEpoch)
  batch.writeInt32BE(stamp.baseSequence, at.baseSequence)
  stampChecksum(batch, cpu)
}

function stampChecksum(batch: Buffer, cpu: Pick<Cpu, 'crc32c'>): void {
  batch.writeUInt32BE(cpu.crc32c(batch.subarray(at.attributes)), at.crc)
}
