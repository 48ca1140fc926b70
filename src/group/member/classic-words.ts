/**
 * What members of a classic group write to each other through the coordinator: subscriptions and assignments.
 *
 * Java's consumers, and those that follow it, read and write the same: subscriptions of version 3 say what a member has
 * and of which generation (KIP-429, KIP-792). The user data are the assignor's; the mark of a rewindable member stands
 * behind them (rewind-envelope.ts), where nobody else looks.
 */
import { PlayheadError } from '../../base/error.ts'
import { codec } from '../../protocol/codec.ts'
import { ConsumerProtocolAssignment } from '../../protocol/embedded/assignment.ts'
import { rewindableMark } from '../../protocol/embedded/rewind-envelope.ts'
import { ConsumerProtocolSubscription } from '../../protocol/embedded/subscription.ts'
import { Reader } from '../../protocol/reader.ts'
import type { Fields, Message, Read, Written } from '../../protocol/schema.ts'
import { Writer } from '../../protocol/writer.ts'
import type { AssignedPartition } from '../assign/partition-assignor.ts'
import type { ClassicMember, JoinedMember } from './classic-state.ts'
import { type Lease, type Leases, leasesOf } from './protocol.ts'
import { strategyOf } from './strategies.ts'

const mark = Buffer.from(rewindableMark, 'latin1')

/** The metadata of each assignor that `member` offers. */
export function offers(member: ClassicMember): { name: string; metadata: Buffer }[] {
  const { config, subscription, owned, epoch: generationId, last } = member
  const { topics } = subscription
  const assigned = sorted(last.leases.values())
  return config.assignors.map(choice => {
    const { name, userData } = strategyOf(choice)
    const own = userData({ topics, assigned, generation: last.generation }, generationId)
    const marked = config.rewindable ? Buffer.concat([own ?? Buffer.alloc(0), mark]) : own
    const metadata = write(ConsumerProtocolSubscription, 3, {
      topics: [...topics].sort(),
      userData: marked,
      ownedPartitions: byTopic(sorted(owned.values())),
      generationId,
      rackId: config.rackId
    })
    return { name, metadata }
  })
}

/** A subscription as it came. */
export interface Subscribed {
  readonly memberId: string
  readonly instanceId: string | null
  readonly rackId: string | null
  readonly topics: readonly string[]
  readonly ownedPartitions: readonly {
    readonly topic: string
    readonly partitions: readonly number[]
  }[]
  /** -1: it doesn't say. */
  readonly generationId: number
  /** Without the mark. */
  readonly userData: Buffer | null
}

/** A member that cannot be read wants nothing; the others must not suffer from it. */
export function subscribed({ memberId, groupInstanceId, metadata }: JoinedMember): Subscribed {
  const who = { memberId, instanceId: groupInstanceId }
  const found = readSubscription(metadata)
  if (found === null) {
    const none = { rackId: null, topics: [], ownedPartitions: [], generationId: -1, userData: null }
    return { ...who, ...none }
  }
  const { topics, ownedPartitions, generationId, userData } = found
  // Java takes an empty rack for none.
  const rackId = found.rackId === '' ? null : found.rackId
  const unmarked = userData === null ? null : withoutMark(userData)
  const wanted = [...new Set(topics)]
  return { ...who, rackId, topics: wanted, ownedPartitions, generationId, userData: unmarked }
}

/** What a member told the leader; null: nothing, or nothing that can be read. */
export function readSubscription(
  metadata: Buffer
): Read<(typeof ConsumerProtocolSubscription)['fields']> | null {
  // Some that call theirs version 1 write what is version 0 (the main branch of kafkajs).
  for (const version of [undefined, 0]) {
    try {
      return read(ConsumerProtocolSubscription, metadata, version)
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
    }
  }
  return null
}

function withoutMark(userData: Buffer): Buffer {
  const at = userData.length - mark.length
  return at >= 0 && userData.subarray(at).equals(mark) ? userData.subarray(0, at) : userData
}

/** As the leader gives it to a member. Version 0 is what everybody reads. */
export function assignmentOf(partitions: Iterable<AssignedPartition>): Buffer {
  return write(ConsumerProtocolAssignment, 0, {
    assignedPartitions: byTopic(sorted(partitions)),
    userData: null
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

/** Of consecutive partitions of a topic one entry, as Java does it. */
export function byTopic(
  partitions: readonly AssignedPartition[]
): { topic: string; partitions: number[] }[] {
  const topics = new Map<string, number[]>()
  for (const { topic, partition } of partitions) {
    const some = topics.get(topic)
    if (some) some.push(partition)
    else topics.set(topic, [partition])
  }
  return [...topics].map(([topic, numbers]) => ({ topic, partitions: numbers }))
}

function sorted(partitions: Iterable<AssignedPartition>): AssignedPartition[] {
  return [...partitions].sort((a, b) => {
    if (a.topic !== b.topic) return a.topic < b.topic ? -1 : 1
    return a.partition - b.partition
  })
}

function write<F extends Fields>(message: Message<F>, version: number, value: Written<F>): Buffer {
  const writer = new Writer()
  writer.int16(version)
  codec(message, version).write(writer, value)
  return writer.join()
}

/** Later versions begin as the last that we know does. */
function read<F extends Fields>(message: Message<F>, bytes: Buffer, as?: number): Read<F> {
  const reader = new Reader(bytes)
  const said = reader.int16()
  const version = as ?? Math.min(said, message.versions[1])
  if (said < 0) throw new PlayheadError('MALFORMED_FRAME', `${message.name} v${said}`)
  return codec(message, version).read(reader)
}
