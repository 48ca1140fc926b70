/**
 * Kafka's range assignor of classic groups where members and brokers say where they are (KIP-881): of each topic every
 * subscriber gets as many partitions as without racks, but those first that have a replica in its rack; what is left
 * is dealt out in ranges. Topics with as many partitions and the same subscribers are kept alike: a partition of all of
 * them goes to one member, where that has a replica of each nearby.
 *
 * Members that run different clients must come to the same result only in so far as one of them leads; but who
 * replaces a Java leader shouldn't move everything: this gives just what Java gives (golden file assignments.jsonl).
 */
import { add, type Partitions, type Subscriber, type WantedTopic } from './assignor.ts'
import { assignRange, compareStatic } from './range.ts'

/** By topic, by partition: the racks that have a replica. */
export type PartitionRacks = ReadonlyMap<string, readonly (readonly string[])[]>

export interface RackedSubscriber extends Subscriber {
  readonly rackId: string | null
}

export function assignRangeByRack(
  subscribers: readonly RackedSubscriber[],
  racks: PartitionRacks
): readonly Partitions[] {
  const states = statesOf(subscribers, racks)
  if (!states.some(state => state.matters)) return assignRange(subscribers)
  const assigned = subscribers.map(() => new Map<string, Set<number>>())
  for (const alike of groups(states)) {
    if (alike.length > 1) assignTogether(alike, assigned)
    else for (const state of alike) if (state.matters) assignRanges(state, assigned, true)
  }
  for (const state of states) assignRanges(state, assigned, false)
  return assigned
}

type Assigned = readonly Map<string, Set<number>>[]

/** A topic while it is dealt out. `of` are indexes of subscribers, in order. */
class TopicState {
  readonly topic: WantedTopic
  readonly of: readonly number[]
  readonly left: Set<number>
  readonly #racks: readonly (string | null)[]
  readonly #replicas: readonly ReadonlySet<string>[]
  readonly #has = new Map<number, number>()
  readonly #share: number
  #withOneMore: number
  /** Whether it makes a difference which partition goes to whom. */
  readonly matters: boolean

  constructor(
    topic: WantedTopic,
    of: readonly number[],
    subscribers: readonly RackedSubscriber[],
    racks: readonly (readonly string[])[]
  ) {
    this.topic = topic
    this.of = of
    const { partitionCount } = topic
    this.left = new Set(Array.from({ length: partitionCount }, (_, partition) => partition))
    this.#racks = subscribers.map(({ rackId }) => rackId)
    this.#replicas = Array.from({ length: partitionCount }, (_, p) => new Set(racks[p]))
    this.#share = Math.floor(partitionCount / of.length)
    this.#withOneMore = partitionCount % of.length
    const theirs = of.flatMap(index => this.#racks[index] ?? [])
    const all = new Set(this.#replicas.flatMap(some => [...some]))
    const somewhere = theirs.some(rack => all.has(rack))
    this.matters = somewhere && this.#replicas.some(({ size }) => size < all.size)
  }

  near(subscriber: number, partition: number): boolean {
    const rack = this.#racks[subscriber] ?? null
    return rack === null || (this.#replicas[partition]?.has(rack) ?? false)
  }

  room(subscriber: number): number {
    const most = this.#share + (this.#withOneMore > 0 ? 1 : 0)
    return Math.max(0, most - (this.#has.get(subscriber) ?? 0))
  }

  give(subscriber: number, partitions: readonly number[], assigned: Assigned): void {
    const has = (this.#has.get(subscriber) ?? 0) + partitions.length
    this.#has.set(subscriber, has)
    if (has > this.#share) this.#withOneMore--
    const to = assigned[subscriber] as Map<string, Set<number>>
    for (const partition of partitions) {
      this.left.delete(partition)
      add(to, { topicId: this.topic.id, partition })
    }
  }
}

function statesOf(
  subscribers: readonly RackedSubscriber[],
  racks: PartitionRacks
): readonly TopicState[] {
  const order = subscribers.map((_, index) => index)
  order.sort((a, b) => compareStatic(subscribers[a] as Subscriber, subscribers[b] as Subscriber))
  const wanted = new Map<string, { readonly topic: WantedTopic; readonly of: number[] }>()
  for (const index of order) {
    for (const topic of (subscribers[index] as Subscriber).topics) {
      const known = wanted.get(topic.id)
      if (known === undefined) wanted.set(topic.id, { topic, of: [index] })
      else known.of.push(index)
    }
  }
  return [...wanted.values()]
    .filter(({ topic }) => topic.partitionCount > 0)
    .map(({ topic, of }) => new TopicState(topic, of, subscribers, racks.get(topic.id) ?? []))
}

/** Topics with the same subscribers and as many partitions, if any of their subscribers says where it is. */
function groups(states: readonly TopicState[]): readonly (readonly TopicState[])[] {
  const alike = new Map<string, TopicState[]>()
  for (const state of states) {
    const key = `${state.topic.partitionCount}:${state.of.join()}`
    const known = alike.get(key)
    if (known === undefined) alike.set(key, [state])
    else known.push(state)
  }
  return [...alike.values()]
}

function assignTogether(states: readonly TopicState[], assigned: Assigned): void {
  const [first] = states
  if (first === undefined) return
  const open = new Set(first.of)
  for (let partition = 0; partition < first.topic.partitionCount && open.size > 0; partition++) {
    const taker = [...open].find(subscriber =>
      states.every(state => state.near(subscriber, partition) && state.room(subscriber) > 0)
    )
    if (taker === undefined) continue
    for (const state of states) state.give(taker, [partition], assigned)
    if (!states.some(state => state.room(taker) > 0)) open.delete(taker)
  }
}

function assignRanges(state: TopicState, assigned: Assigned, nearOnly: boolean): void {
  for (const subscriber of state.of) {
    const may = [...state.left].filter(p => !nearOnly || state.near(subscriber, p))
    const some = may.slice(0, state.room(subscriber))
    if (some.length > 0) state.give(subscriber, some, assigned)
  }
}
