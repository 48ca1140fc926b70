/**
 * Kafka's round-robin assignor: all partitions of all topics in a row, dealt out one by one to the subscribers in
 * their order; who doesn't subscribe to a topic is passed over.
 */
import { add, type Partitions, type Subscriber, type WantedTopic } from './assignor.ts'
import { compareStatic } from './range.ts'

export function assignRoundRobin(subscribers: readonly Subscriber[]): readonly Partitions[] {
  const assigned = subscribers.map(() => new Map<string, Set<number>>())
  const order = subscribers.map((_, index) => index)
  order.sort((a, b) => compareStatic(subscribers[a] as Subscriber, subscribers[b] as Subscriber))
  const topics = new Map<string, WantedTopic>()
  const wants = subscribers.map(subscriber => {
    for (const topic of subscriber.topics) topics.set(topic.id, topic)
    return new Set(subscriber.topics.map(({ id }) => id))
  })
  let turn = 0
  for (const topicId of [...topics.keys()].sort()) {
    const { partitionCount = 0 } = topics.get(topicId) ?? {}
    for (let partition = 0; partition < partitionCount; partition++) {
      // Somebody wants each topic: that is where it comes from.
      while (!wants[order[turn % order.length] ?? 0]?.has(topicId)) turn++
      const to = assigned[order[turn++ % order.length] ?? 0]
      if (to !== undefined) add(to, { topicId, partition })
    }
  }
  return assigned
}
