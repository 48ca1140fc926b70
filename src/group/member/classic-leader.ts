/** What the leader of a classic group makes of what the members have written to it: who gets which partitions. */
import type { Partitions } from '../assign/assignor.ts'
import type { Assignments, JoinedMember, PartitionCounts, PartitionRacks } from './classic-state.ts'
import { assignmentOf, leasesIn, subscribed } from './classic-words.ts'
import type { Candidate, Holding, Strategy } from './strategies.ts'

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
  const since = newestClaims(all.map(({ holding }) => holding))
  const candidates = all.map(
    ({ one, holding }): Candidate => ({ ...one, owned: without(holding, since) })
  )
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

type Claims = ReadonlyMap<string, ReadonlyMap<number, number>>

/** Of each partition, the newest generation in which somebody says to have it. */
function newestClaims(all: readonly Holding[]): Claims {
  const claims = new Map<string, Map<number, number>>()
  for (const { owned, generation } of all) {
    for (const [topic, partitions] of owned) {
      const of = claims.get(topic) ?? new Map<number, number>()
      claims.set(topic, of)
      for (const partition of partitions) {
        of.set(partition, Math.max(generation, of.get(partition) ?? -1))
      }
    }
  }
  return claims
}

/**
 * What a member has, without what another says to have since. A member that was away says what it had then: others may
 * have it by now. Yet who has only missed the answer of a round is in no newer generation, and goes on with what it has
 * (Java's leaders gave that away at once before KAFKA-14639).
 */
function without({ owned, generation }: Holding, since: Claims): Partitions {
  // Who doesn't say in which generation it had them is believed.
  if (generation < 0) return owned
  const its = new Map<string, Set<number>>()
  for (const [topic, partitions] of owned) {
    const of = since.get(topic)
    const left = [...partitions].filter(partition => (of?.get(partition) ?? -1) <= generation)
    if (left.length > 0) its.set(topic, new Set(left))
  }
  return its
}

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

/** KIP-881: where a replica moved to another rack, another member may be nearer. */
export function sameRacks(topic: string, now: PartitionRacks, then: PartitionRacks): boolean {
  return JSON.stringify(now.get(topic) ?? []) === JSON.stringify(then.get(topic) ?? [])
}
