/**
 * The even shares of subscribers with different subscriptions, as a flow of least cost: partitions flow from topics
 * to subscribers to a sink. The sum of the squares of the loads is the least when no load can be made more even; that
 * counts first (weight `heavy`), and a partition that its subscriber didn't have costs 1.
 *
 * A flow costs the least exactly when its residual graph has no cycle of negative cost. So: keep what is held, give
 * what nobody holds to who has the least, then push one partition around each negative cycle until there is none.
 * Partitions of one topic are alike, so the flow knows counts only, and its graph has one edge for a subscription.
 */
import type { Subscriber } from './assignor.ts'
import type { Hold, Share } from './uniform.ts'

/** Edges looked at. Beyond it the shares are as even as they have become: for very large groups of many subscriptions. */
const workLimit = 30_000_000

interface Edge {
  readonly member: number
  readonly topic: number
  readonly topicId: string
  /** How many it had of the topic. */
  readonly had: number
  count: number
}

export function balance(
  subscribers: readonly Subscriber[],
  held: readonly Hold[]
): readonly Share[] {
  const { edges, ofTopic, free } = graph(subscribers, held)
  const loads = subscribers.map(() => 0)
  for (const { member, count } of edges) loads[member] = (loads[member] ?? 0) + count
  deal(ofTopic, free, loads)
  cancelCycles(edges, loads, ofTopic.length)
  const shares = loads.map(total => ({
    keeps: new Map<string, number>(),
    gets: new Map<string, number>(),
    total
  }))
  for (const { member, topicId, count, had } of edges) {
    shares[member]?.keeps.set(topicId, Math.min(count, had))
    if (count > had) shares[member]?.gets.set(topicId, count - had)
  }
  return shares
}

function graph(subscribers: readonly Subscriber[], held: readonly Hold[]) {
  const indexes = new Map<string, number>()
  const ofTopic: Edge[][] = []
  const free: number[] = []
  const edges: Edge[] = []
  subscribers.forEach(({ topics }, member) => {
    for (const { id, partitionCount } of topics) {
      let topic = indexes.get(id)
      if (topic === undefined) {
        indexes.set(id, (topic = indexes.size))
        ofTopic.push([])
        free.push(partitionCount)
      }
      const had = held[member]?.partitions.get(id)?.size ?? 0
      const edge = { member, topic, topicId: id, had, count: had }
      free[topic] = (free[topic] ?? 0) - had
      ofTopic[topic]?.push(edge)
      edges.push(edge)
    }
  })
  return { edges, ofTopic, free }
}

/** What nobody holds goes to who has the least, topics with few subscribers first. */
function deal(ofTopic: readonly Edge[][], free: readonly number[], loads: number[]): void {
  const order = free.map((_, topic) => topic)
  order.sort((a, b) => (ofTopic[a]?.length ?? 0) - (ofTopic[b]?.length ?? 0))
  for (const topic of order) {
    for (let left = free[topic] ?? 0; left > 0; left--) {
      let least: Edge | undefined
      for (const edge of ofTopic[topic] ?? []) {
        if (!least || (loads[edge.member] ?? 0) < (loads[least.member] ?? 0)) least = edge
      }
      if (least === undefined) break
      least.count++
      loads[least.member] = (loads[least.member] ?? 0) + 1
    }
  }
}

/** Nodes of the residual graph: members, then topics, then the sink. */
function cancelCycles(edges: readonly Edge[], loads: number[], topicCount: number): void {
  const memberCount = loads.length
  const sink = memberCount + topicCount
  const heavy = loads.reduce((sum, load) => sum + load, 1)
  let work = 0
  for (;;) {
    const distance = new Float64Array(sink + 1)
    /** By which edge a node was reached last: an index of `edges`, or -1 for the edge between member and sink. */
    const via = new Int32Array(sink + 1)
    const before = new Int32Array(sink + 1).fill(-1)
    const relax = (from: number, to: number, cost: number, by: number): boolean => {
      const sum = (distance[from] ?? 0) + cost
      if (sum >= (distance[to] ?? 0)) return false
      distance[to] = sum
      before[to] = from
      via[to] = by
      return true
    }
    let cycle: readonly number[] | undefined
    for (let changed = true; changed && cycle === undefined; ) {
      changed = false
      edges.forEach(({ member, topic, count, had }, index) => {
        const node = memberCount + topic
        // One more of the topic for the member; and one less.
        if (relax(node, member, count >= had ? 1 : 0, index)) changed = true
        if (count > 0 && relax(member, node, count > had ? -1 : 0, index)) changed = true
      })
      loads.forEach((load, member) => {
        if (relax(member, sink, heavy * (2 * load + 1), -1)) changed = true
        if (load > 0 && relax(sink, member, -heavy * (2 * load - 1), -1)) changed = true
      })
      work += edges.length + loads.length
      cycle = cycleIn(before)
    }
    if (cycle === undefined || work > workLimit) return
    for (const to of cycle) push(before[to] ?? -1, to, via[to] ?? -1)
  }

  function push(from: number, to: number, by: number): void {
    const edge = edges[by]
    if (edge !== undefined) edge.count += to === edge.member ? 1 : -1
    else if (to === sink) loads[from] = (loads[from] ?? 0) + 1
    else loads[to] = (loads[to] ?? 0) - 1
  }
}

/** The nodes of a cycle of the graph in which each node has at most one before it. */
function cycleIn(before: Int32Array): readonly number[] | undefined {
  const seenIn = new Int32Array(before.length).fill(-1)
  for (let start = 0; start < before.length; start++) {
    let node = start
    while (node >= 0 && seenIn[node] === -1) {
      seenIn[node] = start
      node = before[node] ?? -1
    }
    if (node < 0 || seenIn[node] !== start) continue
    const cycle = [node]
    for (let at = before[node] ?? -1; at !== node; at = before[at] ?? -1) cycle.push(at)
    return cycle
  }
  return undefined
}
