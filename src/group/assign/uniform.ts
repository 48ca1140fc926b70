/**
 * The uniform assignor: loads as even as the subscriptions allow, and among all such assignments one that moves the
 * fewest partitions.
 *
 * With one subscription for all that is arithmetic: everybody has floor or ceil of the average, and those who have
 * the most now are the ones that keep ceil. With different subscriptions it is a flow of least cost, see balance.ts.
 */
import { type Partitions, type Placed, type Subscriber, type WantedTopic, add } from './assignor.ts'
import { balance } from './balance.ts'

export function assignUniform(subscribers: readonly Subscriber[]): readonly Partitions[] {
  if (subscribers.length === 0) return []
  const kept = keep(subscribers)
  const shares = alike(subscribers) ? evenly(subscribers, kept) : balance(subscribers, kept)
  return realise(subscribers, kept, shares)
}

/** What each had, as far as it is still there, still wanted, and nobody else's. */
function keep(subscribers: readonly Subscriber[]): Map<string, number[]>[] {
  const taken = new Map<string, Set<number>>()
  return subscribers.map(({ topics, owned }) => {
    const kept = new Map<string, number[]>()
    for (const { id, partitionCount } of topics) {
      const held = [...(owned.get(id) ?? [])]
        .filter(partition => partition < partitionCount && !taken.get(id)?.has(partition))
        .sort((a, b) => a - b)
      for (const partition of held) add(taken, { topicId: id, partition })
      if (held.length > 0) kept.set(id, held)
    }
    return kept
  })
}

function alike(subscribers: readonly Subscriber[]): boolean {
  const [first, ...others] = subscribers
  const topics = new Set(first?.topics.map(({ id }) => id))
  return others.every(
    other => other.topics.length === topics.size && other.topics.every(({ id }) => topics.has(id))
  )
}

/** How many partitions of each topic each subscriber keeps at most, and how many it has in all. */
export interface Share {
  readonly keeps: ReadonlyMap<string, number>
  /** What it gets beside, by topic; undefined: of any topic, until it has `total`. */
  readonly gets: ReadonlyMap<string, number> | undefined
  readonly total: number
}

function evenly(
  subscribers: readonly Subscriber[],
  kept: readonly Map<string, number[]>[]
): readonly Share[] {
  const topics = subscribers[0]?.topics ?? []
  const all = topics.reduce((sum, { partitionCount }) => sum + partitionCount, 0)
  const floor = Math.floor(all / subscribers.length)
  let withOneMore = all % subscribers.length
  const has = kept.map(held => [...held.values()].reduce((sum, list) => sum + list.length, 0))
  const byLoad = has.map((_, index) => index).sort((a, b) => (has[b] ?? 0) - (has[a] ?? 0))
  const shares: Share[] = []
  for (const index of byLoad) {
    const total = floor + (withOneMore-- > 0 ? 1 : 0)
    const held = kept[index] ?? new Map<string, number[]>()
    shares[index] = { keeps: trim(held, total), gets: undefined, total }
  }
  return shares
}

/** Gives up what is over `total`, from the topics of which it has the most, so that none is left to one member. */
function trim(held: ReadonlyMap<string, number[]>, total: number): Map<string, number> {
  const keeps = new Map([...held].map(([id, list]) => [id, list.length]))
  let over = [...keeps.values()].reduce((sum, count) => sum + count, 0) - total
  while (over > 0) {
    const most = Math.max(...keeps.values())
    for (const [id, count] of keeps) {
      if (over > 0 && count === most) {
        keeps.set(id, count - 1)
        over--
      }
    }
  }
  return keeps
}

/** From counts to partitions: the lowest of what was held is kept, the rest is dealt out topic by topic. */
function realise(
  subscribers: readonly Subscriber[],
  kept: readonly Map<string, number[]>[],
  shares: readonly Share[]
): readonly Partitions[] {
  const assigned = subscribers.map(() => new Map<string, Set<number>>())
  const taken = new Map<string, Set<number>>()
  const room = shares.map(({ total }) => total)
  kept.forEach((held, index) => {
    for (const [topicId, list] of held) {
      for (const partition of list.slice(0, shares[index]?.keeps.get(topicId) ?? 0)) {
        place(index, { topicId, partition })
        add(taken, { topicId, partition })
      }
    }
  })
  const topics = new Map<string, WantedTopic>()
  for (const subscriber of subscribers) {
    for (const topic of subscriber.topics) topics.set(topic.id, topic)
  }
  let turn = 0
  for (const topic of topics.values()) {
    const takers = takersOf(topic)
    for (let partition = 0; partition < topic.partitionCount; partition++) {
      if (taken.get(topic.id)?.has(partition)) continue
      const taker = takers()
      if (taker !== undefined) place(taker, { topicId: topic.id, partition })
    }
  }
  return assigned

  function place(index: number, placed: Placed): void {
    add(assigned[index] as Map<string, Set<number>>, placed)
    room[index] = (room[index] ?? 0) - 1
  }

  /** Who takes the next partition of a topic. */
  function takersOf({ id }: WantedTopic): () => number | undefined {
    const owed = shares.flatMap(({ gets }, index) =>
      Array.from({ length: gets?.get(id) ?? 0 }, () => index)
    )
    if (shares[0]?.gets !== undefined) return () => owed.shift()
    return () => {
      for (let tried = 0; tried < room.length; tried++) {
        const index = turn++ % room.length
        if ((room[index] ?? 0) > 0) return index
      }
      return undefined
    }
  }
}
