/** OffsetCommit and TxnOffsetCommit: whose partitions are there, who may commit, and what comes of it. */
import type { CommitCheck, Committer } from '../group/machine.ts'
import { type CommitOf, commit } from '../group/offsets/offsets.ts'
import { KafkaError } from '../protocol/errors.ts'
import type { BrokerCluster } from './cluster.ts'
import { ClassicMembers, type Group } from './group.ts'

export interface CommittedTopic {
  readonly name: string
  readonly topicId: string
  readonly partitions: readonly {
    readonly partitionIndex: number
    readonly committedOffset: number
    readonly committedLeaderEpoch: number
    readonly committedMetadata: string | null
  }[]
}

export interface CommitRequest {
  readonly groupId: string
  readonly topics: readonly CommittedTopic[]
  /** Whether topics are named by their ids. */
  readonly byId: boolean
  readonly committer: Committer
  readonly retentionMs?: number | undefined
  readonly producerId?: bigint | undefined
}

/** Answers by topic, in the order of the request. */
export async function commitOffsets(cluster: BrokerCluster, request: CommitRequest) {
  const { groups } = cluster
  const asked: (CommitOf & { readonly answer: { errorCode: number } })[] = []
  const topics = request.topics.map(named => {
    const [topic, unknown] = topicOf(cluster, request, named)
    const partitions = named.partitions.map(one => {
      const answer = { partitionIndex: one.partitionIndex, errorCode: unknown as number }
      if (topic !== undefined) {
        asked.push({
          answer,
          topic: topic.name,
          topicId: topic.id,
          partition: one.partitionIndex,
          offset: one.committedOffset,
          leaderEpoch: one.committedLeaderEpoch,
          metadata: one.committedMetadata
        })
      }
      return answer
    })
    return { name: named.name, topicId: named.topicId, partitions }
  })
  if (asked.length === 0) return topics
  const [group, refusal] = allowed(cluster, request, asked)
  if (group === undefined) {
    for (const { answer } of asked) answer.errorCode = refusal
    return topics
  }
  const { retentionMs, producerId } = request
  const commits = asked.map(({ answer: _answer, ...one }) => one)
  const how = { nowMs: cluster.env.clock.now(), retentionMs, producerId }
  const { facts, codes } = commit(group.offsets, commits, how)
  asked.forEach(({ answer }, index) => {
    answer.errorCode = codes[index] ?? KafkaError.UNKNOWN_SERVER_ERROR
  })
  await groups.take(group, facts)
  return topics
}

function topicOf(cluster: BrokerCluster, { byId }: CommitRequest, named: CommittedTopic) {
  const { catalog } = cluster
  const topic = byId ? catalog.topicById(named.topicId) : catalog.topic(named.name)
  if (topic !== undefined) return [topic, KafkaError.NONE] as const
  return [
    undefined,
    byId ? KafkaError.UNKNOWN_TOPIC_ID : KafkaError.UNKNOWN_TOPIC_OR_PARTITION
  ] as const
}

/** The group, or why nothing of it is committed. */
function allowed(
  { groups }: BrokerCluster,
  { groupId, committer }: CommitRequest,
  asked: readonly CommitOf[]
): readonly [Group, 0] | readonly [undefined, number] {
  const { epoch, transactional, knowsEpochs, memberId } = committer
  const there = groups.get(groupId)
  if (there === undefined) {
    if (epoch < 0) return [groups.obtain(groupId, () => new ClassicMembers()), KafkaError.NONE]
    const illegal = transactional || !knowsEpochs
    return [undefined, illegal ? KafkaError.ILLEGAL_GENERATION : KafkaError.GROUP_ID_NOT_FOUND]
  }
  const { members } = there
  const verdict = members.mayCommit(committer)
  const refusal = typeof verdict === 'number' ? verdict : firstFault(verdict, asked)
  if (refusal === KafkaError.STALE_MEMBER_EPOCH && transactional) {
    // A producer knows no other word for it.
    return [undefined, KafkaError.ILLEGAL_GENERATION]
  }
  if (refusal !== KafkaError.NONE) return [undefined, refusal]
  if (members.type === 'classic' && epoch >= 0) {
    groups.tell(there, members, { kind: 'committed', memberId })
  }
  return [there, KafkaError.NONE]
}

function firstFault(check: CommitCheck, asked: readonly CommitOf[]): number {
  for (const { topicId, partition } of asked) {
    const code = check(topicId, partition)
    if (code !== KafkaError.NONE) return code
  }
  return KafkaError.NONE
}
