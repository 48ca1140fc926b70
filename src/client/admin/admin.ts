/**
 * Administration: topics, groups, offsets, and the rewinding of groups while they run. It holds no state and no
 * connection of its own, so it needs no close.
 */
import { PlayheadError } from '../../base/error.ts'
import type { RewindPlan } from '../../group/ledger/plan.ts'
import { ApiVersions } from '../../protocol/api/api-versions.ts'
import { apiByKey } from '../../protocol/apis.ts'
import type { Sequence } from '../../protocol/embedded/rewind-envelope.ts'
import type { Cluster, WaitOptions } from '../../rpc/cluster.ts'
import { fetchOffsets, type ListedGroups, listGroups } from '../../rpc/groups.ts'
import type { BrokerNode, TopicMetadata } from '../../rpc/metadata.ts'
import { type ListedOffset, listOffsets } from '../../rpc/partition-offsets.ts'
import { answerError } from '../../rpc/answer-errors.ts'
import type { TopicPartition, TopicPartitionOffset } from '../partition.ts'
import { type Moment, timestampOf } from '../time.ts'
import {
  deleteGroups,
  deleteOffsets,
  describeGroups,
  type GroupDescription,
  type GroupPartitionLag,
  groupLag
} from './groups.ts'
import { type RewindOptions, rewind } from './rewind.ts'
import {
  type PlanOptions,
  planBoundedReplay,
  planRewind,
  planUndo,
  type ReplayPlanOptions,
  type RewindScope
} from './rewind-plan.ts'
import type { RewindResult } from './rewind-result.ts'
import {
  type CancelledPartition,
  type CancelOptions,
  cancelRewinds,
  type KnownRewind,
  type LedgerOptions,
  listRewinds
} from './rewind-status.ts'
import {
  addPartitions,
  type Config,
  type ConfigsOf,
  createTopics,
  deleteTopics,
  describeConfigs,
  describeTopics,
  type NewTopic
} from './topics.ts'

/** Who the cluster is. */
export interface ClusterDescription {
  /** Its id; null: not told. */
  readonly clusterId: string | null
  /** -1: none at present. */
  readonly controller: number
  /** Those that are alive. */
  readonly brokers: readonly BrokerNode[]
}

/** Versions of an API that a broker speaks, and Playhead. */
export interface SpokenApi {
  /** Kafka's number for it. */
  readonly key: number
  /** 'unknown' for one that Playhead has no declaration of. */
  readonly name: string
  /** First and last version of the broker. */
  readonly broker: readonly [first: number, last: number]
  /** Null: Playhead doesn't speak it. */
  readonly playhead: readonly [first: number, last: number] | null
}

/** An offset that a group has committed. */
export interface CommittedPartition extends TopicPartitionOffset {
  /** What was committed with it, as it is: of a Playhead consumer an envelope and then the application's. */
  readonly metadata: string
}

/**
 * Calls reject with a `PlayheadError`. Each takes `signal` and `timeoutMs`: of the whole call, by default the
 * client's `requestTimeoutMs`. `rewind`, `replay` and `undoRewind` wait for a group's members: 30,000 by default.
 */
export class Admin {
  readonly #cluster: Cluster

  constructor(cluster: Cluster) {
    this.#cluster = cluster
  }

  // — Cluster —

  /** Who the cluster is, asked now. */
  async describeCluster(options: WaitOptions = {}): Promise<ClusterDescription> {
    const { clusterId, controller, brokers } = await this.#cluster.refresh(
      this.#cluster.within(options)
    )
    return { clusterId, controller, brokers: [...brokers.values()] }
  }

  /** What a broker (default: any) speaks. */
  async apiVersions(
    options: WaitOptions & { readonly broker?: number | undefined } = {}
  ): Promise<readonly SpokenApi[]> {
    const { broker, ...wait } = options
    const to = broker === undefined ? 'any' : { node: broker }
    const software = { clientSoftwareName: 'playhead', clientSoftwareVersion: 'admin' }
    const answer = await this.#cluster.request(ApiVersions, software, { to, ...wait })
    if (answer.errorCode !== 0) throw answerError(answer.errorCode, 'ApiVersions')
    return answer.apiKeys.map(({ apiKey: key, minVersion, maxVersion }) => {
      const own = apiByKey.get(key)
      const name = own?.name ?? 'unknown'
      return { key, name, broker: [minVersion, maxVersion], playhead: own?.versions ?? null }
    })
  }

  /** The settings of a topic or broker; `names`: only these. */
  async describeConfigs(
    of: ConfigsOf,
    options: WaitOptions & { readonly names?: readonly string[] | undefined } = {}
  ): Promise<readonly Config[]> {
    return await describeConfigs(this.#cluster, of, options.names ?? null, options)
  }

  // — Topics —

  /** All topics, Kafka's own among them. */
  async listTopics(options: WaitOptions = {}): Promise<readonly TopicMetadata[]> {
    return await this.#cluster.listTopics(options)
  }

  /** Resolves once they are there and can be used. */
  async createTopics(topics: readonly NewTopic[], options: WaitOptions = {}): Promise<void> {
    await createTopics(this.#cluster, topics, options)
  }

  /** These topics. Rejects with UNKNOWN_TOPIC when one is not there. */
  async describeTopics(
    topics: readonly string[],
    options: WaitOptions = {}
  ): Promise<readonly TopicMetadata[]> {
    return await describeTopics(this.#cluster, topics, options)
  }

  /** Deletes topics with all their records. Resolves once they are gone. Rejects with UNKNOWN_TOPIC. */
  async deleteTopics(topics: readonly string[], options: WaitOptions = {}): Promise<void> {
    await deleteTopics(this.#cluster, topics, options)
  }

  /** Makes a topic have `count` partitions in all. */
  async addPartitions(topic: string, count: number, options: WaitOptions = {}): Promise<void> {
    await addPartitions(this.#cluster, topic, count, options)
  }

  /** The first offset at or after a moment in each partition; 'earliest' and 'latest' are the log's ends. */
  async listOffsets(
    partitions: readonly TopicPartition[],
    at: Moment | 'earliest' | 'latest',
    options: WaitOptions & { readonly readCommitted?: boolean | undefined } = {}
  ): Promise<readonly (TopicPartition & ListedOffset)[]> {
    const timestamp =
      at === 'earliest' ? -2 : at === 'latest' ? -1 : timestampOf(at, this.#cluster.env.clock.now())
    const queries = partitions.map(({ topic, partition }) => ({ topic, partition, timestamp }))
    const outcomes = await listOffsets(this.#cluster, queries, this.#cluster.within(options))
    return outcomes.map((outcome, i) => {
      if (outcome.error) throw outcome.error
      const { topic = '', partition = -1 } = partitions[i] ?? {}
      return { topic, partition, ...outcome.value }
    })
  }

  // — Groups —

  /** All groups. `failed` has the brokers that could not be asked: their groups are missing. */
  async listGroups(
    options: WaitOptions & {
      readonly states?: readonly string[] | undefined
      readonly types?: readonly string[] | undefined
    } = {}
  ): Promise<ListedGroups> {
    return await listGroups(this.#cluster, this.#cluster.within(options))
  }

  /** State, members, their hosts and partitions. A group that doesn't exist is 'Dead'. */
  async describeGroups(
    groups: readonly string[],
    options: WaitOptions = {}
  ): Promise<readonly GroupDescription[]> {
    return await describeGroups(this.#cluster, groups, this.#cluster.within(options))
  }

  /** How far a group is behind, partition by partition. */
  async lag(group: string, options: LedgerOptions = {}): Promise<readonly GroupPartitionLag[]> {
    return await groupLag(this.#cluster, group, this.#cluster.within(options))
  }

  /** What a group has committed, as Kafka has it; see `lag` for where it stands when a rewind is pending. */
  async offsets(group: string, options: WaitOptions = {}): Promise<readonly CommittedPartition[]> {
    const [outcome] = await fetchOffsets(this.#cluster, [{ group }], this.#cluster.within(options))
    if (outcome?.error) throw outcome.error
    return (outcome?.value ?? []).flatMap(({ topic, partition, offset, metadata, error }) => {
      if (error) throw error
      return offset < 0 ? [] : [{ topic, partition, offset, metadata: metadata ?? '' }]
    })
  }

  /** Deletes groups that have no members, with their ledgers. */
  async deleteGroups(groups: readonly string[], options: WaitOptions = {}): Promise<void> {
    await deleteGroups(this.#cluster, groups, this.#cluster.within(options))
  }

  /** Deletes a group's offsets of topics that no member subscribes to. */
  async deleteOffsets(
    group: string,
    partitions: readonly TopicPartition[],
    options: WaitOptions = {}
  ): Promise<void> {
    await deleteOffsets(this.#cluster, group, partitions, options)
  }

  // — Rewinds —

  /** What a rewind would do. Nothing is written. */
  async planRewind(group: string, options: PlanOptions): Promise<RewindPlan> {
    return await planRewind(this.#cluster, group, this.#cluster.within(options))
  }

  /**
   * Rewinds a group while it runs. Resolves when every partition is at its target, whoever owns it. Rejects with
   * a `RewindError`, whose `result` lists the partitions: REWIND_REFUSED (nothing was written, or it was taken
   * back), REWIND_PENDING (the deadline passed: it still takes place), REWIND_SUPERSEDED, PARTIALLY_APPLIED.
   */
  async rewind(plan: RewindPlan, options: RewindOptions = {}): Promise<RewindResult> {
    return await rewind(this.#cluster, plan, options)
  }

  /** What a bounded replay would do. Nothing is written. */
  async planReplay(group: string, options: ReplayPlanOptions): Promise<RewindPlan> {
    return await planBoundedReplay(this.#cluster, group, this.#cluster.within(options))
  }

  /**
   * Delivers what lies from `from` up to `until` once more, and then goes on where the group was. Resolves when
   * every owner has begun. Rejects as `rewind` does.
   */
  async replay(
    group: string,
    options: ReplayPlanOptions & Omit<RewindOptions, 'allowSkip'>
  ): Promise<RewindResult> {
    const plan = await planBoundedReplay(this.#cluster, group, this.#cluster.within(options))
    if (plan.partitions.length === 0) {
      const message = `group '${group}' has consumed nothing in that range: nothing to replay`
      throw new PlayheadError('INVALID_ARGUMENT', message, { group })
    }
    return await rewind(this.#cluster, plan, options)
  }

  /** The newest rewind of each partition, by call, newest first. */
  async rewinds(group: string, options: LedgerOptions = {}): Promise<readonly KnownRewind[]> {
    return await listRewinds(this.#cluster, group, this.#cluster.within(options))
  }

  /** Takes back what nobody took up yet, and tells what became of each partition. */
  async cancelRewind(
    group: string,
    options: CancelOptions = {}
  ): Promise<readonly CancelledPartition[]> {
    return await cancelRewinds(this.#cluster, group, this.#cluster.within(options))
  }

  /** Where `undoRewind` would go. Nothing is written. */
  async planUndo(
    group: string,
    options: RewindScope & WaitOptions & { readonly id?: Sequence | undefined } = {}
  ): Promise<RewindPlan> {
    return await planUndo(this.#cluster, group, this.#cluster.within(options))
  }

  /** Rewinds to where each partition was before its last rewind (or that with `id`). */
  async undoRewind(
    group: string,
    options: RewindScope &
      Omit<RewindOptions, 'allowSkip'> & { readonly id?: Sequence | undefined } = {}
  ): Promise<RewindResult> {
    const plan = await planUndo(this.#cluster, group, this.#cluster.within(options))
    const { reason = 'undo' } = options
    return await rewind(this.#cluster, plan, { ...options, reason, allowSkip: true })
  }
}
