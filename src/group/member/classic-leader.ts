/**
 * What members of a classic group write to each other through the coordinator, and what the leader makes of it.
 *
 * Java's consumers, and those that follow it, read and write the same: subscriptions of version 3 say what a member has
 * and of which generation (KIP-429, KIP-792). The user data of 'cooperative-sticky' begin with the generation too, where
 * Java's clients before 3.4 look for it; the mark of a rewindable member stands behind it (rewind-envelope.ts).
 */
import { PlayheadError } from '../../base/error.ts'
import { codec } from '../../protocol/codec.ts'
import { ConsumerProtocolAssignment } from '../../protocol/embedded/assignment.ts'
import { rewindableMark } from '../../protocol/embedded/rewind-envelope.ts'
import { ConsumerProtocolSubscription } from '../../protocol/embedded/subscription.ts'
import { Reader } from '../../protocol/reader.ts'
import type { Fields, Message, Read, Written } from '../../protocol/schema.ts'
import { Writer } from '../../protocol/writer.ts'
import type { Assignor, Partitions, Subscriber } from '../assign/assignor.ts'
import { assignRange } from '../assign/range.ts'
import { assignRoundRobin } from '../assign/round-robin.ts'
import { assignUniform } from '../assign/uniform.ts'
import type {
  AssignorName,
  Assignments,
  ClassicMember,
  JoinedMember,
  PartitionCounts
} from './classic-state.ts'
import { type Lease, type Leases, leasesOf } from './protocol.ts'

const assignors: Readonly<Record<AssignorName, Assignor>> = {
  'cooperative-sticky': assignUniform,
  range: assignRange,
  roundrobin: assignRoundRobin,
  RoundRobinAssigner: assignRoundRobin
}

/** The metadata of each assignor that `member` offers. */
export function offers(member: ClassicMember): { name: string; metadata: Buffer }[] {
  const { config, subscription, owned, epoch: generationId } = member
  const mark = config.rewindable ? Buffer.from(rewindableMark, 'latin1') : Buffer.alloc(0)
  return config.assignors.map(name => {
    const generation = Buffer.alloc(name === 'cooperative-sticky' ? 4 : 0)
    if (generation.length > 0) generation.writeInt32BE(generationId)
    const userData = Buffer.concat([generation, mark])
    const metadata = write(ConsumerProtocolSubscription, 3, {
      topics: [...subscription.topics].sort(),
      userData: userData.length > 0 ? userData : null,
      ownedPartitions: byTopic(owned.values()),
      generationId,
      rackId: config.rackId
    })
    return { name, metadata }
  })
}

/** What the leader gave to this member. Throws MALFORMED_FRAME. */
export function leasesIn(assignment: Buffer): Leases {
  if (assignment.length === 0) return leasesOf([])
  const { assignedPartitions } = read(ConsumerProtocolAssignment, assignment)
  return leasesOf(
    assignedPartitions.flatMap(({ topic, partitions }) =>
      partitions.map((partition): Lease => ({ topic, partition }))
    )
  )
}

interface Subscribed {
  readonly memberId: string
  readonly order: string
  readonly topics: readonly string[]
  readonly owned: Partitions
  /** -1: it doesn't say. */
  readonly generation: number
}

/** Every topic that any member wants. */
export function topicsOf(members: readonly JoinedMember[]): string[] {
  return [...new Set(members.flatMap(member => subscribed(member).topics))].sort()
}

/** How many partitions of each of `topics` are in `assignments`. */
export function countAssigned(
  topics: readonly string[],
  assignments: readonly Buffer[]
): PartitionCounts {
  const counts = new Map(topics.map(topic => [topic, 0]))
  for (const assignment of assignments) {
    for (const { topic } of leasesIn(assignment).values()) {
      counts.set(topic, (counts.get(topic) ?? 0) + 1)
    }
  }
  return counts
}

/** What each member gets. `counts` must have all of `topicsOf(members)` that exist. */
export function assign(
  assignor: string,
  members: readonly JoinedMember[],
  counts: PartitionCounts
): Assignments {
  const all = members.map(subscribed)
  const newest = Math.max(...all.map(({ generation }) => generation))
  // Who was away while the group went on says what it had then: others have it by now.
  const current = all.map(one => (isStale(one, newest) ? { ...one, owned: noPartitions } : one))
  const subscribers = current.map(({ order, topics, owned }): Subscriber => {
    const wanted = topics.map(id => ({ id, partitionCount: counts.get(id) ?? 0 }))
    return { id: order, topics: wanted, owned }
  })
  const name = assignor as AssignorName
  const shares = assignors[name](subscribers)
  const given = name === 'cooperative-sticky' ? withoutOthers(shares, subscribers) : shares
  return members.map(({ memberId }, index) => ({
    memberId,
    assignment: write(ConsumerProtocolAssignment, 0, {
      assignedPartitions: [...(given[index] ?? noPartitions)].map(([topic, partitions]) => {
        return { topic, partitions: [...partitions].sort((a, b) => a - b) }
      }),
      userData: null
    })
  }))
}

const noPartitions: Partitions = new Map()

function isStale({ generation }: Subscribed, newest: number): boolean {
  return generation >= 0 && generation < newest
}

/**
 * `shares` without what another has: it is nobody's in this generation. Its owner sees that, gives it up, and joins
 * again; in that generation it goes to whom it is meant for (KIP-429).
 */
function withoutOthers(
  shares: readonly Partitions[],
  subscribers: readonly Subscriber[]
): readonly Partitions[] {
  const owners = new Map<string, Map<number, number | 'several'>>()
  for (const [index, { owned }] of subscribers.entries()) {
    for (const [topic, partitions] of owned) {
      const of = owners.get(topic) ?? new Map<number, number | 'several'>()
      owners.set(topic, of)
      for (const partition of partitions) of.set(partition, of.has(partition) ? 'several' : index)
    }
  }
  return shares.map((share, index) => {
    const free = new Map<string, Set<number>>()
    for (const [topic, partitions] of share) {
      const of = owners.get(topic)
      const some = [...partitions].filter(p => (of?.get(p) ?? index) === index)
      if (some.length > 0) free.set(topic, new Set(some))
    }
    return free
  })
}

/** A member that cannot be read gets nothing; the others must not suffer from it. */
function subscribed({ memberId, groupInstanceId, metadata }: JoinedMember): Subscribed {
  // Static members first, as in Java: their place in the order outlives their member ids.
  const order = groupInstanceId === null ? `1${memberId}` : `0${groupInstanceId}`
  try {
    const subscription = read(ConsumerProtocolSubscription, metadata)
    const { topics, userData } = subscription
    const owned = new Map<string, ReadonlySet<number>>()
    for (const { topic, partitions } of subscription.ownedPartitions) {
      owned.set(topic, new Set(partitions))
    }
    const older = metadata.readInt16BE(0) < 2 && userData !== null && userData.length >= 4
    const generation = older ? userData.readInt32BE(0) : subscription.generationId
    return { memberId, order, topics: [...new Set(topics)], owned, generation }
  } catch (error) {
    if (!(error instanceof PlayheadError)) throw error
    return { memberId, order, topics: [], owned: noPartitions, generation: -1 }
  }
}

function byTopic(leases: Iterable<Lease>): { topic: string; partitions: number[] }[] {
  const topics = new Map<string, number[]>()
  for (const { topic, partition } of leases) {
    const partitions = topics.get(topic)
    if (partitions) partitions.push(partition)
    else topics.set(topic, [partition])
  }
  return [...topics].map(([topic, partitions]) => ({ topic, partitions }))
}

function write<F extends Fields>(message: Message<F>, version: number, value: Written<F>): Buffer {
  const writer = new Writer()
  writer.int16(version)
  codec(message, version).write(writer, value)
  return writer.join()
}

/** Later versions begin as the last that we know does. */
function read<F extends Fields>(message: Message<F>, bytes: Buffer): Read<F> {
  const reader = new Reader(bytes)
  const version = Math.min(reader.int16(), message.versions[1])
  if (version < 0) throw new PlayheadError('MALFORMED_FRAME', `${message.name} v${version}`)
  return codec(message, version).read(reader)
}
