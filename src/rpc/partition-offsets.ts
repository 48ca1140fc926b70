/** Where partitions begin and end, and which offset a time has: from each partition's leader. */
import { PlayheadError } from '../base/error.ts'
import { ListOffsets } from '../protocol/api/list-offsets.ts'
import { KafkaError } from '../protocol/errors.ts'
import { answerError } from './answer-errors.ts'
import type { Cluster, WaitOptions } from './cluster.ts'
import { type Outcome, type Waiting, byTopic, eachOnce, fanOut, outcome } from './fan-out.ts'
import { leaderOf } from './metadata.ts'

export interface OffsetQuery {
  readonly topic: string
  readonly partition: number
  /**
   * Ms since 1970: the first record at or after. -1: the end; -2: the start; -3: the record with the largest
   * timestamp; -4: the start of what is on the broker's own disk; -5: the end of what is in remote storage.
   */
  readonly timestamp: number
}

/** An offset that was looked up. */
export interface ListedOffset {
  /** -1: there is none. */
  readonly offset: number
  /** Of the record there, milliseconds since 1970; -1: not told. */
  readonly timestamp: number
  /** Of the record there; -1: not told. */
  readonly leaderEpoch: number
}

/** The first version of ListOffsets that knows a mark. */
const versionOfMark: ReadonlyMap<number, number> = new Map([
  [-3, 7],
  [-4, 8],
  [-5, 9]
])

/** Offsets by time, from each partition's leader. */
export async function listOffsets(
  cluster: Cluster,
  queries: readonly OffsetQuery[],
  options: WaitOptions & { readonly readCommitted?: boolean | undefined } = {}
): Promise<readonly Outcome<ListedOffset>[]> {
  const minVersion = Math.max(...queries.map(q => versionOfMark.get(q.timestamp) ?? 1))
  return await fanOut(cluster, queries, options, {
    place: ({ topic, partition }, waiting) => leaderNode(cluster, topic, partition, waiting),
    moved: ({ topic, partition }) => cluster.stale(`offsets of ${topic}-${partition}`),
    async ask(node, items, waiting) {
      const ask = async (some: readonly OffsetQuery[]) => {
        const body = (version: number) => listOffsetsBody(version, some, options, waiting)
        const to = { node }
        const answer = await cluster.request(ListOffsets, body, { to, minVersion, ...waiting })
        return [...matched(some, answer.topics, found => found)]
      }
      return new Map((await Promise.all(eachOnce(items, nameOf).map(ask))).flat())
    }
  })
}

/** Kafka refuses a partition that is named twice in a request (INVALID_REQUEST). */
function nameOf({ topic, partition }: OffsetQuery): string {
  return `${partition} ${topic}`
}

function listOffsetsBody(
  version: number,
  queries: readonly OffsetQuery[],
  { readCommitted = false }: { readonly readCommitted?: boolean | undefined },
  { timeoutMs }: Waiting
) {
  return {
    replicaId: -1,
    ...(version >= 2 ? { isolationLevel: readCommitted ? 1 : 0 } : {}),
    topics: byTopic(queries).map(([name, of]) => ({
      name,
      partitions: of.map(q => ({ partitionIndex: q.partition, timestamp: q.timestamp }))
    })),
    timeoutMs
  }
}

async function leaderNode(
  cluster: Cluster,
  topic: string,
  partition: number,
  waiting: Waiting
): Promise<number> {
  let { partitions } = await cluster.topic(topic, waiting)
  if (!(partition in partitions)) {
    // It may have been added since somebody looked.
    const { topics } = await cluster.refresh(waiting)
    partitions = topics.get(topic)?.partitions ?? []
  }
  if (!(partition in partitions)) {
    const message = `topic '${topic}' has no partition ${partition}: it has ${partitions.length}`
    throw new PlayheadError('UNKNOWN_PARTITION', message, { topic, partition })
  }
  const leader = leaderOf(cluster.metadata, topic, partition)
  if (leader >= 0) return leader
  const what = `partition ${topic}-${partition}`
  throw answerError(KafkaError.LEADER_NOT_AVAILABLE, what, { topic, partition })
}

interface PartitionAnswer {
  readonly partitionIndex: number
  readonly errorCode: number
}

/** Finds each item's part of an answer by topic and partition. */
function matched<
  Item extends { readonly topic: string; readonly partition: number },
  P extends PartitionAnswer,
  T
>(
  items: readonly Item[],
  topics: readonly { readonly name: string; readonly partitions: readonly P[] }[],
  value: (answer: P) => T
): Map<Item, Outcome<T>> {
  const answers = new Map<string, Map<number, P>>()
  for (const { name, partitions } of topics) {
    answers.set(name, new Map(partitions.map(p => [p.partitionIndex, p])))
  }
  const outcomes = new Map<Item, Outcome<T>>()
  for (const item of items) {
    const { topic, partition } = item
    const answer = answers.get(topic)?.get(partition)
    if (answer) outcomes.set(item, outcome(answer, `${topic}-${partition}`, value, item))
  }
  return outcomes
}
