/** What the leader of a classic group makes of what the members have written to it: who gets which partitions. */
import type { Partitions } from '../assign/assignor.ts'
import type { Assignments, JoinedMember, PartitionCounts, PartitionRacks } from './classic-state.ts'
import { assignmentOf, leasesIn, subscribed } from './classic-words.ts'
import type { Candidate, Strategy } from './strategies.ts'

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

/**
 * What each member gets. `counts` must have all of `topicsOf(members)` that exist. Throws INVALID_ARGUMENT: a strategy
 * of the application's own went wrong.
 */
export function assign(
  strategy: Strategy,
  members: readonly JoinedMember[],
  counts: PartitionCounts,
  racks: PartitionRacks
): Assignments {
  const all = members.map(member => {
    const one = subscribed(member)
    return { one, holding: strategy.holding(one) }
  })
  const newest = Math.max(...all.map(({ holding }) => holding.generation))
  const candidates = all.map(({ one, holding: { owned, generation } }): Candidate => {
    // Who was away while the group went on says what it had then: others have it by now.
    const isStale = generation >= 0 && generation < newest
    return { ...one, owned: isStale ? noPartitions : owned }
  })
  const topics = new Map(
    [...counts]
      .filter(([, partitionCount]) => partitionCount > 0)
      .map(([topic, partitionCount]) => [topic, { partitionCount, racks: racks.get(topic) ?? [] }])
  )
  const shares = strategy.assign(candidates, topics)
  const given = strategy.cooperative ? withoutOthers(shares, candidates) : shares
  return members.map(({ memberId }, index) => {
    const share = [...(given[index] ?? noPartitions)].flatMap(([topic, partitions]) =>
      [...partitions].map(partition => ({ topic, partition }))
    )
    return { memberId, assignment: assignmentOf(share) }
  })
}

const noPartitions: Partitions = new Map()

/**
 * `shares` without what another has: it is nobody's in this generation. Its owner sees that, gives it up, and joins
 * again; in that generation it goes to whom it is meant for (KIP-429).
 */
function withoutOthers(
  shares: readonly Partitions[],
  candidates: readonly Candidate[]
): readonly Partitions[] {
  const owners = new Map<string, Map<number, number | 'several'>>()
  for (const [index, { owned }] of candidates.entries()) {
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
