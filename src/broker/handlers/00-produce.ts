/**
 * Produce: checks each batch, gives it its place, and answers when all are durable, whatever `acks` asks: with one
 * replica there is nothing between 1 and all. acks=0 gets no answer, but a closed connection when something is wrong,
 * as its producer can't be told otherwise.
 */
import { PlayheadError } from '../../base/error.ts'
import { Produce } from '../../protocol/api/produce.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { BatchReader, type BatchView } from '../../protocol/records/batch.ts'
import { checkProducedHeader, checkProducedRecords } from '../../protocol/records/check.ts'
import { RecordCursor } from '../../protocol/records/cursor.ts'
import { RecordSource } from '../../protocol/records/source.ts'
import { stampLogAppendTime } from '../../protocol/records/stamp.ts'
import type { RequestRead, ResponseWritten } from '../../protocol/schema.ts'
import { Appends } from '../appends.ts'
import type { Topic } from '../catalog.ts'
import { type Context, handler } from '../handler.ts'
import type { Partition } from '../partition.ts'

type Request = RequestRead<typeof Produce>
type PartitionData = Request['topicData'][number]['partitionData'][number]
type PartitionResponse = ResponseWritten<
  typeof Produce
>['responses'][number]['partitionResponses'][number]

export const handleProduce = handler({
  api: Produce,
  async handle(request, context) {
    const appends = new Appends()
    const responses = request.topicData.map(topicData => {
      const topic = findTopic(topicData, context)
      const { name, topicId } = topicData
      const partitionResponses = topicData.partitionData.map(data =>
        answerFor(topic, data, request, context, appends)
      )
      return { name, topicId, partitionResponses }
    })
    await appends.commit(context.cluster.store)
    const all = responses.flatMap(response => response.partitionResponses)
    if (request.acks === 0) {
      if (all.some(({ errorCode }) => errorCode !== KafkaError.NONE)) context.connection.end()
      return null
    }
    return { responses, nodeEndpoints: context.cluster.endpointsOf(all) }
  }
})

function findTopic(
  { name, topicId }: { name: string; topicId: string },
  { version, cluster }: Context
): Topic | number {
  if (version >= 13) return cluster.catalog.topicById(topicId) ?? KafkaError.UNKNOWN_TOPIC_ID
  return cluster.catalog.topic(name) ?? KafkaError.UNKNOWN_TOPIC_OR_PARTITION
}

function answerFor(
  topic: Topic | number,
  data: PartitionData,
  request: Request,
  context: Context,
  appends: Appends
): PartitionResponse {
  const { index } = data
  if (request.acks < -1 || request.acks > 1) return failed(index, KafkaError.INVALID_REQUIRED_ACKS)
  if (typeof topic === 'number') return failed(index, topic)
  const partition = topic.partitions[index]
  if (partition === undefined) return failed(index, KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
  if (partition.leader !== context.node) {
    const hint = context.cluster.leaderHint(partition, context.version >= 10)
    return { ...failed(index, KafkaError.NOT_LEADER_OR_FOLLOWER), ...hint }
  }
  const batch = onlyBatchOf(data.records, topic, context)
  if (batch instanceof Fault) return failed(index, batch.code, batch.message)
  const stranger = transactionFault(request, batch, partition, context, appends)
  if (stranger !== KafkaError.NONE) return failed(index, stranger)
  return append(partition, topic, batch, context, appends)
}

/** From this version on a Produce adds its partitions to the transaction by itself (KIP-890). */
const addsPartitions = 12

function transactionFault(
  { transactionalId }: Request,
  batch: BatchView,
  { topic, index }: Partition,
  { version, cluster }: Context,
  { changes }: Appends
): number {
  if (!batch.isTransactional) return KafkaError.NONE
  if (transactionalId === null) return KafkaError.INVALID_REQUEST
  const { transactions } = cluster
  const { producerId, producerEpoch } = batch
  const who = { transactionalId, producerId, producerEpoch }
  const code =
    version >= addsPartitions
      ? transactions.addPartition(who, topic, index, changes)
      : transactions.verifyPartition(who, topic, index)
  if (code === KafkaError.PRODUCER_FENCED) return KafkaError.INVALID_PRODUCER_EPOCH
  const abortable = code === KafkaError.INVALID_TXN_STATE && version >= 11
  return abortable ? KafkaError.TRANSACTION_ABORTABLE : code
}

function append(
  partition: Partition,
  topic: Topic,
  batch: BatchView,
  context: Context,
  appends: Appends
): PartitionResponse {
  const verdict = partition.check(batch)
  if (verdict.is === 'wrong') return failed(partition.index, verdict.error)
  const place = { index: partition.index, errorCode: KafkaError.NONE }
  const logStartOffset = partition.log.startOffset
  if (verdict.is === 'duplicate') {
    const { baseOffset, timestamp } = verdict.of
    const logAppendTimeMs = topic.logAppendTime ? timestamp : -1
    return { ...place, baseOffset, logAppendTimeMs, logStartOffset }
  }
  const { cpu, clock } = context.env
  const now = clock.now()
  if (topic.logAppendTime) stampLogAppendTime(batch.bytes, now, cpu)
  const baseOffset = appends.append(partition, batch)
  return { ...place, baseOffset, logAppendTimeMs: topic.logAppendTime ? now : -1, logStartOffset }
}

/** What is wrong with a batch, as an answer says it. */
class Fault {
  readonly code: number
  readonly message: string
  constructor(code: number, message: string) {
    this.code = code
    this.message = message
  }
}

const zstd = 4

function onlyBatchOf(records: Buffer | null, topic: Topic, context: Context): BatchView | Fault {
  const { version, env } = context
  let batch: BatchView | undefined
  try {
    const reader = new BatchReader(records)
    batch = reader.next()
    if (batch === undefined || reader.remainingBytes > 0) {
      return new Fault(KafkaError.INVALID_RECORD, 'a request has exactly one batch per partition')
    }
    const maxBytes = topic.number('max.message.bytes')
    if (batch.sizeBytes > maxBytes) {
      const message = `the batch has ${batch.sizeBytes} bytes, max.message.bytes is ${maxBytes}`
      return new Fault(KafkaError.MESSAGE_TOO_LARGE, message)
    }
    batch.verify(env.cpu)
  } catch (error) {
    return faultOf(error, KafkaError.CORRUPT_MESSAGE)
  }
  if ((batch.attributes & 7) === zstd && version < 7) {
    return new Fault(KafkaError.UNSUPPORTED_COMPRESSION_TYPE, 'zstd needs Produce version 7')
  }
  try {
    checkProducedHeader(batch, env.cpu)
    if (batch.compression === 'none') {
      checkProducedRecords(batch, batch.payload)
      if (topic.compacted && !hasKeys(batch, batch.payload)) return keyless(topic)
    }
    return timestampFault(batch, topic, env.clock.now()) ?? batch
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

function failed(index: number, errorCode: number, errorMessage: string | null = null) {
  return { index, errorCode, baseOffset: -1, errorMessage }
}
