/**
 * What a broker holds against a batch that is to be appended, and what it changes of it (LogValidator.java): checksum,
 * lengths, size, timestamps, keys where the topic is compacted, compression where the topic says which.
 */
import type { Compression, Cpu } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import { KafkaError } from '../protocol/errors.ts'
import { BatchReader, type BatchView } from '../protocol/records/batch.ts'
import { checkProducedFields, checkProducedRecords } from '../protocol/records/check.ts'
import { RecordCursor } from '../protocol/records/cursor.ts'
import { recompressed } from '../protocol/records/filter.ts'
import { HEADER_BYTES, LENGTH_OVERHEAD, at } from '../protocol/records/layout.ts'
import { RecordSource } from '../protocol/records/source.ts'
import type { Topic } from './catalog.ts'
import type { Context } from './handler.ts'
import { decompressedBytes } from './limits.ts'

/** What is wrong with a batch, as an answer says it. */
export class Fault {
  readonly code: number
  readonly message: string
  /** The batch, where as much of it is right as its header. */
  readonly batch: BatchView | undefined
  constructor(code: number, message: string, batch?: BatchView) {
    this.code = code
    this.message = message
    this.batch = batch
  }
}

const zstd = 4

/** The batch of one partition of a request, or what is wrong with it, as far as can be seen at once. */
export function checkedBatch(
  records: Buffer | null,
  topic: Topic,
  context: Context
): BatchView | Fault {
  const batch = onlyBatchIn(records, context.env.cpu)
  if (batch instanceof Fault) return batch
  const fault = batchFault(batch, topic, context)
  return fault === undefined ? batch : new Fault(fault.code, fault.message, batch)
}

function onlyBatchIn(records: Buffer | null, cpu: Pick<Cpu, 'crc32c'>): BatchView | Fault {
  try {
    const reader = new BatchReader(records)
    const batch = reader.next()
    if (batch !== undefined && reader.remainingBytes === 0) return batch
    return new Fault(KafkaError.INVALID_RECORD, 'a request has exactly one batch per partition')
  } catch (error) {
    return faultOf(error, isAsMeant(records, cpu) ? INVALID_RECORD : CORRUPT_MESSAGE)
  }
}

const { CORRUPT_MESSAGE, INVALID_RECORD } = KafkaError

/** Whether bytes that are no batch came as they were sent: a format of before 2017, or a lie under a right checksum. */
function isAsMeant(records: Buffer | null, cpu: Pick<Cpu, 'crc32c'>): boolean {
  if (records === null || records.length < HEADER_BYTES) return false
  const magic = records.readInt8(at.magic)
  if (magic === 0 || magic === 1) return true
  if (records.readInt32BE(at.length) !== records.length - LENGTH_OVERHEAD) return false
  return magic === 2 && cpu.crc32c(records.subarray(at.attributes)) === records.readUInt32BE(at.crc)
}

function batchFault(batch: BatchView, topic: Topic, context: Context): Fault | undefined {
  const { version, env } = context
  const maxBytes = topic.number('max.message.bytes')
  if (batch.sizeBytes > maxBytes) {
    const message = `the batch has ${batch.sizeBytes} bytes, max.message.bytes is ${maxBytes}`
    return new Fault(KafkaError.MESSAGE_TOO_LARGE, message)
  }
  if (!batch.isIntact(env.cpu)) {
    return new Fault(
      KafkaError.CORRUPT_MESSAGE,
      'the checksum of the batch is not that of its bytes'
    )
  }
  if ((batch.attributes & 7) === zstd && version < 7) {
    return new Fault(KafkaError.UNSUPPORTED_COMPRESSION_TYPE, 'zstd needs Produce version 7')
  }
  try {
    checkProducedFields(batch)
    if (batch.compression === 'none') {
      checkProducedRecords(batch, batch.payload)
      if (topic.compacted && !hasKeys(batch, batch.payload)) return keyless(topic)
    }
    return timestampFault(batch, topic, env.clock.now())
  } catch (error) {
    return faultOf(error, KafkaError.INVALID_RECORD)
  }
}

function timestampFault(batch: BatchView, topic: Topic, now: number): Fault | undefined {
  if (topic.logAppendTime) return undefined
  const { maxTimestamp, baseTimestamp } = batch
  const ahead = topic.number('message.timestamp.after.max.ms')
  const behind = topic.number('message.timestamp.before.max.ms')
  if (maxTimestamp <= now + ahead && baseTimestamp >= now - behind) return undefined
  const message = `a timestamp is more than ${ahead} ms ahead of, or ${behind} ms behind, the broker's`
  return new Fault(KafkaError.INVALID_TIMESTAMP, message)
}

function keyless(topic: Topic): Fault {
  const message = `topic ${topic.name} is compacted: it takes no record without a key`
  return new Fault(KafkaError.INVALID_RECORD, message)
}

function hasKeys(batch: BatchView, payload: Buffer): boolean {
  const cursor = new RecordCursor(new RecordSource(batch, payload, '', -1))
  while (cursor.advance()) if (cursor.keyLength < 0) return false
  return true
}

function faultOf(error: unknown, code: number): Fault {
  if (error instanceof PlayheadError && error.code === 'CORRUPT_RECORDS') {
    return new Fault(code, error.message)
  }
  throw error
}

/** Whether a batch must be looked into, or changed, by `finishedBatch` before it is appended. */
export function isUnfinished(batch: BatchView, topic: Topic): boolean {
  return (topic.compacted && batch.compression !== 'none') || wantedOf(batch, topic) !== undefined
}

/** Looks into a compressed batch, and gives it the topic's compression. */
export async function finishedBatch(
  batch: BatchView,
  topic: Topic,
  cpu: Cpu
): Promise<BatchView | Fault> {
  try {
    const payload = await batch.decompress(cpu, decompressedBytes)
    checkProducedRecords(batch, payload)
    if (topic.compacted && !hasKeys(batch, payload)) return keyless(topic)
    const wanted = wantedOf(batch, topic)
    return wanted === undefined ? batch : await recompressed(batch, payload, wanted, cpu)
  } catch (error) {
    if (error instanceof PlayheadError && error.code === 'DECOMPRESSION_FAILED') {
      return new Fault(KafkaError.CORRUPT_MESSAGE, error.message)
    }
    return faultOf(error, KafkaError.INVALID_RECORD)
  }
}

/** The compression that the topic asks for and the batch doesn't have. */
function wantedOf(batch: BatchView, topic: Topic): Compression | undefined {
  const type = topic.config('compression.type')
  if (type === 'producer') return undefined
  const wanted = type === 'uncompressed' ? 'none' : (type as Compression)
  return wanted === batch.compression ? undefined : wanted
}
