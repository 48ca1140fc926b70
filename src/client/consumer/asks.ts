/** What a consumer asks the brokers for because its application wants to know: nothing of it changes a position. */
import { isOfAnother, parseCommit } from '../../protocol/embedded/rewind-envelope.ts'
import type { Cluster, WaitOptions } from '../../rpc/cluster.ts'
import { fetchOffsets } from '../../rpc/groups.ts'
import { listOffsets } from '../../rpc/partition-offsets.ts'
import type { TopicPartition } from '../partition.ts'
import { earliestTimestamp, latestTimestamp } from './offsets.ts'
import { partitionKey } from './playhead.ts'
import { zeroTopicId } from './session.ts'

/** What a group has committed for a partition. */
export interface CommittedOffset extends TopicPartition {
  /** The next record of a member that starts there; null: nothing is committed. */
  readonly offset: number | null
  /** What the application gave to `commit(metadata)`; '' when it gave nothing. */
  readonly metadata: string
}

/** The ends of a partition's log. */
export interface LogEnds extends TopicPartition {
  /** Of the first record that is still there, or will be. */
  readonly start: number
  /** Behind the last record that this consumer may read; at 'read_committed' before the first open transaction. */
  readonly end: number
}

/** Rejects with what kept one of `partitions` from being read. */
export async function askCommitted(
  cluster: Cluster,
  group: string,
  partitions: readonly TopicPartition[],
  options: WaitOptions
): Promise<readonly CommittedOffset[]> {
  if (partitions.length === 0) return []
  const asked = { ...options, requireStable: true }
  const [outcome] = await fetchOffsets(cluster, [{ group, partitions }], asked)
  if (outcome?.error) throw outcome.error
  const found = new Map<string, CommittedOffset>()
  for (const { topic, partition, offset, metadata, error } of outcome?.value ?? []) {
    if (error) throw error
    const { topicId = zeroTopicId } = cluster.metadata.topics.get(topic) ?? {}
    if (offset < 0 || isOfAnother(metadata, topicId)) continue
    const { application } = parseCommit(metadata)
    found.set(partitionKey(topic, partition), { topic, partition, offset, metadata: application })
  }
  return partitions.map(({ topic, partition }) => {
    const none = { topic, partition, offset: null, metadata: '' }
    return found.get(partitionKey(topic, partition)) ?? none
  })
}

/** Rejects with what kept one of `partitions` from being looked at. */
export async function askEnds(
  cluster: Cluster,
  readCommitted: boolean,
  partitions: readonly TopicPartition[],
  options: WaitOptions
): Promise<readonly LogEnds[]> {
  if (partitions.length === 0) return []
  const look = async (timestamp: number) => {
    const wanted = partitions.map(({ topic, partition }) => ({ topic, partition, timestamp }))
    const outcomes = await listOffsets(cluster, wanted, { ...options, readCommitted })
    return outcomes.map(({ error, value }) => {
      if (error) throw error
      return value.offset
    })
  }
  const [starts, ends] = await Promise.all([look(earliestTimestamp), look(latestTimestamp)])
  return partitions.map(({ topic, partition }, i) => {
    return { topic, partition, start: starts[i] ?? 0, end: ends[i] ?? 0 }
  })
}
