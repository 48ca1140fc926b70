/** Which topics the members of a group want, and who is to have which partition. */
import { type Partitions, type Subscriber, type WantedTopic, add } from '../assign/assignor.ts'
import { assignUniform } from '../assign/uniform.ts'
import type { Topic, Topics } from '../machine.ts'
import { topicPattern } from '../pattern.ts'
import type { ControllerGroup, Member, Registration } from './state.ts'

/** By member id. Most members of a group say the same: what that is, is looked up once. */
export function wantedTopics(
  members: Iterable<Member>,
  topics: Topics
): ReadonlyMap<string, readonly Topic[]> {
  const known = new Map<string, readonly Topic[]>()
  const wanted = new Map<string, readonly Topic[]>()
  for (const { id, registration } of members) {
    const said = JSON.stringify([registration.topics, registration.pattern])
    let of = known.get(said)
    if (of === undefined) known.set(said, (of = matching(registration, topics)))
    wanted.set(id, of)
  }
  return wanted
}

function matching(
  { topics: names, pattern }: Pick<Registration, 'topics' | 'pattern'>,
  topics: Topics
): readonly Topic[] {
  const found = new Map<string, Topic>()
  for (const name of names) {
    const topic = topics.named(name)
    if (topic !== undefined) found.set(topic.id, topic)
  }
  const matcher = pattern === null ? undefined : topicPattern(pattern)
  if (typeof matcher !== 'object') return [...found.values()]
  for (const name of topics.names()) {
    const topic = matcher.matches(name) ? topics.named(name) : undefined
    if (topic !== undefined) found.set(topic.id, topic)
  }
  return [...found.values()]
}

/** Every topic that some member wants, once. */
export function allWanted(wanted: ReadonlyMap<string, readonly Topic[]>): Map<string, Topic> {
  const all = new Map<string, Topic>()
  for (const of of new Set(wanted.values())) for (const topic of of) all.set(topic.id, topic)
  return all
}

/** What everybody subscribes to, each once and in order: what is stored of a group that has become empty. */
export function subscriptions(members: Iterable<Member>): {
  readonly topics: readonly string[]
  readonly patterns: readonly string[]
} {
  const topics = new Set<string>()
  const patterns = new Set<string>()
  const seen = new Set<readonly string[]>()
  for (const { registration } of members) {
    if (registration.pattern !== null) patterns.add(registration.pattern)
    if (seen.has(registration.topics)) continue
    seen.add(registration.topics)
    for (const topic of registration.topics) topics.add(topic)
  }
  return { topics: [...topics].sort(), patterns: [...patterns].sort() }
}

export function matches(
  name: string,
  said: { readonly topics: readonly string[]; readonly patterns: readonly string[] }
): boolean {
  if (said.topics.includes(name)) return true
  return said.patterns.some(pattern => {
    const matcher = topicPattern(pattern)
    return typeof matcher === 'object' && matcher.matches(name)
  })
}

/** What each member is to have, by its id: even, and moving as few as possible. */
export function assign(
  group: ControllerGroup,
  wanted: ReadonlyMap<string, readonly Topic[]>
): ReadonlyMap<string, Partitions> {
  const members = [...group.members.values()]
  const subscribers: readonly Subscriber[] = members.map(({ id, registration, target }) => ({
    id: registration.instanceId ?? id,
    topics: wanted.get(id) ?? [],
    owned: target
  }))
  const capacities = members.map(({ registration: { capacity } }) =>
    capacity === 0 ? Infinity : capacity
  )
  const shares = withinCapacity(assignUniform(subscribers), subscribers, capacities)
  return new Map(members.map(({ id }, index) => [id, shares[index] ?? new Map()]))
}

/**
 * What a member gets over its capacity goes to who wants the topic, has room, and has the least. Where nobody has
 * room, partitions stay free: the group is too small, and lag shows it.
 */
function withinCapacity(
  shares: readonly Partitions[],
  subscribers: readonly Subscriber[],
  capacities: readonly number[]
): readonly Partitions[] {
  const loads = shares.map(share => [...share.values()].reduce((sum, of) => sum + of.size, 0))
  if (loads.every((load, index) => load <= (capacities[index] ?? Infinity))) return shares
  const rest = shares.map(
    share => new Map([...share].map(([topicId, of]) => [topicId, new Set(of)]))
  )
  const over: { readonly topic: string; readonly partition: number }[] = []
  rest.forEach((share, index) => {
    for (const [topic, of] of share) {
      for (const partition of [...of].reverse()) {
        if ((loads[index] ?? 0) <= (capacities[index] ?? Infinity)) return
        of.delete(partition)
        loads[index] = (loads[index] ?? 0) - 1
        over.push({ topic, partition })
      }
    }
  })
  for (const { topic, partition } of over) {
    const taker = leastLoaded(topic, subscribers, loads, capacities)
    const share = taker === undefined ? undefined : rest[taker]
    if (taker === undefined || share === undefined) continue
    add(share, { topicId: topic, partition })
    loads[taker] = (loads[taker] ?? 0) + 1
  }
  for (const share of rest) {
    for (const [topicId, of] of share) if (of.size === 0) share.delete(topicId)
  }
  return rest
}

function leastLoaded(
  topicId: string,
  subscribers: readonly Subscriber[],
  loads: readonly number[],
  capacities: readonly number[]
): number | undefined {
  let best: number | undefined
  subscribers.forEach(({ topics }, index) => {
    const load = loads[index] ?? 0
    if (load >= (capacities[index] ?? Infinity)) return
    if (!topics.some(({ id }: WantedTopic) => id === topicId)) return
    if (best === undefined || load < (loads[best] ?? 0)) best = index
  })
  return best
}
