/**
 * How the requests of a classic group's member are sent. Those that wait for other members, JoinGroup and SyncGroup, go
 * by a connection of their own: a broker answers one connection's requests in order, and heartbeats and commits must
 * not wait behind them.
 */
import { type ClassicEvent, decide } from '../../group/member/classic.ts'
import { countAssigned } from '../../group/member/classic-leader.ts'
import {
  apply,
  checkInvariants,
  type ClassicAnswer,
  type ClassicMember,
  type ClassicMemberConfig,
  classicMember,
  type ClassicRequest,
  type Counted,
  type Fact,
  type PartitionRacks
} from '../../group/member/classic-state.ts'
import type { Subscription } from '../../group/member/protocol.ts'
import { DescribeGroups } from '../../protocol/api/describe-groups.ts'
import { Heartbeat } from '../../protocol/api/heartbeat.ts'
import { JoinGroup } from '../../protocol/api/join-group.ts'
import { LeaveGroup } from '../../protocol/api/leave-group.ts'
import { SyncGroup } from '../../protocol/api/sync-group.ts'
import type { CallOptions } from '../../rpc/call.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import type { Metadata } from '../../rpc/metadata.ts'
import {
  heartbeatTimeoutMs,
  type MemberPort,
  type MembershipHost,
  type MembershipOf,
  type NamedTopic
} from './membership.ts'

/** The coordinator answers when all have joined, or their time is up. */
const afterRebalanceMs = 5_000

export function classicPort(
  host: MembershipHost,
  config: ClassicMemberConfig,
  subscription: Subscription
): MemberPort<ClassicMember, ClassicEvent, Fact, ClassicRequest> {
  const { cluster } = host
  const watch = new LeaderWatch(cluster)
  return {
    initial: classicMember(config, subscription),
    instanceId: config.instanceId,
    decide,
    apply,
    check: checkInvariants,
    wakeAt: ({ wakeAt }) => wakeAt,
    intervalMs: () => config.heartbeatIntervalMs,

    send(request, membership) {
      ask(host, config, request).then(
        answer => membership.tell({ on: 'answered', answer }),
        (error: unknown) => {
          if (!membership.troubled(error)) return
          const answer: ClassicAnswer = { to: request.kind, body: null }
          membership.tell({ on: 'answered', answer })
        }
      )
    },

    async topics(names) {
      await know(cluster, names)
      const known = new Map<string, NamedTopic>()
      for (const topic of names) {
        const { topicId } = cluster.metadata.topics.get(topic) ?? {}
        if (topicId !== undefined) known.set(topic, { topic, topicId })
      }
      return known
    },

    doubt: ({ epoch }) => (epoch >= 0 ? { on: 'doubted' } : null),
    changed: (member, membership) => watch.changed(member, membership),
    close() {
      watch.close()
      cluster.endLane(`${host.lane}+`)
    }
  }
}

async function ask(
  host: MembershipHost,
  { rebalanceTimeoutMs }: ClassicMemberConfig,
  request: ClassicRequest
): Promise<ClassicAnswer> {
  const { cluster, group: groupId, lane, sessionTimeoutMs } = host
  const to = { group: groupId }
  const soon: CallOptions = { to, lane, timeoutMs: heartbeatTimeoutMs(sessionTimeoutMs) }
  const late: CallOptions = {
    to,
    lane: `${lane}+`,
    timeoutMs: rebalanceTimeoutMs + afterRebalanceMs
  }
  switch (request.kind) {
    case 'join': {
      const body = await cluster.request(JoinGroup, { groupId, ...request.body }, late)
      return { to: 'join', body }
    }
    case 'count': {
      const { topics, ofGroup } = request
      const counting = ofGroup ? countOfGroup(host, topics) : count(cluster, topics)
      return { to: 'count', body: await counting }
    }
    case 'sync': {
      const body = await cluster.request(SyncGroup, { groupId, ...request.body }, late)
      return { to: 'sync', body }
    }
    case 'heartbeat': {
      const body = await cluster.request(Heartbeat, { groupId, ...request.body }, soon)
      return { to: 'heartbeat', body }
    }
    case 'leave': {
      const { memberId, members } = request.body
      const leave = (version: number) => {
        return version < 3
          ? { groupId, memberId: memberId ?? '' }
          : { groupId, members: members ?? [] }
      }
      const body = await cluster.request(LeaveGroup, leave, soon)
      return { to: 'leave', body }
    }
  }
}

/** Makes sure that the metadata have what there is to know of `topics`; from then on they are kept up to date. */
async function know(cluster: Cluster, topics: Iterable<string>): Promise<void> {
  const { metadata } = cluster
  const unknown = [...topics].filter(topic => !metadata.topics.has(topic))
  if (unknown.length > 0) await cluster.refresh({ topics: unknown })
}

async function count(cluster: Cluster, topics: readonly string[]): Promise<Counted> {
  await know(cluster, topics)
  return counted(cluster, topics)
}

async function countOfGroup(
  { cluster, group, lane }: MembershipHost,
  topics: readonly string[]
): Promise<Counted> {
  await know(cluster, topics)
  const body = { groups: [group], includeAuthorizedOperations: false }
  const { groups } = await cluster.request(DescribeGroups, body, { to: { group }, lane })
  const members = groups[0]?.members ?? []
  const assignments = members.map(({ memberAssignment }) => memberAssignment)
  return { ...counted(cluster, topics), counts: countAssigned(topics, assignments) }
}

function counted({ metadata }: Cluster, topics: Iterable<string>): Counted {
  const names = [...topics]
  const partitionsOf = (topic: string) => metadata.topics.get(topic)?.partitions ?? []
  return {
    counts: new Map(names.map(topic => [topic, partitionsOf(topic).length])),
    racks: racksOf(metadata, names)
  }
}

/** Empty where no broker says where it is. */
function racksOf({ brokers, topics }: Metadata, names: readonly string[]): PartitionRacks {
  if (![...brokers.values()].some(({ rack }) => rack !== null)) return new Map()
  return new Map(
    names.map(name => {
      const partitions = topics.get(name)?.partitions ?? []
      return [name, partitions.map(({ replicas }) => racksIn(replicas, brokers))]
    })
  )
}

function racksIn(replicas: readonly number[], brokers: Metadata['brokers']): readonly string[] {
  const racks = new Set<string>()
  for (const id of replicas) {
    const rack = brokers.get(id)?.rack ?? null
    if (rack !== null) racks.add(rack)
  }
  return [...racks].sort()
}

/** While this member leads: tells it when there are other partitions than it has assigned. */
class LeaderWatch {
  readonly #cluster: Cluster
  #stop: (() => void) | null = null
  #plan: ClassicMember['plan'] = null

  constructor(cluster: Cluster) {
    this.#cluster = cluster
  }

  changed({ plan, phase }: ClassicMember, membership: MembershipOf<ClassicEvent>): void {
    if (phase !== 'member' || plan === null || plan === this.#plan) return
    this.#plan = plan
    this.#stop?.()
    const look = (): void => {
      membership.tell({ on: 'topics', ...counted(this.#cluster, plan.counts.keys()) })
    }
    this.#stop = this.#cluster.watch(look)
    // What came between the count and now.
    look()
  }

  close(): void {
    this.#stop?.()
    this.#stop = null
  }
}
