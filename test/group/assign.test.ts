/** Server-side assignors: complete, even, and with as few moves as that allows, against all there is to choose from. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Partitions, Subscriber, WantedTopic } from '../../src/group/assign/assignor.ts'
import { assignRange } from '../../src/group/assign/range.ts'
import { assignUniform } from '../../src/group/assign/uniform.ts'

function sizes(assigned: readonly Partitions[]): number[] {
  return assigned.map(of => [...of.values()].reduce((sum, { size }) => sum + size, 0))
}

/** Every partition that somebody wants is of one subscriber that wants it. */
function assertComplete(subscribers: readonly Subscriber[], assigned: readonly Partitions[]): void {
  const wanted = new Set<string>()
  for (const { topics } of subscribers) {
    for (const { id, partitionCount } of topics)
      for (let p = 0; p < partitionCount; p++) wanted.add(`${id}:${p}`)
  }
  const given = assigned.flatMap((of, index) => {
    const topics = new Set(subscribers[index]?.topics.map(({ id }) => id))
    return [...of].flatMap(([id, partitions]) => {
      assert(topics.has(id), 'nobody gets what it does not want')
      return [...partitions].map(p => `${id}:${p}`)
    })
  })
  assert.deepEqual([...given].sort(), [...wanted].sort())
}

/** Sum of the squares of the loads, and partitions that moved. */
function costs(
  subscribers: readonly Subscriber[],
  assigned: readonly Partitions[]
): readonly [number, number] {
  let moves = 0
  assigned.forEach((of, index) => {
    for (const [id, partitions] of of) {
      for (const p of partitions) if (!subscribers[index]?.owned.get(id)?.has(p)) moves++
    }
  })
  return [sizes(assigned).reduce((sum, size) => sum + size * size, 0), moves]
}

/** The least costs of all assignments there are. */
function leastCosts(subscribers: readonly Subscriber[]): readonly [number, number] {
  const topics = new Map(
    subscribers.flatMap(({ topics: all }) => all.map(topic => [topic.id, topic] as const))
  )
  const partitions = [...topics.values()].flatMap(({ id, partitionCount }) =>
    Array.from({ length: partitionCount }, (_, partition) => ({ id, partition }))
  )
  const loads = subscribers.map(() => 0)
  let best: readonly [number, number] = [Infinity, Infinity]
  const choose = (at: number, moves: number): void => {
    const next = partitions[at]
    if (next === undefined) {
      const squares = loads.reduce((sum, load) => sum + load * load, 0)
      if (squares < best[0] || (squares === best[0] && moves < best[1])) best = [squares, moves]
      return
    }
    subscribers.forEach(({ topics: wanted, owned }, index) => {
      if (!wanted.some(({ id }) => id === next.id)) return
      loads[index] = (loads[index] ?? 0) + 1
      choose(at + 1, moves + (owned.get(next.id)?.has(next.partition) ? 0 : 1))
      loads[index] = (loads[index] ?? 0) - 1
    })
  }
  choose(0, 0)
  return best
}

const topics: readonly WantedTopic[] = [
  { id: 'a', partitionCount: 3 },
  { id: 'b', partitionCount: 2 },
  { id: 'c', partitionCount: 3 }
]

/** Subscribers that own some of what there is, and of what there was. */
const subscribers = (wanted: fc.Arbitrary<readonly WantedTopic[]>) =>
  fc
    .tuple(
      fc.array(wanted, { minLength: 1, maxLength: 4 }),
      fc.array(fc.nat({ max: 5 }), { minLength: 12, maxLength: 12 })
    )
    .map(([wishes, owners]): Subscriber[] =>
      wishes.map((mine, index) => {
        const owned = new Map<string, Set<number>>()
        owners.forEach((owner, n) => {
          const id = 'abc'[n % 3] as string
          if (owner === index) owned.set(id, (owned.get(id) ?? new Set()).add(Math.floor(n / 3)))
        })
        return { id: `m${index}`, topics: mine, owned }
      })
    )

test('uniform is the most even there is, and moves as little as that allows, with any subscriptions', () => {
  fc.assert(
    fc.property(subscribers(fc.subarray([...topics])), all => {
      const assigned = assignUniform(all)
      assertComplete(all, assigned)
      assert.deepEqual(costs(all, assigned), leastCosts(all))
    }),
    { numRuns: 300, includeErrorInReport: true }
  )
})

test('uniform is the same with one subscription for all, by arithmetic', () => {
  fc.assert(
    fc.property(subscribers(fc.constant(topics)), all => {
      const assigned = assignUniform(all)
      assertComplete(all, assigned)
      assert.deepEqual(costs(all, assigned), leastCosts(all))
      const loads = sizes(assigned)
      assert(Math.max(...loads) - Math.min(...loads) <= 1)
    }),
    { numRuns: 100, includeErrorInReport: true }
  )
})

test('assigning again what was assigned moves nothing', () => {
  fc.assert(
    fc.property(subscribers(fc.subarray([...topics])), all => {
      const once = assignUniform(all)
      const again = all.map((one, index) => ({ ...one, owned: once[index] ?? new Map() }))
      assert.deepEqual(assignUniform(again), once)
      assert.deepEqual(assignRange(again), assignRange(all))
    }),
    { numRuns: 100 }
  )
})

test('range gives consecutive partitions, and the same ones of topics that are alike', () => {
  const alike = [
    { id: 'a', partitionCount: 7 },
    { id: 'b', partitionCount: 7 }
  ]
  const all = ['z', 'x', 'y'].map(id => ({ id, topics: alike, owned: new Map() }))
  const assigned = assignRange(all)
  assertComplete(all, assigned)
  const of = (index: number, id: string) => [...(assigned[index]?.get(id) ?? [])]
  assert.deepEqual(
    [of(1, 'a'), of(2, 'a'), of(0, 'a')],
    [
      [0, 1, 2],
      [3, 4],
      [5, 6]
    ]
  )
  for (const index of [0, 1, 2]) assert.deepEqual(of(index, 'a'), of(index, 'b'))
})

test('a thousand members with twenty subscriptions are assigned in a second', () => {
  const many = Array.from({ length: 40 }, (_, n) => ({ id: `t${n}`, partitionCount: 25 }))
  const all = Array.from({ length: 1000 }, (_, n) => ({
    id: `m${n}`,
    topics: many.filter((_topic, t) => (t * 7 + n) % 20 < 5),
    owned: new Map()
  }))
  const began = process.cpuUsage()
  const assigned = assignUniform(all)
  const { user, system } = process.cpuUsage(began)
  assertComplete(all, assigned)
  assert(Math.max(...sizes(assigned)) <= 2)
  assert((user + system) / 1e6 < 2, `${(user + system) / 1e6} s of processor`)
})
