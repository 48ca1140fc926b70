/**
 * The ways in which the leader of a classic group can assign, by the names that groups know them by: what a member says
 * of itself for each (its user data), how the leader reads it, and who gets what.
 */
import { PlayheadError } from '../../base/error.ts'
import { codec } from '../../protocol/codec.ts'
import { StickyAssignorUserData } from '../../protocol/embedded/sticky-user-data.ts'
import { Reader } from '../../protocol/reader.ts'
import { Writer } from '../../protocol/writer.ts'
import { add, type Assignor, type Partitions } from '../assign/assignor.ts'
import type {
  AssignedPartition,
  AssignorSelf,
  AssignorTopic,
  PartitionAssignor
} from '../assign/partition-assignor.ts'
import { assignRangeByRack, type RackedSubscriber } from '../assign/range-by-rack.ts'
import { assignRoundRobin } from '../assign/round-robin.ts'
import { assignUniform } from '../assign/uniform.ts'
import type { Subscribed } from './classic-words.ts'

/**
 * Assignors by their names in groups. Whoever offers only cooperative ones keeps its partitions while it joins.
 * 'RoundRobinAssigner' is what kafkajs calls its own.
 */
export type AssignorName =
  | 'cooperative-sticky'
  | 'range'
  | 'roundrobin'
  | 'sticky'
  | 'RoundRobinAssigner'

export const assignorNames: readonly AssignorName[] = [
  'cooperative-sticky',
  'range',
  'roundrobin',
  'sticky',
  'RoundRobinAssigner'
]

/** One of Kafka's assignors, or one that the application brings along. */
export type AssignorChoice = AssignorName | PartitionAssignor

/** What a member has, or had, as far as it says. */
export interface Holding {
  readonly owned: Partitions
  /** -1: it doesn't say in which. */
  readonly generation: number
}

/** A member as strategies see it. */
export interface Candidate extends Subscribed {
  readonly owned: Partitions
}

export type Layout = ReadonlyMap<string, AssignorTopic>

export interface Strategy {
  readonly name: string
  readonly cooperative: boolean
  /** Null: it has nothing to tell. `generation` is that in which it joins. */
  readonly userData: (self: AssignorSelf, generation: number) => Buffer | null
  readonly holding: (subscribed: Subscribed) => Holding
  /** What each candidate gets, in their order. Throws INVALID_ARGUMENT: a strategy of one's own went wrong. */
  readonly assign: (candidates: readonly Candidate[], topics: Layout) => readonly Partitions[]
}

export function strategyOf(choice: AssignorChoice): Strategy {
  return typeof choice === 'string' ? strategies[choice] : ownStrategy(choice)
}

/** The strategy of `name` among those that a member offers; undefined: it doesn't. */
export function offered(choices: readonly AssignorChoice[], name: string): Strategy | undefined {
  const choice = choices.find(one => (typeof one === 'string' ? one : one.name) === name)
  return choice === undefined ? undefined : strategyOf(choice)
}

const strategies: Readonly<Record<AssignorName, Strategy>> = {
  'cooperative-sticky': {
    name: 'cooperative-sticky',
    cooperative: true,
    userData: (_, generation) => int32(generation),
    // Java's clients before 3.4 look for the generation there, and say it there alone.
    holding: ({ ownedPartitions, generationId, userData }) => ({
      owned: partitionsOf(ownedPartitions),
      generation:
        generationId < 0 && userData !== null && userData.length >= 4
          ? userData.readInt32BE(0)
          : generationId
    }),
    assign: by(assignUniform)
  },
  sticky: {
    name: 'sticky',
    cooperative: false,
    userData: previousAssignment,
    holding: ({ userData }) => (userData === null ? nothing : previousIn(userData)),
    assign: by(assignUniform)
  },
  range: { ...unaware('range'), assign: byRack },
  roundrobin: { ...unaware('roundrobin'), assign: by(assignRoundRobin) },
  RoundRobinAssigner: { ...unaware('RoundRobinAssigner'), assign: by(assignRoundRobin) }
}

const nothing: Holding = { owned: new Map(), generation: -1 }

/** Whose assignor doesn't care what members had. */
function unaware(name: AssignorName): Omit<Strategy, 'assign'> {
  return { name, cooperative: false, userData: () => null, holding: said }
}

function said({ ownedPartitions, generationId }: Subscribed): Holding {
  return { owned: partitionsOf(ownedPartitions), generation: generationId }
}

function by(assignor: Assignor): Strategy['assign'] {
  return (candidates, topics) => assignor(subscribersOf(candidates, topics))
}

function byRack(candidates: readonly Candidate[], topics: Layout): readonly Partitions[] {
  const racks = new Map([...topics].map(([topic, layout]) => [topic, layout.racks]))
  return assignRangeByRack(subscribersOf(candidates, topics), racks)
}

function subscribersOf(candidates: readonly Candidate[], topics: Layout): RackedSubscriber[] {
  return candidates.map(({ memberId, instanceId, rackId, topics: wanted, owned }) => ({
    id: memberId,
    instanceId,
    rackId,
    topics: wanted.map(id => ({ id, partitionCount: topics.get(id)?.partitionCount ?? 0 })),
    owned
  }))
}

// User data

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

/** A member that never had an assignment says nothing, as Java's. */
function previousAssignment({ assigned, generation }: AssignorSelf): Buffer | null {
  if (generation < 0) return null
  const writer = new Writer()
  const previous = [...partitionsIn(assigned)].map(([topic, partitions]) => {
    return { topic, partitions: [...partitions] }
  })
  codec(StickyAssignorUserData, 1).write(writer, { previousAssignment: previous, generation })
  return writer.join()
}

function previousIn(userData: Buffer): Holding {
  for (const version of [1, 0]) {
    try {
      const said = codec(StickyAssignorUserData, version).read(new Reader(userData))
      const { previousAssignment: previous, generation } = said
      return { owned: partitionsOf(previous), generation }
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
    }
  }
  return nothing
}

function partitionsOf(
  topics: readonly { readonly topic: string; readonly partitions: readonly number[] }[]
): Partitions {
  return new Map(topics.map(({ topic, partitions }) => [topic, new Set(partitions)]))
}

function partitionsIn(partitions: Iterable<AssignedPartition>): Partitions {
  const topics = new Map<string, Set<number>>()
  for (const { topic, partition } of partitions) add(topics, { topicId: topic, partition })
  return topics
}

// One's own

function ownStrategy(assignor: PartitionAssignor): Strategy {
  const { name, cooperative = false } = assignor
  return {
    name,
    cooperative,
    userData: self => assignor.userData?.(self) ?? null,
    holding: said,
    assign: (candidates, topics) => checked(assignor, candidates, topics)
  }
}

function checked(
  assignor: PartitionAssignor,
  candidates: readonly Candidate[],
  topics: Layout
): readonly Partitions[] {
  const members = candidates.map(candidate => {
    const { memberId, instanceId, rackId, topics: wanted, owned, userData } = candidate
    const had = [...owned].flatMap(([topic, partitions]) =>
      [...partitions].map(partition => ({ topic, partition }))
    )
    return { memberId, instanceId, rackId, topics: wanted, owned: had, userData }
  })
  let shares: ReturnType<PartitionAssignor['assign']>
  try {
    shares = assignor.assign(members, topics)
  } catch (cause) {
    throw wrong(assignor, `threw ${String(cause)}`, cause)
  }
  if (!(shares instanceof Map)) throw wrong(assignor, 'answered no Map')
  const taken = new Set<string>()
  return members.map(({ memberId, topics: wanted }) => {
    const share = partitionsIn(shares.get(memberId) ?? [])
    for (const [topic, partitions] of share) {
      if (!wanted.includes(topic)) {
        throw wrong(assignor, `gave ${topic} to ${memberId}, which doesn't subscribe to it`)
      }
      for (const partition of partitions) {
        const what = `${topic}[${partition}]`
        const count = topics.get(topic)?.partitionCount ?? 0
        const exists = Number.isInteger(partition) && partition >= 0 && partition < count
        if (!exists) throw wrong(assignor, `gave away ${what}, which isn't there`)
        if (taken.has(what)) throw wrong(assignor, `gave ${what} to two members`)
        taken.add(what)
      }
    }
    return share
  })
}

function wrong({ name }: PartitionAssignor, what: string, cause?: unknown): PlayheadError {
  const details = cause === undefined ? {} : { cause }
  return new PlayheadError('INVALID_ARGUMENT', `the assignor '${name}' ${what}`, details)
}
