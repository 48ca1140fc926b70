/** What an admin sees of groups: kinds and members alike for every group protocol, lag, and their ends. */
import { PlayheadError } from '../../base/error.ts'
import { effective } from '../../group/ledger/position.ts'
import { leasesIn, readSubscription } from '../../group/member/classic-words.ts'
import { DeleteGroups } from '../../protocol/api/delete-groups.ts'
import { OffsetDelete } from '../../protocol/api/offset-delete.ts'
import { isRewindable } from '../../protocol/embedded/rewind-envelope.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { ConsumerGroupDescribe } from '../../protocol/api/consumer-group-describe.ts'
import { answerError } from '../../rpc/answer-errors.ts'
import type { Cluster, WaitOptions } from '../../rpc/cluster.ts'
import { byTopic, failed, type Outcome } from '../../rpc/fan-out.ts'
import {
  type ClassicGroupDescription,
  type ConsumerGroupDescription,
  describeClassicGroups,
  describeConsumerGroups
} from '../../rpc/groups.ts'
import { listOffsets } from '../../rpc/partition-offsets.ts'
import { Again } from '../../rpc/retry.ts'
import { keyOf, ledgerOf, readSlots } from '../ledger.ts'
import type { TopicPartition } from '../partition.ts'

/** A member of a group. */
export interface GroupMember {
  /** As the coordinator or the member made it. */
  readonly memberId: string
  /** Of a static member (KIP-345); null: it is none. */
  readonly instanceId: string | null
  /** What it calls itself. */
  readonly clientId: string
  /** Where it connects from, as the broker sees it. */
  readonly host: string
  /** Whether it takes part in live rewinds: a Playhead consumer, unless `rewindable: false`. */
  readonly rewindable: boolean
  /** What it subscribes to. */
  readonly topics: readonly string[]
  /** What it has. */
  readonly partitions: readonly TopicPartition[]
  /** What it is to have besides, once others have given it up (KIP-848). */
  readonly awaited: readonly TopicPartition[]
}

/** A group and who is in it. */
export interface GroupDescription {
  /** Its name. */
  readonly group: string
  /** 'consumer' is KIP-848, 'controller' is Playhead's own on its embedded broker. */
  readonly type: 'classic' | 'consumer' | 'controller'
  /** As Kafka names it: 'Stable', 'Empty', 'PreparingRebalance', 'Reconciling', … 'Dead': there is no such group. */
  readonly state: string
  /** The generation of a classic group isn't told: -1. */
  readonly epoch: number
  /** Who shares out the partitions, by name: 'uniform', 'range', … '': none yet. */
  readonly assignor: string
  /** Those that the coordinator knows. */
  readonly members: readonly GroupMember[]
}

/** Describes groups of either protocol. A group that doesn't exist is 'Dead' with no members. */
export async function describeGroups(
  cluster: Cluster,
  groups: readonly string[],
  options: WaitOptions = {}
): Promise<readonly GroupDescription[]> {
  const unknown = (): Outcome<ConsumerGroupDescription> =>
    failed(new PlayheadError('UNKNOWN_GROUP', 'not asked'))
  const { versions } = ConsumerGroupDescribe
  const modern = (await cluster.supports(ConsumerGroupDescribe, versions[0], options))
    ? await describeConsumerGroups(cluster, groups, options)
    : groups.map(unknown)
  const rest = groups.filter((_, i) => mayBeClassic(modern[i]?.error))
  const classic = new Map<string, Outcome<ClassicGroupDescription>>()
  const described = rest.length > 0 ? await describeClassicGroups(cluster, rest, options) : []
  rest.forEach((group, i) => {
    const found = described[i]
    if (found) classic.set(group, found)
  })
  return groups.map((group, i) => {
    const found = modern[i]
    if (found?.value) return fromConsumer(found.value)
    const old = classic.get(group)
    if (old?.value) return fromClassic(old.value)
    const error = old?.error ?? found?.error
    if (error && error.code !== 'UNKNOWN_GROUP') throw error
    return { group, type: 'classic', state: 'Dead', epoch: -1, assignor: '', members: [] }
  })
}

/** What a broker says to a question for a group of KIP-848: it has none; or, from 3.7 to 3.9, that this is switched off. */
function mayBeClassic(error: PlayheadError | null | undefined): boolean {
  return error?.code === 'UNKNOWN_GROUP' || error?.kafkaError === 'UNSUPPORTED_VERSION'
}

function fromConsumer(found: ConsumerGroupDescription): GroupDescription {
  return {
    group: found.groupId,
    type: 'consumer',
    state: found.groupState,
    epoch: found.groupEpoch,
    assignor: found.assignorName,
    members: found.members.map(member => {
      const partitions = flat(member.assignment.topicPartitions)
      const has = new Set(partitions.map(keyOf))
      return {
        memberId: member.memberId,
        instanceId: member.instanceId,
        clientId: member.clientId,
        host: member.clientHost,
        rewindable: isRewindable({ memberId: member.memberId }),
        topics: member.subscribedTopicNames,
        partitions,
        awaited: flat(member.targetAssignment.topicPartitions).filter(p => !has.has(keyOf(p)))
      }
    })
  }
}

function flat(
  topics: readonly { readonly topicName: string; readonly partitions: readonly number[] }[]
): TopicPartition[] {
  return topics.flatMap(({ topicName: topic, partitions }) =>
    partitions.map(partition => ({ topic, partition }))
  )
}

function fromClassic(found: ClassicGroupDescription): GroupDescription {
  // How the embedded broker shows them to who asks for classic groups.
  const consumers = found.protocolType === 'consumer'
  const led = consumers && found.protocolData === 'controller'
  return {
    group: found.groupId,
    type: led ? 'controller' : 'classic',
    state: found.groupState,
    epoch: -1,
    assignor: found.protocolData,
    members: found.members.map(member => {
      const { memberMetadata, memberAssignment } = member
      // What members of other kinds of groups (Kafka Connect's) tell each other is theirs.
      const subscription = consumers ? readSubscription(memberMetadata) : null
      return {
        memberId: member.memberId,
        instanceId: member.groupInstanceId,
        clientId: member.clientId,
        host: member.clientHost,
        rewindable: led || isRewindable({ userData: subscription?.userData ?? null }),
        topics: subscription?.topics ?? [],
        // While a classic group rebalances, Kafka shows what members had, and not what they are.
        partitions:
          led || (consumers && memberMetadata.length > 0) ? partitionsIn(memberAssignment) : [],
        awaited: []
      }
    })
  }
}

/** Nothing of what cannot be read. */
function partitionsIn(assignment: Buffer): readonly TopicPartition[] {
  try {
    return [...leasesIn(assignment).values()]
  } catch (error) {
    if (!(error instanceof PlayheadError)) throw error
    return []
  }
}

/** How far a group is behind in a partition. */
export interface GroupPartitionLag extends TopicPartition {
  /** The effective committed offset; null: none. */
  readonly committed: number | null
  /** Offset of the first record that is still there. */
  readonly logStart: number
  /** Offset after the last record. */
  readonly logEnd: number
  /** Null: nothing is committed. */
  readonly lag: number | null
  /** The member that has it; null: nobody. */
  readonly owner: GroupMember | null
}

/** How far a group is behind, for each partition that it has a commit for or that a member has. */
export async function groupLag(
  cluster: Cluster,
  group: string,
  options: WaitOptions & { readonly ledger?: string | undefined } = {}
): Promise<readonly GroupPartitionLag[]> {
  const { ledger = ledgerOf(group) } = options
  const [[description], topics] = await Promise.all([
    describeGroups(cluster, [group], options),
    cluster.listTopics(options)
  ])
  const known = new Map(topics.map(topic => [topic.topic, topic]))
  const owners = ownersOf(description?.members ?? [])
  const idOf = (topic: string) => known.get(topic)?.topicId ?? null
  const slots = await readSlots(cluster, group, ledger, null, idOf, options)
  const partitions = new Map<string, TopicPartition>()
  for (const slot of slots.values()) {
    if (slot.commit || slot.entry) partitions.set(keyOf(slot), slot)
  }
  for (const { partitions: of } of description?.members ?? []) {
    for (const partition of of) partitions.set(keyOf(partition), partition)
  }
  const there = [...partitions.values()].filter(p => known.get(p.topic)?.partitions[p.partition])
  const logs = await logsOf(cluster, there, options)
  const now = cluster.env.clock.now()
  return there
    .map(({ topic, partition }): GroupPartitionLag => {
      const key = keyOf({ topic, partition })
      const { commit = null, entry = null } = slots.get(key) ?? {}
      const committed = effective(commit, entry, now).offset
      const { start: logStart = 0, end: logEnd = 0 } = logs.get(key) ?? {}
      const lag = committed === null ? null : Math.max(0, logEnd - committed)
      return { topic, partition, committed, logStart, logEnd, lag, owner: owners.get(key) ?? null }
    })
    .sort((a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition))
}

/** Who has each partition, or is to have it next. By key. */
export function ownersOf(members: readonly GroupMember[]): Map<string, GroupMember> {
  const owners = new Map<string, GroupMember>()
  for (const member of members) for (const p of member.awaited) owners.set(keyOf(p), member)
  for (const member of members) for (const p of member.partitions) owners.set(keyOf(p), member)
  return owners
}

/** Where each partition's log begins and ends. By key. Rejects when any is unknown. */
export async function logsOf(
  cluster: Cluster,
  partitions: readonly TopicPartition[],
  options: WaitOptions = {}
): Promise<Map<string, { readonly start: number; readonly end: number }>> {
  if (partitions.length === 0) return new Map()
  const queries = partitions.flatMap(({ topic, partition }) => [
    { topic, partition, timestamp: -2 },
    { topic, partition, timestamp: -1 }
  ])
  const outcomes = await listOffsets(cluster, queries, options)
  const offset = (i: number) => {
    const outcome = outcomes[i]
    if (outcome?.error) throw outcome.error
    return outcome?.value?.offset ?? 0
  }
  return new Map(
    partitions.map((p, i) => [keyOf(p), { start: offset(2 * i), end: offset(2 * i + 1) }])
  )
}

/** Deletes groups, with their ledgers. Rejects with the first that is refused: a group with members is. */
export async function deleteGroups(
  cluster: Cluster,
  groups: readonly string[],
  options: WaitOptions = {}
): Promise<void> {
  for (const group of groups) {
    await deleteGroup(cluster, group, options)
    try {
      await deleteGroup(cluster, ledgerOf(group), options)
    } catch (error) {
      // There need not be one.
      if (!(error instanceof PlayheadError && error.code === 'UNKNOWN_GROUP')) throw error
    }
  }
}

async function deleteGroup(cluster: Cluster, group: string, options: WaitOptions): Promise<void> {
  const waiting = cluster.within(options)
  await cluster.retrying(waiting, async () => {
    const { timeoutMs, signal } = waiting
    const call = { to: { group }, timeoutMs, signal }
    const answer = await cluster.request(DeleteGroups, { groupsNames: [group] }, call)
    return refused(answer.results[0]?.errorCode ?? 0, `deletion of group '${group}'`, { group })
  })
}

/** Deletes a group's offsets of topics that no member subscribes to, and their ledger entries. */
export async function deleteOffsets(
  cluster: Cluster,
  group: string,
  partitions: readonly TopicPartition[],
  options: WaitOptions = {}
): Promise<void> {
  const waiting = cluster.within(options)
  for (const of of [group, ledgerOf(group)]) {
    await cluster.retrying(waiting, async () => {
      const topics = byTopic(partitions).map(([name, some]) => ({
        name,
        partitions: some.map(({ partition }) => ({ partitionIndex: partition }))
      }))
      const { timeoutMs, signal } = waiting
      const call = { to: { group: of }, timeoutMs, signal }
      const answer = await cluster.request(OffsetDelete, { groupId: of, topics }, call)
      const codes = answer.topics.flatMap(t => t.partitions.map(p => p.errorCode))
      const code = [answer.errorCode, ...codes].find(c => c !== KafkaError.NONE) ?? 0
      if (of !== group && code === KafkaError.GROUP_ID_NOT_FOUND) return null
      return refused(code, `deletion of offsets of group '${of}'`, { group: of })
    })
  }
}

/** Null when it was done, `Again` when it may be soon; throws what it will stay. */
export function refused(
  errorCode: number,
  what: string,
  details: {
    readonly group?: string
    readonly topic?: string
    readonly brokerMessage?: string | null
  }
): Again | null {
  if (errorCode === KafkaError.NONE) return null
  const error = answerError(errorCode, what, details)
  if (error.retriable) return new Again(error)
  throw error
}
