/**
 * Kafka's range assignor: of each topic every subscriber gets consecutive partitions, the first ones one more where
 * it doesn't come out even. Topics with as many partitions and the same subscribers are laid out alike, so that who
 * has partition 3 of one has partition 3 of the other: that is why one chooses it, and why it moves more.
 */
import { type Partitions, type Subscriber, type WantedTopic, add } from './assignor.ts'

export function assignRange(subscribers: readonly Subscriber[]): readonly Partitions[] {
  const assigned = subscribers.map(() => new Map<string, Set<number>>())
  const order = subscribers.map((_, index) => index)
  order.sort((a, b) => compareStatic(subscribers[a] as Subscriber, subscribers[b] as Subscriber))
  const wanted = new Map<string, { readonly topic: WantedTopic; readonly by: number[] }>()
  for (const index of order) {
    for (const topic of (subscribers[index] as Subscriber).topics) {
      const known = wanted.get(topic.id)
      if (known === undefined) wanted.set(topic.id, { topic, by: [index] })
      else known.by.push(index)
    }
  }
  for (const { topic, by } of wanted.values()) {
    const share = Math.floor(topic.partitionCount / by.length)
    const withOneMore = topic.partitionCount % by.length
    let partition = 0
    by.forEach((index, rank) => {
      const end = partition + share + (rank < withOneMore ? 1 : 0)
      const to = assigned[index] as Map<string, Set<number>>
      for (; partition < end; partition++) add(to, { topicId: topic.id, partition })
    })
  }
  return assigned
}

/** Static members first, by their instance ids, so that they get the same after each restart; then the others. */
export function compareStatic(one: Subscriber, other: Subscriber): number {
  const [first, second] = [one.instanceId ?? null, other.instanceId ?? null]
  if (first !== null && second !== null) return first < second ? -1 : first > second ? 1 : 0
  if (first !== second) return first === null ? 1 : -1
  return one.id < other.id ? -1 : one.id > other.id ? 1 : 0
}
