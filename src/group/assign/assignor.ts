/** What server-side assignors have in common: who wants what, and has what; who gets what. */

export interface WantedTopic {
  readonly id: string
  readonly partitionCount: number
}

export interface Subscriber {
  readonly id: string
  /** Of a static member: it outlives its member id. */
  readonly instanceId?: string | null
  /** Each topic once. */
  readonly topics: readonly WantedTopic[]
  /** What it was assigned last. */
  readonly owned: Partitions
}

/** Partitions by topic id. */
export type Partitions = ReadonlyMap<string, ReadonlySet<number>>

/** What each subscriber gets, in the order in which they were given. */
export type Assignor = (subscribers: readonly Subscriber[]) => readonly Partitions[]

/** A partition that moves between subscribers. */
export interface Placed {
  readonly topicId: string
  readonly partition: number
}

export function add(to: Map<string, Set<number>>, { topicId, partition }: Placed): void {
  const partitions = to.get(topicId)
  if (partitions === undefined) to.set(topicId, new Set([partition]))
  else partitions.add(partition)
}

export function samePartitions(one: Partitions, other: Partitions): boolean {
  if (one === other) return true
  if (one.size !== other.size) return false
  for (const [topicId, partitions] of one) {
    const others = other.get(topicId)
    if (others === undefined || others.size !== partitions.size) return false
    for (const partition of partitions) if (!others.has(partition)) return false
  }
  return true
}
