/** What is known of groups: listed by every broker, described and their offsets told by their coordinators. */
import type { PlayheadError } from '../base/error.ts'
import { ConsumerGroupDescribe } from '../protocol/api/consumer-group-describe.ts'
import { DescribeGroups } from '../protocol/api/describe-groups.ts'
import { ListGroups } from '../protocol/api/list-groups.ts'
import { OffsetFetch } from '../protocol/api/offset-fetch.ts'
import { KafkaError } from '../protocol/errors.ts'
import type { ResponseOf } from '../protocol/schema.ts'
import { answerError } from './answer-errors.ts'
import type { Cluster, WaitOptions } from './cluster.ts'
import {
  type Outcome,
  type Waiting,
  byTopic,
  eachOnce,
  failed,
  fanOut,
  outcome
} from './fan-out.ts'

export interface GroupOffsetsQuery {
  readonly group: string
  /** Default, or null: every partition that the group has a commit for. */
  readonly partitions?: readonly { readonly topic: string; readonly partition: number }[] | null
  /** For a member of a KIP-848 group: refused when the epoch is not its own any more. */
  readonly memberId?: string | undefined
  readonly memberEpoch?: number | undefined
}

export interface CommittedOffset {
  readonly topic: string
  readonly partition: number
  /** -1: nothing is committed. */
  readonly offset: number
  readonly leaderEpoch: number
  readonly metadata: string | null
  /** Null, or why this partition's offset is not known. */
  readonly error: PlayheadError | null
}

/** A group in an answer, of any version. */
interface OffsetFetchGroup {
  readonly groupId: string
  readonly errorCode: number
  readonly topics: readonly {
    readonly name: string
    readonly partitions: ResponseOf<typeof OffsetFetch>['topics'][number]['partitions']
  }[]
}

/** Above this version topics go by id, whose names only the metadata knows. */
const lastVersionByName = 9

/** Committed offsets, from each group's coordinator: many groups in one request where it takes them. */
export async function fetchOffsets(
  cluster: Cluster,
  queries: readonly GroupOffsetsQuery[],
  options: WaitOptions & { readonly requireStable?: boolean | undefined } = {}
): Promise<readonly Outcome<readonly CommittedOffset[]>[]> {
  const several = await cluster.supports(OffsetFetch, 8, options)
  const { requireStable = false } = options
  return await fanOut(cluster, queries, options, {
    ...byCoordinator(cluster, (query: GroupOffsetsQuery) => query.group),
    async ask(node, items, waiting) {
      const requests = several ? eachOnce(items, q => q.group) : items.map(item => [item])
      const ask = async (some: readonly GroupOffsetsQuery[]) => {
        const body = (version: number) => offsetFetchBody(version, some, requireStable)
        const answer = await cluster.request(OffsetFetch, body, {
          to: { node },
          maxVersion: lastVersionByName,
          ...waiting
        })
        const groups = several ? answer.groups : [{ ...answer, groupId: some[0]?.group ?? '' }]
        const byGroup = new Map(groups.map(group => [group.groupId, groupOffsets(group)]))
        return some.flatMap(query => {
          const found = byGroup.get(query.group)
          return found ? [[query, found] as const] : []
        })
      }
      return new Map((await Promise.all(requests.map(ask))).flat())
    }
  })
}

function offsetFetchBody(
  version: number,
  queries: readonly GroupOffsetsQuery[],
  requireStable: boolean
) {
  const groups = queries.map(({ group, partitions, memberId = null, memberEpoch = -1 }) => ({
    groupId: group,
    memberId,
    memberEpoch,
    topics: partitions
      ? byTopic(partitions).map(([name, of]) => ({
          name,
          partitionIndexes: of.map(({ partition }) => partition)
        }))
      : null
  }))
  const stable = version >= 7 ? { requireStable } : {}
  if (version >= 8) return { groups, ...stable }
  const [{ groupId, topics } = { groupId: '', topics: null }] = groups
  return { groupId, topics, ...stable }
}

/** An offset under a transaction that is not over yet makes the whole group be asked again. */
function groupOffsets(group: OffsetFetchGroup): Outcome<readonly CommittedOffset[]> {
  const what = `committed offsets of group '${group.groupId}'`
  const unstable = group.topics.some(({ partitions }) => {
    return partitions.some(({ errorCode }) => errorCode === KafkaError.UNSTABLE_OFFSET_COMMIT)
  })
  if (unstable) return failed(answerError(KafkaError.UNSTABLE_OFFSET_COMMIT, what))
  const read = ({ topics, groupId }: OffsetFetchGroup) =>
    topics.flatMap(({ name: topic, partitions }) =>
      partitions.map(p => ({
        topic,
        partition: p.partitionIndex,
        offset: p.committedOffset,
        leaderEpoch: p.committedLeaderEpoch,
        metadata: p.metadata,
        error:
          p.errorCode === KafkaError.NONE
            ? null
            : answerError(p.errorCode, `committed offset of ${topic}-${p.partitionIndex}`, {
                topic,
                partition: p.partitionIndex,
                group: groupId
              })
      }))
    )
  return outcome(group, what, read, { group: group.groupId })
}

function byCoordinator<Item>(cluster: Cluster, groupOf: (item: Item) => string) {
  return {
    place: (item: Item, waiting: Waiting) => cluster.coordinator({ group: groupOf(item) }, waiting),
    moved: (item: Item) => cluster.coordinatorMoved({ group: groupOf(item) })
  }
}

export type ClassicGroupDescription = ResponseOf<typeof DescribeGroups>['groups'][number]
export type ConsumerGroupDescription = ResponseOf<typeof ConsumerGroupDescribe>['groups'][number]

interface DescribeOptions extends WaitOptions {
  readonly includeAuthorizedOperations?: boolean | undefined
}

/** Classic groups, from their coordinators. A group that doesn't exist is in state 'Dead', or an error. */
export async function describeClassicGroups(
  cluster: Cluster,
  groups: readonly string[],
  options: DescribeOptions = {}
): Promise<readonly Outcome<ClassicGroupDescription>[]> {
  const { includeAuthorizedOperations = false } = options
  return await fanOut(cluster, groups, options, {
    ...byCoordinator(cluster, (group: string) => group),
    async ask(node, items, waiting) {
      const body = (version: number) => ({
        groups: items,
        ...(version >= 3 ? { includeAuthorizedOperations } : {})
      })
      const answer = await cluster.request(DescribeGroups, body, { to: { node }, ...waiting })
      return described(answer.groups)
    }
  })
}

/** KIP-848 groups, from their coordinators; a classic one is an error (UNKNOWN_GROUP). */
export async function describeConsumerGroups(
  cluster: Cluster,
  groups: readonly string[],
  options: DescribeOptions = {}
): Promise<readonly Outcome<ConsumerGroupDescription>[]> {
  const { includeAuthorizedOperations = false } = options
  return await fanOut(cluster, groups, options, {
    ...byCoordinator(cluster, (group: string) => group),
    async ask(node, items, waiting) {
      const body = { groupIds: items, includeAuthorizedOperations }
      const to = { node }
      const answer = await cluster.request(ConsumerGroupDescribe, body, { to, ...waiting })
      return described(answer.groups)
    }
  })
}

function described<
  G extends {
    readonly groupId: string
    readonly errorCode: number
    readonly errorMessage: string | null
  }
>(groups: readonly G[]): ReadonlyMap<string, Outcome<G>> {
  return new Map(
    groups.map(group => {
      const { groupId, errorMessage: brokerMessage } = group
      const details = { group: groupId, brokerMessage }
      return [groupId, outcome(group, `description of group '${groupId}'`, g => g, details)]
    })
  )
}

/** A group in a list. */
export interface ListedGroup {
  /** Its name. */
  readonly group: string
  /** 'consumer' for consumers; others give their own, or ''. */
  readonly protocolType: string
  /** '' from brokers before 2.6. */
  readonly state: string
  /** 'classic', 'consumer', 'share', 'streams'; '' from brokers before 3.8. */
  readonly type: string
  /** The broker that coordinates it. */
  readonly coordinator: number
}

/** The groups of a cluster. */
export interface ListedGroups {
  /** Of the brokers that answered. */
  readonly groups: readonly ListedGroup[]
  /** Brokers that could not be asked: their groups are missing. */
  readonly failed: ReadonlyMap<number, PlayheadError>
}

/** All groups, from every broker. Filters need brokers that know them (2.6 for states, 3.8 for types). */
export async function listGroups(
  cluster: Cluster,
  options: WaitOptions & {
    readonly states?: readonly string[] | undefined
    readonly types?: readonly string[] | undefined
  } = {}
): Promise<ListedGroups> {
  const { states, types, signal, timeoutMs } = options
  const nodes = [...(await cluster.refresh({ signal, timeoutMs })).brokers.keys()]
  const body = {
    ...(states ? { statesFilter: states } : {}),
    ...(types ? { typesFilter: types } : {})
  }
  const outcomes = await fanOut(cluster, nodes, options, {
    place: node => Promise.resolve(node),
    moved: () => {},
    async ask(node, items, waiting) {
      const answer = await cluster.request(ListGroups, body, { to: { node }, ...waiting })
      const read = () => answer.groups
      return new Map(items.map(item => [item, outcome(answer, `groups of broker ${node}`, read)]))
    }
  })
  const groups = new Map<string, ListedGroup>()
  const missing = new Map<number, PlayheadError>()
  nodes.forEach((coordinator, i) => {
    const found = outcomes[i]
    if (found?.error) missing.set(coordinator, found.error)
    for (const {
      groupId: group,
      protocolType,
      groupState: state,
      groupType: type
    } of found?.value ?? []) {
      groups.set(group, { group, protocolType, state, type, coordinator })
    }
  })
  return { groups: [...groups.values()], failed: missing }
}
