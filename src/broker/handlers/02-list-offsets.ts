/** ListOffsets: where a partition begins and ends, and which record was the first at or after a time. */
import { PlayheadError } from '../../base/error.ts'
import { ListOffsets } from '../../protocol/api/list-offsets.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { BatchView } from '../../protocol/records/batch.ts'
import { RecordCursor } from '../../protocol/records/cursor.ts'
import { RecordSource } from '../../protocol/records/source.ts'
import type { RequestRead, ResponseWritten } from '../../protocol/schema.ts'
import { type Context, handler } from '../handler.ts'
import { decompressedBytes } from '../limits.ts'
import type { Isolation, Partition } from '../partition.ts'

type Asked = RequestRead<typeof ListOffsets>['topics'][number]['partitions'][number]
type Answer = ResponseWritten<typeof ListOffsets>['topics'][number]['partitions'][number]

/** Times that mean something else. */
const mark = {
  latest: -1,
  earliest: -2,
  maxTimestamp: -3,
  earliestLocal: -4,
  latestTiered: -5,
  earliestPendingUpload: -6
} as const

/** The version from which on each mark is known. */
const since: ReadonlyMap<number, number> = new Map([
  [mark.maxTimestamp, 7],
  [mark.earliestLocal, 8],
  [mark.latestTiered, 9],
  [mark.earliestPendingUpload, 11]
])

export const handleListOffsets = handler({
  api: ListOffsets,
  async handle(request, context) {
    const isolation = request.isolationLevel === 1 ? 'read_committed' : 'read_uncommitted'
    const topics = request.topics.map(async ({ name, partitions }) => ({
      name,
      partitions: await Promise.all(
        partitions.map(asked => answerFor(name, asked, isolation, context))
      )
    }))
    return { topics: await Promise.all(topics) }
  }
})

async function answerFor(
  topic: string,
  asked: Asked,
  isolation: Isolation,
  context: Context
): Promise<Answer> {
  const { partitionIndex, currentLeaderEpoch: epoch, timestamp } = asked
  const failed = (errorCode: number) => ({ partitionIndex, errorCode })
  const partition = context.cluster.catalog.partition(topic, partitionIndex)
  if (partition === undefined) return failed(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
  if (epoch >= 0 && epoch < partition.leaderEpoch) return failed(KafkaError.FENCED_LEADER_EPOCH)
  if (epoch > partition.leaderEpoch) return failed(KafkaError.UNKNOWN_LEADER_EPOCH)
  if (partition.leader !== context.node) return failed(KafkaError.NOT_LEADER_OR_FOLLOWER)
  if (timestamp < mark.earliestPendingUpload || context.version < (since.get(timestamp) ?? 0)) {
    return failed(KafkaError.UNSUPPORTED_VERSION)
  }
  try {
    const found = await find(partition, timestamp, partition.readableEnd(isolation), context)
    const { leaderEpoch, ...older } = found
    const known = context.version >= 4 ? { ...older, leaderEpoch } : older
    return { partitionIndex, errorCode: KafkaError.NONE, ...known }
  } catch (error) {
    if (!(error instanceof PlayheadError)) throw error
    context.env.log.error('an offset could not be looked up', { error })
    return failed(KafkaError.CORRUPT_MESSAGE)
  }
}

async function find(
  partition: Partition,
  timestamp: number,
  end: number,
  context: Context
): Promise<Partial<Answer>> {
  const { log } = partition
  switch (timestamp) {
    case mark.latest:
      return { offset: end, leaderEpoch: partition.leaderEpoch }
    case mark.earliest:
    case mark.earliestLocal:
      return { offset: log.startOffset, leaderEpoch: partition.epochOf(log.startOffset) }
    case mark.maxTimestamp: {
      const batch = log.maxTimestampOffset < 0 ? undefined : log.batchAt(log.maxTimestampOffset)
      return batch === undefined ? {} : recordAt(batch, batch.maxTimestamp, partition, context)
    }
    // Nothing is tiered here.
    case mark.latestTiered:
    case mark.earliestPendingUpload:
      return {}
    default: {
      const batch = log.batchByTime(timestamp, end)
      return batch === undefined ? {} : recordAt(batch, timestamp, partition, context)
    }
  }
}

/** The first record in the batch at or after the timestamp, which is at most the batch's latest. */
async function recordAt(
  batch: BatchView,
  timestamp: number,
  partition: Partition,
  { env }: Context
): Promise<Partial<Answer>> {
  const payload =
    batch.compression === 'none'
      ? batch.payload
      : await batch.decompress(env.cpu, decompressedBytes)
  const source = new RecordSource(batch, payload, partition.topic, partition.index)
  const cursor = new RecordCursor(source, partition.log.startOffset)
  while (cursor.advance()) {
    const at = source.baseTimestamp + cursor.timestampDelta
    if (at >= timestamp) {
      return { timestamp: at, offset: cursor.offset, leaderEpoch: batch.leaderEpoch }
    }
  }
  return {}
}
