/**
 * The uniform assignor: loads as even as the subscriptions allow, and among all such assignments one that moves the
 * fewest partitions.
 *
 * With one subscription for all that is arithmetic: everybody has floor or ceil of the average, and those who have
 * more than floor now are the ones that keep ceil. With different subscriptions it is a flow of least cost, see
 * balance.ts. Whose partitions stay the same gets back the very value it came with: in a large group most do.
 */
import { type Partitions, type Subscriber, type WantedTopic, add } from './assignor.ts'
import { balance } from './balance.ts'

export function assignUniform(subscribers: readonly Subscriber[]): readonly Partitions[] {
  if (subscribers.length === 0) return []
  const taken: Taken = new Map()
  const held = subscribers.map(subscriber => hold(subscriber, taken))
  const shares = alike(subscribers) ? evenly(subscribers, held) : balance(subscribers, held)
  return realise(subscribers, held, shares, taken)
}

/** What a subscriber had, as far as it is still there, still wanted, and nobody else's. */
export interface Hold {
  readonly partitions: Partitions
  readonly count: number
}

/** How much of each topic a subscriber keeps at most, and how much it has in all. */
export interface Share {
  /** Undefined: all that it holds. */
  readonly keeps: ReadonlyMap<string, number> | undefined
  /** What it gets beside, by topic; undefined: of any topic, until it has `total`. */
  readonly gets: ReadonlyMap<string, number> | undefined
  readonly total: number
}

/** By topic id, for each partition: 1 when somebody has it. */
type Taken = Map<string, Uint8Array>

const nothing: Hold = { partitions: new Map(), count: 0 }

function hold({ topics, owned }: Subscriber, taken: Taken): Hold {
  if (owned.size === 0) return nothing
  const partitions = new Map<string, ReadonlySet<number>>()
  let count = 0
  let all = 0
  for (const { id, partitionCount } of topics) {
    const had = owned.get(id)
    if (had === undefined) continue
    const others = takenOf(taken, id, partitionCount)
    let valid = had
    for (const partition of had) {
      if (others[partition] === 0) others[partition] = 1
      else {
        // Its own copy, as it is the caller's.
        if (valid === had) valid = new Set(had)
        ;(valid as Set<number>).delete(partition)
      }
    }
    if (valid.size > 0) partitions.set(id, valid)
    count += valid.size
  }
  for (const { size } of owned.values()) all += size
  return { partitions: all === count ? owned : partitions, count }
}

function takenOf(taken: Taken, id: string, partitionCount: number): Uint8Array {
  let bits = taken.get(id)
  if (bits === undefined) taken.set(id, (bits = new Uint8Array(partitionCount)))
  return bits
}

function alike(subscribers: readonly Subscriber[]): boolean {
  const first = subscribers[0]?.topics ?? []
  const ids = new Set(first.map(({ id }) => id))
  return subscribers.every(
    ({ topics }) =>
      topics === first || (topics.length === ids.size && topics.every(({ id }) => ids.has(id)))
  )
}

function evenly(subscribers: readonly Subscriber[], held: readonly Hold[]): readonly Share[] {
  const topics = subscribers[0]?.topics ?? []
  const all = topics.reduce((sum, { partitionCount }) => sum + partitionCount, 0)
  const floor = Math.floor(all / subscribers.length)
  let ceils = all % subscribers.length
  const totals = held.map(({ count }) => floor + (count > floor && ceils-- > 0 ? 1 : 0))
  return held.map((one, index) => {
    let total = totals[index] ?? floor
    if (total === floor && one.count <= floor && ceils-- > 0) total++
    return { keeps: one.count > total ? trim(one, total) : undefined, gets: undefined, total }
  })
}

/** Gives up what is over `total`, from the topics of which it has the most, so that none is left to one member. */
function trim({ partitions, count }: Hold, total: number): Map<string, number> {
  const keeps = new Map([...partitions].map(([id, { size }]) => [id, size]))
  let over = count - total
  while (over > 0) {
    const most = Math.max(...keeps.values())
    for (const [id, kept] of keeps) {
      if (over > 0 && kept === most) {
        keeps.set(id, kept - 1)
        over--
      }
    }
  }
  return keeps
}

/** From counts to partitions: the lowest of what was held is kept, the rest is dealt out topic by topic. */
function realise(
  subscribers: readonly Subscriber[],
  held: readonly Hold[],
  shares: readonly Share[],
  taken: Taken
): readonly Partitions[] {
  const assigned = held.map(({ partitions }, index) => {
    const keeps = shares[index]?.keeps
    return keeps === undefined ? partitions : trimmed(partitions, keeps, taken)
  })
  const copies = new Map<number, Map<string, Set<number>>>()
  const next = dealer(held, shares)
  for (const { id, partitionCount } of wantedTopics(subscribers)) {
    const others = takenOf(taken, id, partitionCount)
    for (let partition = 0; partition < partitionCount; partition++) {
      const taker = others[partition] === 0 ? next(id) : undefined
      if (taker === undefined) continue
      let mine = copies.get(taker)
      if (mine === undefined) copies.set(taker, (mine = copyOf(assigned[taker] ?? new Map())))
      add(mine, { topicId: id, partition })
    }
  }
  for (const [index, copy] of copies) assigned[index] = copy
  return assigned
}

/** What stays; what doesn't is free again. */
function trimmed(
  partitions: Partitions,
  keeps: ReadonlyMap<string, number>,
  taken: Taken
): Partitions {
  const kept = new Map<string, Set<number>>()
  for (const [topicId, set] of partitions) {
    const list = [...set].sort((a, b) => a - b)
    const stays = list.splice(0, keeps.get(topicId) ?? 0)
    const bits = taken.get(topicId)
    if (bits !== undefined) for (const partition of list) bits[partition] = 0
    if (stays.length > 0) kept.set(topicId, new Set(stays))
  }
  return kept
}

function copyOf(partitions: Partitions): Map<string, Set<number>> {
  return new Map([...partitions].map(([topicId, set]) => [topicId, new Set(set)]))
}

function wantedTopics(subscribers: readonly Subscriber[]): Iterable<WantedTopic> {
  const lists = new Set<readonly WantedTopic[]>()
  for (const { topics } of subscribers) lists.add(topics)
  const topics = new Map<string, WantedTopic>()
  for (const list of lists) for (const topic of list) topics.set(topic.id, topic)
  return topics.values()
}

/** Who takes the next partition of a topic: in turn, so that each gets of every topic. */
function dealer(
  held: readonly Hold[],
  shares: readonly Share[]
): (topicId: string) => number | undefined {
  if (shares[0]?.gets !== undefined) {
    const owed = new Map<string, number[]>()
    shares.forEach(({ gets }, index) => {
      for (const [topicId, count] of gets ?? []) {
        const list = owed.get(topicId) ?? []
        for (let n = 0; n < count; n++) list.push(index)
        owed.set(topicId, list)
      }
    })
    return topicId => owed.get(topicId)?.pop()
  }
  const room = shares.map(({ total }, index) => Math.max(0, total - (held[index]?.count ?? 0)))
  let hungry = room.flatMap((left, index) => (left > 0 ? [index] : []))
  let turn = 0
  return () => {
    if (turn >= hungry.length) {
      hungry = hungry.filter(index => (room[index] ?? 0) > 0)
      turn = 0
    }
    const index = hungry[turn++]
    if (index !== undefined) room[index] = (room[index] ?? 0) - 1
    return index
  }
}
