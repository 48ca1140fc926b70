/** The machines of classic members against the coordinator's, in any order of events, in virtual time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { AssignorChoice } from '../../src/group/member/strategies.ts'
import { Crew, type Hand, rebalanceTimeoutMs, sessionTimeoutMs } from './classic-crew.ts'

const cooperative: readonly AssignorChoice[] = ['cooperative-sticky']

function crewOf(count: number, partitions: number, assignors = cooperative): Crew {
  const crew = new Crew(
    Array.from({ length: count }, () => ({ assignors })),
    partitions
  )
  for (const hand of crew.hands) crew.start(hand)
  crew.calm(5_000)
  return crew
}

const holds = (hand: Hand): number => hand.holds.size

const step = fc.oneof(
  { weight: 30, arbitrary: fc.constant('arrive' as const) },
  { weight: 30, arbitrary: fc.constant('answer' as const) },
  { weight: 8, arbitrary: fc.constant('answer last' as const) },
  { weight: 4, arbitrary: fc.constant('lose' as const) },
  { weight: 12, arbitrary: fc.constant('release' as const) },
  { weight: 10, arbitrary: fc.constant('soon' as const) },
  { weight: 5, arbitrary: fc.constant('later' as const) },
  { weight: 1, arbitrary: fc.constant('much later' as const) },
  { weight: 6, arbitrary: fc.constant('start' as const) },
  { weight: 1, arbitrary: fc.constant('crash' as const) },
  { weight: 2, arbitrary: fc.constant('close' as const) },
  { weight: 1, arbitrary: fc.constant('overdue' as const) },
  { weight: 2, arbitrary: fc.constant('caught up' as const) },
  { weight: 2, arbitrary: fc.constant('doubted' as const) },
  { weight: 1, arbitrary: fc.constant('grow' as const) },
  { weight: 4, arbitrary: fc.constant('calm' as const) }
)

function act(crew: Crew, hand: Hand, what: typeof step extends fc.Arbitrary<infer S> ? S : never) {
  switch (what) {
    case 'arrive':
      return crew.arrive(hand)
    case 'answer':
      return crew.answer(hand)
    case 'answer last':
      return crew.answer(hand, 'last')
    case 'lose':
      return crew.lose(hand)
    case 'release':
      return crew.release(hand)
    case 'soon':
      return crew.pass(60)
    case 'later':
      return crew.pass(1_500)
    case 'much later':
      return crew.pass(12_000)
    case 'start':
      return crew.start(hand)
    case 'crash':
      return crew.crash(hand)
    case 'close':
      return crew.tell(hand, { on: 'close' })
    case 'overdue':
      return crew.tell(hand, { on: 'overdue' })
    case 'caught up':
      return crew.tell(hand, { on: 'caughtUp' })
    case 'doubted':
      return crew.tell(hand, { on: 'doubted' })
    case 'grow':
      return crew.grow()
    case 'calm':
      return crew.calm(300)
  }
}

/** Of its own, careless: whoever comes first gets all, whatever others have. */
const ownCooperative: AssignorChoice = {
  name: 'all to one',
  cooperative: true,
  assign(members, topics) {
    const all = [...topics].flatMap(([topic, { partitionCount }]) =>
      Array.from({ length: partitionCount }, (_, partition) => ({ topic, partition }))
    )
    const [first] = members.map(({ memberId }) => memberId).sort()
    return new Map(first === undefined ? [] : [[first, all]])
  }
}

const crews: readonly (readonly (readonly AssignorChoice[])[])[] = [
  [cooperative, cooperative, cooperative, cooperative],
  [['range'], ['range'], ['range']],
  [['roundrobin', 'range'], ['range'], ['roundrobin', 'range']],
  [['sticky'], ['sticky', 'range'], ['sticky'], ['sticky']],
  [[ownCooperative], [ownCooperative, 'cooperative-sticky'], [ownCooperative]],
  // As Java's default: it gives up everything, though the group's assignor is the cooperative one.
  [['range', 'cooperative-sticky'], cooperative, ['range', 'cooperative-sticky'], cooperative]
]

test('any sequence of events: no partition has two owners, and when it is quiet each has one', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...crews),
      fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
      fc.array(fc.tuple(fc.nat({ max: 3 }), step), { maxLength: 250 }),
      (assignors, statics, steps) => {
        const crew = new Crew(
          assignors.map((names, i) => ({ assignors: names, isStatic: statics[i] ?? false })),
          5
        )
        for (const hand of crew.hands.slice(0, 2)) crew.start(hand)
        crew.calm(3_000)
        for (const [who, what] of steps)
          act(crew, crew.hands[who % crew.hands.length] as Hand, what)
        for (const hand of crew.hands) crew.tell(hand, { on: 'caughtUp' })
        // Who is about to leave has left before it starts again; or nobody may be there in the end.
        crew.calm(1_000)
        for (const hand of crew.hands.slice(0, 2)) crew.start(hand)
        // A calm ends with a look at the topics: a leader that came back may learn only there that one has grown.
        crew.calm(5_000)
        crew.calm(rebalanceTimeoutMs + 2 * sessionTimeoutMs + 5_000)
        const alive = crew.hands.filter(hand => hand.alive && hand.member.phase === 'member')
        const all = alive.flatMap(hand => [...hand.holds.keys()])
        const counts = ['t', 'u'].map(name => crew.stage.topics.named(name)?.partitionCount ?? 0)
        const total = counts.reduce((sum, count) => sum + count)
        assert.equal(new Set(all).size, total, `owned: ${all.join(' ')}`)
        assert.equal(all.length, total)
        assert.equal(crew.stage.state.phase, 'Stable')
        if (assignors.every(names => names === cooperative)) {
          const loads = alive.map(holds)
          assert(Math.max(...loads) - Math.min(...loads) <= 1, `even: ${loads.join(' ')}`)
        }
      }
    ),
    { numRuns: Number(process.env['RUNS'] ?? 300) }
  )
})

test('a second member joins within a round trip and three early heartbeats of the first', () => {
  const other = new Crew([{ assignors: cooperative }, { assignors: cooperative }], 4)
  const [one, two] = other.hands
  assert(one && two)
  other.start(one)
  other.calm(10_000)
  other.start(two)
  const started = other.stage.nowMs
  while (holds(two) === 0) other.calm(10)
  assert(other.stage.nowMs - started <= 1_200, `after ${other.stage.nowMs - started} ms`)
})

test('partitions that stay are not let go of while a member joins and another leaves', () => {
  const crew = crewOf(3, 9)
  const [first, second, third] = crew.hands
  assert(first && second && third)
  const before = new Set(first.holds.keys())
  crew.tell(third, { on: 'close' })
  crew.calm(5_000)
  for (const key of before) assert(first.holds.has(key), `${key} stays`)
  assert.equal(first.did.includes('revoke') && holds(first) < before.size, false)
  assert.deepEqual(
    [holds(first), holds(second)].sort((a, b) => a - b),
    [5, 6]
  )
})

test('a static member that comes back within its session moves nothing', () => {
  const crew = new Crew([{ assignors: cooperative, isStatic: true }, { assignors: cooperative }], 4)
  const [back, stays] = crew.hands
  assert(back && stays)
  crew.start(back)
  crew.start(stays)
  crew.calm(5_000)
  const had = [...back.holds.keys()].sort()
  const did = stays.did.filter(what => what !== 'request').length
  const { generation } = crew.stage.state
  crew.tell(back, { on: 'close' })
  crew.calm(1_000)
  crew.start(back)
  crew.calm(3_000)
  assert.deepEqual([...back.holds.keys()].sort(), had)
  assert.equal(stays.did.filter(what => what !== 'request').length, did)
  assert.equal(crew.stage.state.generation, generation)
})

test('a handler that takes long holds up its own partition alone', () => {
  const both = new Crew([{ assignors: cooperative }, { assignors: cooperative }], 4)
  const [one, two] = both.hands
  assert(one && two)
  both.start(one)
  both.calm(3_000)
  both.start(two)
  // Everything but what `one` is asked to release.
  for (let i = 0; i < 200 && one.toRelease.size === 0; i++) {
    for (const hand of both.hands) {
      both.arrive(hand)
      both.answer(hand)
    }
    both.pass(10)
  }
  const asked = one.toRelease.size
  assert(asked > 0)
  for (let i = 0; i < 2_000; i++) {
    for (const hand of both.hands) {
      both.arrive(hand)
      both.answer(hand)
    }
    both.pass(10)
  }
  assert.equal(holds(one), 6, 'it goes on with all of them')
  assert.equal(one.member.phase, 'member', 'and is a member')
  both.calm(3_000)
  assert.equal(holds(two), 3)
})

test('new partitions make the leader rebalance, and only the leader', () => {
  const crew = crewOf(2, 4)
  crew.grow()
  crew.calm(3_000)
  assert.equal(
    crew.hands.reduce((sum, hand) => sum + holds(hand), 0),
    7
  )
})

test('who is waited for with what does not get there is out before the others get what it has', () => {
  for (const stuck of ['join', 'sync'] as const) {
    for (const first of [0, 1]) {
      const crew = crewOf(2, 4)
      const [late, other] = crew.hands
      assert(late && other)
      // The other begins the round, or the late one does, and then the other.
      for (const hand of first === 0 ? [late, other] : [other]) {
        crew.tell(hand, { on: 'subscribed', subscription: hand.member.subscription })
      }
      crew.pass(10)
      // Its heartbeats get there, and are answered, all the while.
      for (let passed = 0; passed < 2 * rebalanceTimeoutMs && holds(late) > 0; passed += 10) {
        for (const hand of crew.hands) {
          crew.arrive(hand, hand === late ? stuck : undefined)
          crew.answer(hand)
        }
        crew.pass(10)
      }
      assert.equal(holds(late), 0, `${stuck}: nothing is left to it`)
      assert(crew.stage.state.members.has(late.member.memberId), `${stuck}: it is still a member`)
    }
  }
})
