/**
 * Fetch: whole batches from where the client stands, of as many partitions as fit; waits when there is too little.
 *
 * Partitions are served in order until `maxBytes` are reached, and who got something comes last the next time. The
 * first batch of an answer comes even when it is larger than every limit, so that a consumer always gets on.
 */
import { PlayheadError } from '../../base/error.ts'
import { Fetch } from '../../protocol/api/fetch.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { RequestRead, ResponseWritten } from '../../protocol/schema.ts'
import type { Topic } from '../catalog.ts'
import {
  type FetchPartition,
  type FetchPlan,
  type FetchSession,
  partitionKeyOf
} from '../fetch-sessions.ts'
import { type Context, handler } from '../handler.ts'
import { fetchBytes } from '../limits.ts'
import type { Isolation, Partition } from '../partition.ts'
import { waitForData } from '../waiting.ts'

type Request = RequestRead<typeof Fetch>
type Response = ResponseWritten<typeof Fetch>
type PartitionResponse = Response['responses'][number]['partitions'][number]
type Planned = Extract<FetchPlan, { fault: undefined }>

/** What was found for one partition. */
interface Found {
  readonly asked: FetchPartition
  readonly partition: Partition | undefined
  readonly answer: PartitionResponse
  readonly bytes: number
}

export const handleFetch = handler({
  api: Fetch,
  async handle(request, context) {
    const { clock } = context.env
    const sessions = context.cluster.fetchSessions(context.node)
    const plan = sessions.plan(orderOf(request), clock.monotonic())
    if (plan.fault !== undefined) {
      return { throttleTimeMs: 0, errorCode: plan.fault, responses: [] }
    }
    const { session } = plan
    const nextEpoch = session?.epoch
    const deadline = clock.monotonic() + request.maxWaitMs
    for (;;) {
      const found = readAll(plan, request, context)
      const bytes = found.reduce((sum, one) => sum + one.bytes, 0)
      const maxWaitMs = deadline - clock.monotonic()
      const enough = bytes >= request.minBytes || found.some(one => one.answer.errorCode !== 0)
      if (enough || maxWaitMs <= 0 || context.connection.closed)
        return respond(plan, found, context)
      const partitions = found.flatMap(one => one.partition ?? [])
      const wait = { partitions, bytes: request.minBytes - bytes, maxWaitMs, session }
      const last = await waitForData(wait, clock, context.connection)
      if (session !== undefined && session.epoch !== nextEpoch) return overtaken(session)
      if (last) return respond(plan, readAll(plan, request, context), context)
    }
  }
})

/** A later request of its session has come. */
function overtaken({ id: sessionId }: FetchSession): Response {
  return { throttleTimeMs: 0, errorCode: KafkaError.NONE, sessionId, responses: [] }
}

function orderOf(request: Request) {
  return {
    sessionId: request.sessionId,
    sessionEpoch: request.sessionEpoch,
    partitions: request.topics.flatMap(({ topic, topicId, partitions }) =>
      partitions.map(asked => ({
        topic,
        topicId,
        index: asked.partition,
        fetchOffset: asked.fetchOffset,
        maxBytes: asked.partitionMaxBytes,
        currentLeaderEpoch: asked.currentLeaderEpoch,
        lastFetchedEpoch: asked.lastFetchedEpoch
      }))
    ),
    forgotten: request.forgottenTopicsData.flatMap(({ topic, topicId, partitions }) =>
      partitions.map(index => partitionKeyOf(topic, topicId, index))
    )
  }
}

function readAll(plan: Planned, request: Request, context: Context): Found[] {
  let left = Math.min(request.maxBytes, fetchBytes)
  let any = false
  const isolation = request.isolationLevel === 1 ? 'read_committed' : 'read_uncommitted'
  return plan.partitions.map(asked => {
    const found = readOne(asked, isolation, left, !any, context)
    left = Math.max(0, left - found.bytes)
    any ||= found.bytes > 0
    return found
  })
}

function readOne(
  asked: FetchPartition,
  isolation: Isolation,
  left: number,
  atLeastOne: boolean,
  context: Context
): Found {
  const topic = findTopic(asked, context)
  const partition = typeof topic === 'number' ? undefined : topic.partitions[asked.index]
  const nothing = { asked, partition, bytes: 0 }
  if (partition === undefined) {
    const code = typeof topic === 'number' ? topic : KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    return { ...nothing, answer: failed(asked.index, code) }
  }
  const fault = leaderFault(asked, partition, context)
  if (fault !== undefined) return { ...nothing, answer: fault }
  const { log } = partition
  if (asked.fetchOffset < log.startOffset || asked.fetchOffset > log.endOffset) {
    const answer = failed(asked.index, KafkaError.OFFSET_OUT_OF_RANGE)
    return { ...nothing, answer: { ...answer, abortedTransactions: null } }
  }
  const answer = {
    partitionIndex: asked.index,
    errorCode: KafkaError.NONE,
    highWatermark: partition.highWatermark,
    lastStableOffset: partition.lastStableOffset,
    logStartOffset: log.startOffset,
    abortedTransactions: isolation === 'read_committed' ? [] : null,
    records: []
  }
  const diverging = divergence(asked, partition)
  if (diverging !== undefined)
    return { ...nothing, answer: { ...answer, divergingEpoch: diverging } }
  const end = partition.readableEnd(isolation)
  if (asked.fetchOffset >= end || (left === 0 && !atLeastOne)) return { ...nothing, answer }
  try {
    const maxBytes = Math.min(left, asked.maxBytes)
    const slice = log.read(asked.fetchOffset, end, maxBytes, atLeastOne, context.lend)
    const abortedTransactions =
      isolation === 'read_committed'
        ? partition.abortedBetween(asked.fetchOffset, slice.nextOffset)
        : answer.abortedTransactions
    const found = { ...answer, records: slice.pieces, abortedTransactions }
    return { asked, partition, bytes: slice.bytes, answer: found }
  } catch (error) {
    if (!(error instanceof PlayheadError && error.code === 'CORRUPT_RECORDS')) throw error
    context.env.log.error('damaged records are not delivered', { error })
    return { ...nothing, answer: failed(asked.index, KafkaError.CORRUPT_MESSAGE) }
  }
}

function findTopic(
  { topic, topicId }: FetchPartition,
  { version, cluster }: Context
): Topic | number {
  if (version >= 13) return cluster.catalog.topicById(topicId) ?? KafkaError.UNKNOWN_TOPIC_ID
  return cluster.catalog.topic(topic) ?? KafkaError.UNKNOWN_TOPIC_OR_PARTITION
}

function leaderFault(
  asked: FetchPartition,
  partition: Partition,
  { node, version, cluster }: Context
): PartitionResponse | undefined {
  const hint = cluster.leaderHint(partition, version >= 12)
  const { currentLeaderEpoch: epoch, index } = asked
  const fault = (code: number) => ({ ...failed(index, code), ...hint })
  if (epoch >= 0 && epoch < partition.leaderEpoch) return fault(KafkaError.FENCED_LEADER_EPOCH)
  if (epoch > partition.leaderEpoch) return fault(KafkaError.UNKNOWN_LEADER_EPOCH)
  if (partition.leader !== node) return fault(KafkaError.NOT_LEADER_OR_FOLLOWER)
  return undefined
}

/** Where the client's log and this one part, when they do (KIP-595). */
function divergence(asked: FetchPartition, partition: Partition) {
  const { lastFetchedEpoch, fetchOffset } = asked
  if (lastFetchedEpoch < 0) return undefined
  const end = partition.endOfEpoch(lastFetchedEpoch)
  const parts = end.epoch < lastFetchedEpoch || end.endOffset < fetchOffset
  return parts ? end : undefined
}

function respond({ session, incremental }: Planned, found: Found[], context: Context): Response {
  const sessions = context.cluster.fetchSessions(context.node)
  const byTopic = new Map<
    string,
    { topic: string; topicId: string; partitions: PartitionResponse[] }
  >()
  for (const one of found) {
    const { asked, answer } = one
    const news = one.bytes > 0 || isNews(one)
    if (session !== undefined) {
      const { highWatermark, logStartOffset = -1 } = answer
      // An error is told each time.
      asked.told = answer.errorCode === 0 ? { highWatermark, logStartOffset } : undefined
      if (one.bytes > 0) sessions.served(session, asked)
    }
    if (incremental && !news) continue
    const key = `${asked.topicId}/${asked.topic}`
    const topic = byTopic.get(key)
    if (topic !== undefined) topic.partitions.push(answer)
    else byTopic.set(key, { topic: asked.topic, topicId: asked.topicId, partitions: [answer] })
  }
  return {
    throttleTimeMs: 0,
    errorCode: KafkaError.NONE,
    sessionId: session?.id ?? 0,
    responses: [...byTopic.values()],
    ...(context.version >= 16 && {
      nodeEndpoints: context.cluster.endpointsOf(found.map(one => one.answer))
    })
  }
}

function isNews({ asked, answer }: Found): boolean {
  return (
    answer.errorCode !== KafkaError.NONE ||
    answer.divergingEpoch !== undefined ||
    asked.told?.highWatermark !== answer.highWatermark ||
    asked.told.logStartOffset !== answer.logStartOffset
  )
}

function failed(partitionIndex: number, errorCode: number): PartitionResponse {
  return { partitionIndex, errorCode, highWatermark: -1, abortedTransactions: [], records: [] }
}
