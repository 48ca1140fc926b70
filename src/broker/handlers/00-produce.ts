/**
 * Produce: checks each batch, gives it its place, and answers when all are durable, whatever `acks` asks: with one
 * replica there is nothing between 1 and all. acks=0 gets no answer, but a closed connection when something is wrong,
 * as its producer can't be told otherwise.
 *
 * Most batches are appended in the turn in which they came. One that must be decompressed first makes what comes after
 * it to the same partition wait, as a producer's batches must keep their order.
 */
import { Produce } from '../../protocol/api/produce.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { BatchView } from '../../protocol/records/batch.ts'
import { stampLogAppendTime } from '../../protocol/records/stamp.ts'
import type { RequestRead, ResponseWritten } from '../../protocol/schema.ts'
import { Appends } from '../appends.ts'
import type { Topic } from '../catalog.ts'
import { type Context, handler } from '../handler.ts'
import type { Partition } from '../partition.ts'
import { Fault, checkedBatch, finishedBatch, isUnfinished } from '../produced-batch.ts'

type Request = RequestRead<typeof Produce>
type TopicData = Request['topicData'][number]
type PartitionResponse = ResponseWritten<
  typeof Produce
>['responses'][number]['partitionResponses'][number]

/** One batch on its way to its partition. */
interface Delivery {
  readonly index: number
  readonly topic: Topic
  readonly partition: Partition
  batch: BatchView | Fault
}

/** Where it goes, or why it doesn't get there. */
type Destined = Delivery | PartitionResponse

export const handleProduce = handler({
  api: Produce,
  letsGo: true,
  async handle(request, context) {
    const destined = request.topicData.map(data => destine(data, request, context))
    const deliveries = destined.flat().filter(isDelivery)
    const waits = preparations(deliveries, context)
    const appends = new Appends()
    const append = () =>
      destined.map((ofTopic, at) => ({
        name: request.topicData[at]?.name,
        topicId: request.topicData[at]?.topicId,
        partitionResponses: ofTopic.map(one =>
          isDelivery(one) ? deliver(one, request, context, appends) : one
        )
      }))
    const responses = waits.length === 0 ? append() : await inOrder(deliveries, waits, append)
    await appends.commit(context.cluster.store)
    const all = responses.flatMap(response => response.partitionResponses)
    if (request.acks === 0) {
      if (all.some(({ errorCode }) => errorCode !== KafkaError.NONE)) context.connection.end()
      return null
    }
    return { responses, nodeEndpoints: context.cluster.endpointsOf(all) }
  }
})

function isDelivery(destined: Destined): destined is Delivery {
  return 'partition' in destined
}

function destine(data: TopicData, request: Request, context: Context): Destined[] {
  const topic = findTopic(data, context)
  return data.partitionData.map(({ index, records }) => {
    if (typeof topic === 'number') return failed(index, topic)
    const partition = topic.partitions[index]
    if (partition === undefined) return failed(index, KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
    const batch = checkedBatch(records, topic, context)
    if (batch instanceof Fault && batch.batch === undefined) {
      return failed(index, batch.code, batch.message)
    }
    const acks = request.acks >= -1 && request.acks <= 1
    return acks
      ? { index, topic, partition, batch }
      : failed(index, KafkaError.INVALID_REQUIRED_ACKS)
  })
}

function findTopic(
  { name, topicId }: { name: string; topicId: string },
  { version, cluster }: Context
): Topic | number {
  if (version >= 13) return cluster.catalog.topicById(topicId) ?? KafkaError.UNKNOWN_TOPIC_ID
  return cluster.catalog.topic(name) ?? KafkaError.UNKNOWN_TOPIC_OR_PARTITION
}

/** What is to be waited for before anything of the request is appended. */
function preparations(deliveries: readonly Delivery[], { env }: Context): Promise<unknown>[] {
  return deliveries.flatMap(delivery => {
    const { batch, topic, partition } = delivery
    const earlier = partition.preparing === undefined ? [] : [partition.preparing]
    if (batch instanceof Fault || !isUnfinished(batch, topic)) return earlier
    const finished = finishedBatch(batch, topic, env.cpu).then(result => {
      delivery.batch = result
    })
    return [...earlier, finished]
  })
}

async function inOrder<T>(
  deliveries: readonly Delivery[],
  waits: readonly Promise<unknown>[],
  append: () => T
): Promise<T> {
  const appended = Promise.all(waits).then(append)
  const prepared = appended.then(
    () => {},
    () => {}
  )
  for (const { partition } of deliveries) partition.preparing = prepared
  await prepared
  for (const { partition } of deliveries) {
    if (partition.preparing === prepared) partition.preparing = undefined
  }
  return appended
}

function deliver(
  { index, topic, partition, batch }: Delivery,
  request: Request,
  context: Context,
  appends: Appends
): PartitionResponse {
  if (partition.leader !== context.node) {
    const hint = context.cluster.leaderHint(partition, context.version >= 10)
    return { ...failed(index, KafkaError.NOT_LEADER_OR_FOLLOWER), ...hint }
  }
  // It may have been deleted while a batch was decompressed.
  if (context.cluster.catalog.partition(topic.name, index) !== partition) {
    return failed(index, KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
  }
  // As in Kafka the partition becomes part of the transaction before its records are looked at.
  const view = batch instanceof Fault ? batch.batch : batch
  const stranger = view && transactionFault(request, view, partition, context, appends)
  if (stranger) return failed(index, stranger)
  if (batch instanceof Fault) return failed(index, batch.code, batch.message)
  if (partition.log.damaged) return failed(index, KafkaError.KAFKA_STORAGE_ERROR)
  if (beginsAmidst(batch, partition, context)) {
    return failed(index, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
  }
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

/** The sequences of such a producer begin at 0 with each transaction: one that doesn't has lost something. */
function beginsAmidst(batch: BatchView, { producers }: Partition, { version }: Context): boolean {
  if (!batch.isTransactional || version < addsPartitions || batch.baseSequence === 0) return false
  return (producers.get(batch.producerId)?.batches.length ?? 0) === 0
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

function failed(index: number, errorCode: number, errorMessage: string | null = null) {
  return { index, errorCode, baseOffset: -1, errorMessage }
}
