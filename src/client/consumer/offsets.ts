/** What a group has committed, and where in a log a moment is: the questions of rpc/, by partition key. */
import type { PlayheadError } from '../../base/error.ts'
import { isOfAnother } from '../../protocol/embedded/rewind-envelope.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import { fetchOffsets } from '../../rpc/groups.ts'
import { listOffsets } from '../../rpc/partition-offsets.ts'
import type { TopicPartition } from '../partition.ts'
import { partitionKey } from './playhead.ts'
import { zeroTopicId } from './session.ts'

export interface TopicIdPartition extends TopicPartition {
  readonly topicId: string
}

/** A group's committed offset, as it stands there. */
export interface GroupOffset {
  readonly offset: number
  readonly leaderEpoch: number
  readonly metadata: string | null
}

export interface GroupOffsets {
  readonly found: ReadonlyMap<string, GroupOffset>
  /** Those that could not be read, and why. */
  readonly unreadable: ReadonlyMap<string, PlayheadError>
  /** What is committed for these is of a former topic of their name: it counts for nothing. */
  readonly former: ReadonlySet<string>
}

/** Those that can be answered must not wait long for those that cannot: the others are asked again. */
const askMs = 3_000

/** What `group` has committed for `partitions`. Offsets of an open transaction are waited for. */
export async function committedOffsets(
  cluster: Cluster,
  group: string,
  partitions: readonly TopicIdPartition[],
  signal?: AbortSignal
): Promise<GroupOffsets> {
  const asked = { requireStable: true, timeoutMs: askMs, signal }
  const [outcome] = await fetchOffsets(cluster, [{ group, partitions }], asked)
  const found = new Map<string, GroupOffset>()
  const unreadable = new Map<string, PlayheadError>()
  const former = new Set<string>()
  const ids = new Map(partitions.map(({ topic, topicId }) => [topic, topicId]))
  if (outcome?.error) throw outcome.error
  for (const { topic, partition, error, offset, leaderEpoch, metadata } of outcome?.value ?? []) {
    const key = partitionKey(topic, partition)
    if (error !== null) unreadable.set(key, error)
    else if (offset < 0) continue
    else if (isOfAnother(metadata, ids.get(topic) ?? zeroTopicId)) former.add(key)
    else found.set(key, { offset, leaderEpoch, metadata })
  }
  return { found, unreadable, former }
}

/** ListOffsets' marks for the ends of a log. */
export const earliestTimestamp = -2
export const latestTimestamp = -1

/** Where `timestamp` (ms, or one of the marks) is in each partition; -1: no record is as young as that. */
export async function lookUpOffsets(
  cluster: Cluster,
  readCommitted: boolean,
  wanted: readonly (TopicPartition & { readonly timestamp: number })[],
  signal?: AbortSignal
): Promise<ReadonlyMap<string, number | PlayheadError>> {
  if (wanted.length === 0) return new Map()
  const outcomes = await listOffsets(cluster, wanted, { readCommitted, timeoutMs: askMs, signal })
  const offsets = new Map<string, number | PlayheadError>()
  for (const [i, { topic, partition }] of wanted.entries()) {
    const outcome = outcomes[i]
    if (outcome === undefined) continue
    offsets.set(partitionKey(topic, partition), outcome.error ?? outcome.value.offset)
  }
  return offsets
}
