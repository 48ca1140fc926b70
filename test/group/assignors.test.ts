/** Classic members' assignors and words against what Kafka's own classes say (golden files), and against each other. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type {
  AssignorMember,
  PartitionAssignor
} from '../../src/group/assign/partition-assignor.ts'
import { assign } from '../../src/group/member/classic-leader.ts'
import { type ClassicMember, classicMember } from '../../src/group/member/classic-state.ts'
import { assignmentOf, leasesIn, offers, subscribed } from '../../src/group/member/classic-words.ts'
import { leasesOf } from '../../src/group/member/protocol.ts'
import {
  type AssignorChoice,
  type AssignorName,
  type Candidate,
  strategyOf
} from '../../src/group/member/strategies.ts'
import { isRewindable } from '../../src/protocol/embedded/rewind-envelope.ts'
import { goldenLines } from '../golden/golden.ts'

interface AssignmentLine {
  readonly assignor: 'range' | 'roundrobin'
  readonly topics: Readonly<Record<string, readonly (readonly string[])[]>>
  readonly members: readonly {
    readonly id: string
    readonly instance: string | null
    readonly rack: string | null
    readonly topics: readonly string[]
  }[]
  readonly assigned: Readonly<Record<string, string>>
}

interface SubscriptionLine {
  readonly assignor: AssignorName
  readonly topics: readonly string[]
  readonly previous: string
  readonly owned: string
  readonly generation: number
  readonly rack: string | null
  readonly hex: string
  readonly assignment: string
  readonly theirs?: string
  readonly had?: string
}

const partitionsOf = (text: string) =>
  text
    .split(' ')
    .filter(one => one !== '')
    .map(one => {
      const [topic = '', partition] = one.split(':')
      return { topic, partition: Number(partition) }
    })

const subscriptions = goldenLines('subscriptions.jsonl').map(
  line => JSON.parse(line) as SubscriptionLine
)

function memberOf(line: SubscriptionLine, rewindable: boolean): ClassicMember {
  const times = { sessionTimeoutMs: 1, rebalanceTimeoutMs: 1, heartbeatIntervalMs: 1 }
  const who = { instanceId: null, rackId: line.rack, rewindable }
  const config = { ...who, ...times, assignors: [line.assignor] }
  return {
    ...classicMember(config, { topics: line.topics, regex: null }),
    epoch: line.generation,
    owned: leasesOf(partitionsOf(line.owned)),
    last: { leases: leasesOf(partitionsOf(line.previous)), generation: line.generation }
  }
}

test('range, near racks too, and roundrobin give what Java’s assignors give', () => {
  const lines = goldenLines('assignments.jsonl').map(line => JSON.parse(line) as AssignmentLine)
  assert(lines.length > 100)
  for (const { assignor, topics, members, assigned } of lines) {
    const layout = new Map(
      Object.entries(topics).map(([topic, racks]) => [
        topic,
        { partitionCount: racks.length, racks }
      ])
    )
    const candidates = members.map(
      ({ id: memberId, instance: instanceId, rack: rackId, topics: wanted }): Candidate => {
        const says = { ownedPartitions: [], generationId: -1, userData: null, owned: new Map() }
        return { memberId, instanceId, rackId, topics: wanted, ...says }
      }
    )
    const shares = strategyOf(assignor).assign(candidates, layout)
    const given = candidates.map(({ memberId }, index) => {
      const all = [...(shares[index] ?? [])].flatMap(([topic, partitions]) =>
        [...partitions].map(partition => ({ topic, partition }))
      )
      const text = all
        .sort((a, b) =>
          a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition
        )
        .map(({ topic, partition }) => `${topic}:${partition}`)
      return [memberId, text.join(' ')] as const
    })
    assert.deepEqual(Object.fromEntries(given), assigned, JSON.stringify({ topics, members }))
  }
})

test('a member that joins says what Java’s says, to the byte, and reads what Java’s leader sends', () => {
  for (const line of subscriptions.filter(({ theirs }) => theirs === undefined)) {
    const [offer] = offers(memberOf(line, false))
    assert.equal(offer?.name, line.assignor)
    assert.equal(offer?.metadata.toString('hex'), line.hex)
    const previous = partitionsOf(line.previous)
    assert.equal(assignmentOf(previous).toString('hex'), line.assignment)
    const read = [...leasesIn(Buffer.from(line.assignment, 'hex')).values()]
    assert.deepEqual(read, previous)
  }
})

test('the mark of a rewindable member hides nothing from a Java leader, nor from ours', () => {
  const theirs = subscriptions.filter(({ theirs }) => theirs !== undefined)
  assert(theirs.length > 3)
  for (const line of theirs) {
    const [offer] = offers(memberOf(line, true))
    const metadata = offer?.metadata ?? Buffer.alloc(0)
    assert.equal(metadata.toString('hex'), line.theirs)
    const strategy = strategyOf(line.assignor)
    const holding = strategy.holding(subscribed({ memberId: 'm', groupInstanceId: null, metadata }))
    const had = [...holding.owned].flatMap(([topic, partitions]) =>
      [...partitions].map(partition => `${topic}:${partition}`)
    )
    assert.deepEqual([had.sort().join(' '), holding.generation], [line.had, line.generation])
  }
})

const choices: readonly AssignorChoice[] = [
  'range',
  'roundrobin',
  'sticky',
  'cooperative-sticky',
  'RoundRobinAssigner',
  { name: 'mine', userData: () => Buffer.from('my data'), assign: () => new Map() }
]

test('whether a member can be rewound shows in its words, whatever it offers', () => {
  for (const rewindable of [true, false]) {
    for (const choice of choices) {
      for (const line of subscriptions.slice(0, 5)) {
        const member = memberOf(line, rewindable)
        const config = { ...member.config, assignors: [choice] }
        const [offer] = offers({ ...member, config })
        assert(offer)
        // As admin clients see it: the user data as they are in the subscription.
        const metadata = offer.metadata.subarray(2)
        const topics = line.topics.reduce((sum, topic) => sum + 2 + topic.length, 4)
        const length = metadata.readInt32BE(topics)
        const userData = length < 0 ? null : metadata.subarray(topics + 4, topics + 4 + length)
        assert.equal(isRewindable({ userData }), rewindable)
      }
    }
  }
})

test('words that say version 1 and are version 0 are read, as kafkajs may write them; others want nothing', () => {
  const words = (hex: string) =>
    subscribed({ memberId: 'm', groupInstanceId: null, metadata: Buffer.from(hex, 'hex') })
  assert.deepEqual(words('00010000000100017400000000').topics, ['t'])
  assert.deepEqual(words('00000000000100017400000000').topics, ['t'])
  assert.deepEqual(words('0001000000ff').topics, [])
  assert.deepEqual(words('').topics, [])
})

const own = (assigning: PartitionAssignor['assign']) => ({ name: 'mine', assign: assigning })

function given(choice: PartitionAssignor, owned = '') {
  const line = { ...(subscriptions[0] as SubscriptionLine), owned, generation: 4 }
  const member = memberOf(line, true)
  const [offer] = offers({ ...member, config: { ...member.config, assignors: [choice] } })
  const metadata = offer?.metadata ?? Buffer.alloc(0)
  const members = ['a', 'b'].map(memberId => ({ memberId, groupInstanceId: null, metadata }))
  const racks = new Map([['t', [['x'], ['y'], ['x', 'y']]]])
  return assign(strategyOf(choice), members, new Map([['t', 3]]), racks).map(
    ({ memberId, assignment }) => [memberId, [...leasesIn(assignment).keys()]]
  )
}

test('an assignor of one’s own is told who there is and where, and says who gets what', () => {
  let told: readonly AssignorMember[] = []
  const mine: PartitionAssignor = {
    name: 'mine',
    userData: ({ topics, generation }) => Buffer.from(`${topics.join()} ${generation}`),
    assign(members, topics) {
      told = members
      const racks = topics.get('t')?.racks ?? []
      const near = (rack: string) =>
        racks.flatMap((some, partition) => (some[0] === rack ? [{ topic: 't', partition }] : []))
      return new Map([
        ['a', near('x')],
        ['b', near('y')]
      ])
    }
  }
  assert.deepEqual(given(mine), [
    ['a', ['t/0', 't/2']],
    ['b', ['t/1']]
  ])
  assert.deepEqual(
    told.map(({ memberId, topics, userData }) => [memberId, topics, String(userData)]),
    ['a', 'b'].map(id => [id, ['t'], 't 4'])
  )
})

test('an assignor of one’s own that goes wrong is told so, and nothing is assigned', () => {
  const t = (partition: number) => ({ topic: 't', partition })
  const wrong: readonly (readonly [PartitionAssignor['assign'], RegExp])[] = [
    [() => assert.fail('no idea'), /'mine' threw .*no idea/],
    [() => ({}) as never, /answered no Map/],
    [() => new Map([['a', [t(3)]]]), /t\[3\], which isn't there/],
    [() => new Map([['a', [t(-1)]]]), /isn't there/],
    [() => new Map([['a', [{ topic: 'u', partition: 0 }]]]), /doesn't subscribe/],
    [members => new Map(members.map(({ memberId }) => [memberId, [t(1)]])), /t\[1\] to two members/]
  ]
  for (const [assigning, message] of wrong) {
    assert.throws(() => given(own(assigning)), { code: 'INVALID_ARGUMENT', message })
  }
})

test('who has missed a generation keeps what it has until it gives it up, but for what another has since', () => {
  const line = subscriptions[0] as SubscriptionLine
  const assigned = (assignor: AssignorName, says: readonly (readonly [string, number])[]) => {
    const members = says.map(([owned, generation], index) => {
      const had = { ...line, assignor, previous: owned, owned, generation }
      const [offer] = offers(memberOf(had, true))
      const metadata = offer?.metadata ?? Buffer.alloc(0)
      return { memberId: 'abc'[index] ?? '', groupInstanceId: null, metadata }
    })
    const all = assign(strategyOf(assignor), members, new Map([['t', 4]]), new Map())
    return all.map(({ assignment }) =>
      [...leasesIn(assignment).values()].map(({ partition }) => partition).join()
    )
  }
  // The first was not answered in generation 4. What it is to give up, nobody has in this one.
  const missed = [['t:0 t:1 t:2', 3] as const, ['t:3', 4] as const]
  assert.deepEqual(assigned('cooperative-sticky', missed), ['0,1', '3'])
  const since = [['t:0 t:1', 3] as const, ['t:1 t:2', 4] as const]
  const [first = '', second = ''] = assigned('cooperative-sticky', since)
  assert.ok(first.startsWith('0') && !first.includes('1') && second.startsWith('1,2'))
  assert.deepEqual(
    assigned('sticky', [
      ['t:0 t:1', 3],
      ['t:1 t:2', 4]
    ])[1],
    '1,2'
  )
})

test('members that say what they had keep it: sticky and cooperative-sticky move what must move', () => {
  const line = subscriptions[0] as SubscriptionLine
  const has = fc.array(fc.nat({ max: 3 }), { minLength: 12, maxLength: 12 })
  fc.assert(
    fc.property(has, fc.constantFrom('sticky', 'cooperative-sticky'), (owners, assignor) => {
      const members = ['a', 'b', 'c'].map((memberId, index) => {
        const mine = owners.flatMap((owner, p) => (owner === index ? [`t:${p}`] : [])).join(' ')
        const had = { ...line, assignor, previous: mine, owned: mine, generation: 4 } as const
        const [offer] = offers(memberOf(had, true))
        return { memberId, groupInstanceId: null, metadata: offer?.metadata ?? Buffer.alloc(0) }
      })
      const counts = new Map([['t', 12]])
      const assigned = assign(strategyOf(assignor), members, counts, new Map())
      assigned.forEach(({ assignment }, index) => {
        const now = [...leasesIn(assignment).values()].map(({ partition }) => partition)
        const before = owners.flatMap((owner, p) => (owner === index ? [p] : []))
        const kept = before.filter(p => now.includes(p)).length
        assert.equal(kept, Math.min(before.length, 4), 'four each is even')
        if (assignor === 'sticky') assert.equal(now.length, 4)
      })
    }),
    { numRuns: 100 }
  )
})
