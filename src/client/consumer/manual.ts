/** A consumer without a group: it has the partitions that it was given, once their topics are known. */
import { PlayheadError } from '../../base/error.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import { isPassing, sleep } from '../../rpc/retry.ts'
import type { TopicIdPartition } from './offsets.ts'
import { type SeekTarget, placeOf } from './options.ts'
import { partitionKey, type Place, type Start } from './playhead.ts'

export interface ManualAssignment {
  readonly partitions: readonly TopicIdPartition[]
  /** Where to start, by partition key. */
  readonly start: (key: string) => Start | Place
}

const retryMs = 1_000

/** Rejects with UNKNOWN_TOPIC. While no broker can be reached it goes on trying, and says so. */
export async function manualAssignment(
  cluster: Cluster,
  assign: readonly SeekTarget[],
  signal: AbortSignal,
  trouble: (error: PlayheadError) => void
): Promise<ManualAssignment> {
  const ids = new Map<string, string>()
  for (const { topic } of assign) {
    if (!ids.has(topic)) ids.set(topic, await topicId(cluster, topic, signal, trouble))
  }
  const places = new Map(assign.map(tp => [partitionKey(tp.topic, tp.partition), placeOf(tp)]))
  return {
    partitions: assign.map(({ topic, partition }) => {
      return { topic, partition, topicId: ids.get(topic) ?? '' }
    }),
    start: key => places.get(key) ?? 'earliest'
  }
}

async function topicId(
  cluster: Cluster,
  topic: string,
  signal: AbortSignal,
  trouble: (error: PlayheadError) => void
): Promise<string> {
  for (;;) {
    try {
      return (await cluster.topic(topic, { signal })).topicId
    } catch (error) {
      if (!(error instanceof PlayheadError) || !isPassing(error)) throw error
      trouble(error)
      await sleep(cluster.env.clock, retryMs, [signal])
    }
  }
}
