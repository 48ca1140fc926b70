/** Who is to have what: the target assignment of a group's present epoch. */
import {
  type Assignor,
  type Partitions,
  type Subscriber,
  samePartitions
} from '../assign/assignor.ts'
import { assignRange } from '../assign/range.ts'
import { assignUniform } from '../assign/uniform.ts'
import type { Topic, Topics, Turn } from '../machine.ts'
import { topicPattern } from '../pattern.ts'
import type { ConsumerFact, ConsumerGroup, Member, Subscription } from './state.ts'

/** Server-side assignors, by Kafka's names. The first is the default. */
export const assignors: ReadonlyMap<string, Assignor> = new Map([
  ['uniform', assignUniform],
  ['range', assignRange]
])
export const defaultAssignor = 'uniform'

/** Of a group in which nobody ever subscribed to anything. */
export const firstEpoch = 1

/** What most members ask for, of those who ask. */
export function assignorOf(group: ConsumerGroup): string {
  const votes = new Map<string, number>()
  for (const { subscription } of group.members.values()) {
    const { assignor } = subscription
    if (assignor !== null) votes.set(assignor, (votes.get(assignor) ?? 0) + 1)
  }
  let best = defaultAssignor
  for (const [name, count] of votes) if (count > (votes.get(best) ?? 0)) best = name
  return best
}

/**
 * Computes the target anew. `always`: raises the epoch in any case, as who joined or left is told by it; else only
 * when the target has changed.
 */
export function retarget<Answer>(
  turn: Turn<ConsumerGroup, ConsumerFact, Answer>,
  always: boolean
): void {
  const { state: group, world } = turn
  const members = [...group.members.values()]
  const assign = assignors.get(assignorOf(group)) ?? assignUniform
  const targets = assign(subscribers(members, world.topics))
  const changed: (readonly [memberId: string, target: Partitions])[] = []
  members.forEach(({ id, target }, index) => {
    const next = targets[index] ?? new Map()
    if (!samePartitions(target, next)) changed.push([id, next])
  })
  if (!always && changed.length === 0) return
  for (const [id, partitions] of changed) {
    turn.become({ kind: 'target', memberId: id, partitions })
  }
  turn.become({ kind: 'epoch', epoch: Math.max(firstEpoch, group.epoch) + 1 })
}

function subscribers(members: readonly Member[], topics: Topics): readonly Subscriber[] {
  /** Most members of a group say the same: what they get is looked up once. */
  const known = new Map<string, readonly Topic[]>()
  return members.map(({ id, subscription, wishes, target }) => {
    let wanted = known.get(wishes)
    if (wanted === undefined) known.set(wishes, (wanted = wantedOf(subscription, topics)))
    return { id, instanceId: subscription.instanceId, topics: wanted, owned: target }
  })
}

function wantedOf({ topics: names, pattern }: Subscription, topics: Topics): readonly Topic[] {
  const wanted = new Map<string, Topic>()
  for (const name of names) {
    const topic = topics.named(name)
    if (topic !== undefined) wanted.set(topic.id, topic)
  }
  const matcher = pattern === null ? undefined : topicPattern(pattern)
  if (typeof matcher !== 'object') return [...wanted.values()]
  for (const name of topics.names()) {
    const topic = matcher.matches(name) ? topics.named(name) : undefined
    if (topic !== undefined) wanted.set(topic.id, topic)
  }
  return [...wanted.values()]
}
