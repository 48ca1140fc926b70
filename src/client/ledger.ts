/**
 * The two slots of each partition, read and written: the group's own commit, and the entry in its ledger
 * (live-rewind.md). What they mean is decided in group/ledger.
 */
import { PlayheadError } from '../base/error.ts'
import { type Commit, readCommit } from '../group/ledger/position.ts'
import { OffsetCommit } from '../protocol/api/offset-commit.ts'
import {
  encodeEntry,
  isOfAnother,
  parseEntry,
  type RewindEntry,
  type Sequence
} from '../protocol/embedded/rewind-envelope.ts'
import { KafkaError } from '../protocol/errors.ts'
import { answerError } from '../rpc/answer-errors.ts'
import type { Cluster, WaitOptions } from '../rpc/cluster.ts'
import { byTopic } from '../rpc/fan-out.ts'
import { fetchOffsets } from '../rpc/groups.ts'
import { noTopicId } from '../rpc/metadata.ts'
import { Again } from '../rpc/retry.ts'

/** The ledger of a group, unless it is given another. */
export function ledgerOf(group: string): string {
  return `${group}.rewind`
}

export interface TopicPartitionId {
  readonly topic: string
  readonly topicId: string
  readonly partition: number
}

/** A map's key for a partition. */
export function keyOf({ topic, partition }: { topic: string; partition: number }): string {
  return `${topic}/${partition}`
}

/** What both slots hold of a partition. */
export interface Slots {
  readonly topic: string
  readonly partition: number
  readonly commit: Commit | null
  readonly entry: RewindEntry | null
  /** What both slots show of sequences, also those of a topic that is not asked about, or was deleted. */
  readonly seen: readonly Sequence[]
}

const empty = { commit: null, entry: null, seen: [] } as const

/**
 * Reads both slots of `partitions`; null: of every partition that either has something of, with `topicId`
 * telling which topics there are (null: the topic is gone, its entry too). By key. Rejects when any is unknown.
 */
export async function readSlots(
  cluster: Cluster,
  group: string,
  ledger: string,
  partitions: readonly TopicPartitionId[] | null,
  topicId: (topic: string) => string | null,
  options: WaitOptions = {}
): Promise<ReadonlyMap<string, Slots>> {
  const queries = [
    { group, partitions },
    { group: ledger, partitions }
  ]
  const [commits, entries] = await fetchOffsets(cluster, queries, options)
  for (const outcome of [commits, entries]) if (outcome?.error) throw outcome.error
  const slots = new Map<string, Slots>()
  for (const { topic, partition } of partitions ?? []) {
    slots.set(keyOf({ topic, partition }), { topic, partition, ...empty })
  }
  for (const { topic, partition, offset, metadata, error } of commits?.value ?? []) {
    if (error) throw error
    const former = isOfAnother(metadata, topicId(topic) ?? noTopicId)
    const found = readCommit(offset, metadata)
    const seen = found?.sequence ? [found.sequence] : []
    const commit = former ? null : found
    slots.set(keyOf({ topic, partition }), { topic, partition, commit, entry: null, seen })
  }
  for (const { topic, partition, offset, metadata, error } of entries?.value ?? []) {
    if (error) throw error
    const found = offset < 0 ? null : parseEntry(metadata ?? '', offset)
    const { commit, seen } = slots.get(keyOf({ topic, partition })) ?? empty
    const entry = found?.topicId === topicId(topic) ? found : null
    const both = found === null ? seen : [...seen, found.sequence]
    slots.set(keyOf({ topic, partition }), { topic, partition, commit, entry, seen: both })
  }
  return slots
}

export interface OutsideCommit {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly metadata: string
}

/**
 * Commits from outside the group, all in one request, again until it is answered: the same request twice is as
 * good as once. 'live': the group has members, and nothing was written. Rejects when it is refused.
 */
export async function commitFromOutside(
  cluster: Cluster,
  group: string,
  commits: readonly OutsideCommit[],
  options: WaitOptions = {}
): Promise<'done' | 'live'> {
  const body = {
    groupId: group,
    generationIdOrMemberEpoch: -1,
    memberId: '',
    topics: byTopic(commits).map(([name, of]) => ({
      name,
      partitions: of.map(({ partition, offset, metadata }) => ({
        partitionIndex: partition,
        committedOffset: offset,
        committedMetadata: metadata
      }))
    }))
  }
  const waiting = cluster.within(options)
  return await cluster.retrying(waiting, async () => {
    const { signal, timeoutMs } = waiting
    // By name: from version 10 on topics go by id.
    const call = { to: { group }, maxVersion: 9, timeoutMs, signal }
    try {
      const answer = await cluster.request(OffsetCommit, body, call)
      return verdict(group, answer.topics)
    } catch (error) {
      if (error instanceof PlayheadError && error.code === 'CONNECTION_LOST')
        return new Again(error)
      throw error
    }
  })
}

function verdict(
  group: string,
  topics: readonly {
    readonly name: string
    readonly partitions: readonly { readonly partitionIndex: number; readonly errorCode: number }[]
  }[]
): 'done' | 'live' | Again {
  for (const { name: topic, partitions } of topics) {
    for (const { partitionIndex: partition, errorCode } of partitions) {
      if (errorCode === KafkaError.NONE) continue
      if (isMembers(errorCode)) return 'live'
      const what = `commit of ${topic}-${partition} to group '${group}'`
      const error = answerError(errorCode, what, { topic, partition, group })
      if (error.retriable) return new Again(error)
      throw error
    }
  }
  return 'done'
}

/** What a group with members says to a commit from outside. */
function isMembers(errorCode: number): boolean {
  return (
    errorCode === KafkaError.UNKNOWN_MEMBER_ID ||
    errorCode === KafkaError.ILLEGAL_GENERATION ||
    errorCode === KafkaError.STALE_MEMBER_EPOCH ||
    errorCode === KafkaError.REBALANCE_IN_PROGRESS
  )
}

/** An entry, and where it belongs. */
export interface PartitionEntry {
  readonly topic: string
  readonly partition: number
  readonly entry: RewindEntry
}

/** Writes entries to the ledger, all or nothing. */
export async function writeEntries(
  cluster: Cluster,
  ledger: string,
  entries: readonly PartitionEntry[],
  options: WaitOptions = {}
): Promise<void> {
  if (entries.length === 0) return
  const commits = entries.map(({ topic, partition, entry }) => {
    return { topic, partition, offset: entry.target, metadata: encodeEntry(entry) }
  })
  const result = await commitFromOutside(cluster, ledger, commits, options)
  if (result === 'done') return
  const message = `group '${ledger}' has members: somebody consumes under the name of a rewind ledger`
  throw new PlayheadError('REWIND_REFUSED', message, { group: ledger })
}
