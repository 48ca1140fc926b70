/**
 * KIP-848 groups under any sequence of events: members join, heartbeat, lose answers, crash, leave, come back under
 * another id; topics come, grow and go; time passes; the coordinator starts anew.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { HeartbeatAnswer } from '../../src/group/consumer/heartbeat.ts'
import { type ConsumerEvent, consumerMachine } from '../../src/group/consumer/machine.ts'
import {
  type ConsumerFact,
  type ConsumerGroup,
  awayEpoch,
  leftEpoch,
  listOf,
  newConsumerGroup
} from '../../src/group/consumer/state.ts'
import { KafkaError, kafkaErrorName } from '../../src/protocol/errors.ts'
import { Stage } from './stage.ts'

function plain({ epoch, members }: ConsumerGroup): unknown {
  const sorted = [...members.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  return {
    epoch,
    members: sorted.map(
      ({ sessionEndsMs: _s, revokeByMs: _r, target, assigned, revoking, ...rest }) => ({
        ...rest,
        target: listOf(target),
        assigned: [...assigned].map(([topicId, epochs]) => [topicId, [...epochs]]),
        revoking: [...revoking].map(([topicId, epochs]) => [topicId, [...epochs]])
      })
    )
  }
}

/** A client as Kafka's is: gives up at once what it is told to, and says so. */
interface Client {
  id: string
  readonly instanceId: string | null
  epoch: number
  owned: Set<string>
  /** Until its next answer: it must say everything. */
  unsure: boolean
  state: 'out' | 'in' | 'crashed' | 'away'
  topics: readonly string[]
  pattern: string | null
  heardMs: number
}

const rebalanceTimeoutMs = 30_000

class Run {
  readonly stage = new Stage<ConsumerGroup, ConsumerEvent, ConsumerFact, HeartbeatAnswer>(
    consumerMachine,
    newConsumerGroup,
    plain
  )
  readonly clients: Client[]
  #ticket = 0
  #lives = 0
  #epoch = 0

  constructor(count: number) {
    this.clients = Array.from({ length: count }, (_, index) => ({
      id: `c${index}`,
      instanceId: index % 3 === 2 ? `i${index}` : null,
      epoch: 0,
      owned: new Set(),
      unsure: true,
      state: 'out',
      topics: [],
      pattern: null,
      heardMs: 0
    }))
  }

  /** One heartbeat; `lost`: its answer doesn't arrive. */
  beat(client: Client, lost = false, memberEpoch = client.epoch): string {
    const joins = memberEpoch === 0
    const leaves = memberEpoch < 0
    const full = !leaves && (joins || client.unsure)
    const ticket = ++this.#ticket
    const { effects } = this.stage.tell({
      kind: 'heartbeat',
      ticket,
      version: 1,
      client: { id: 'client', host: '/here' },
      request: {
        groupId: 'g',
        memberId: client.id,
        memberEpoch,
        instanceId: client.instanceId,
        rackId: null,
        rebalanceTimeoutMs: full ? rebalanceTimeoutMs : -1,
        subscribedTopicNames: full ? client.topics : null,
        subscribedTopicRegex: full ? (client.pattern ?? '') : null,
        serverAssignor: null,
        topicPartitions: leaves ? null : joins ? [] : listed(client.owned)
      }
    })
    const answers = effects.flatMap(effect => (effect.kind === 'answer' ? [effect] : []))
    assert.deepEqual(
      answers.map(answer => answer.ticket),
      [ticket],
      'one answer, at once'
    )
    const answer = answers[0]?.answer
    assert(answer)
    if (lost) client.unsure = true
    else if (!leaves) this.#take(client, answer)
    return kafkaErrorName(answer.errorCode)
  }

  #take(client: Client, answer: HeartbeatAnswer): void {
    if (answer.errorCode !== KafkaError.NONE) {
      // Fenced: it gives up everything and begins anew, under its old id.
      client.epoch = 0
      client.owned = new Set()
      client.unsure = true
      if (answer.errorCode === KafkaError.FENCED_INSTANCE_ID) client.state = 'out'
      return
    }
    assert(answer.memberEpoch >= client.epoch, 'the epoch of a member never goes down')
    client.epoch = answer.memberEpoch
    client.unsure = false
    client.heardMs = this.stage.nowMs
    client.state = 'in'
    const list = answer.assignment?.topicPartitions
    if (list)
      client.owned = new Set(
        list.flatMap(({ topicId, partitions }) => partitions.map(p => `${topicId}:${p}`))
      )
  }

  /** A static member's process ends in order, and another takes its place later. */
  away(client: Client): void {
    this.beat(client, false, awayEpoch)
    Object.assign(client, { state: 'away', epoch: 0, owned: new Set(), unsure: true })
    client.id = `c-${client.instanceId}-${++this.#lives}`
  }

  leave(client: Client): void {
    this.beat(client, false, leftEpoch)
    Object.assign(client, { state: 'out', epoch: 0, owned: new Set(), unsure: true })
  }

  pass(ms: number): void {
    const untilMs = this.stage.nowMs + ms
    while (this.stage.wakeMs <= untilMs) {
      this.stage.nowMs = Math.max(this.stage.nowMs, this.stage.wakeMs)
      this.stage.wakeMs = Infinity
      this.stage.tell({ kind: 'time' })
    }
    this.stage.nowMs = untilMs
  }

  check(): void {
    const { state } = this.stage
    assert(state.epoch >= this.#epoch, 'the epoch of a group never goes down')
    this.#epoch = state.epoch
    const owners = new Map<string, string>()
    for (const { id, owned, heardMs } of this.clients) {
      // Who hasn't heard for a session, or for as long as it is waited for when it was asked in vain to give something
      // up, has given up (or is a zombie that this test isn't about).
      if (this.stage.nowMs - heardMs >= Math.min(45_000, rebalanceTimeoutMs)) continue
      for (const tp of owned) {
        assert(!owners.has(tp), `${tp} is of ${id} and of ${owners.get(tp)}`)
        owners.set(tp, id)
      }
    }
    for (const client of this.clients) this.#assertMayCommit(client)
    this.stage.assertReplays()
  }

  /** Whoever owns a partition can say how far it came, also when it hasn't heard of its newest epoch. */
  #assertMayCommit({ id: memberId, instanceId, epoch, owned }: Client): void {
    const { state } = this.stage
    if (!state.members.has(memberId) || epoch <= 0) return
    const by = { memberId, instanceId, epoch, transactional: false, knowsEpochs: true }
    const verdict = consumerMachine.mayCommit(state, by)
    for (const tp of owned) {
      const [topicId = '', partition] = tp.split(':')
      const code = typeof verdict === 'number' ? verdict : verdict(topicId, Number(partition))
      assert.equal(kafkaErrorName(code), 'NONE', `${memberId} commits ${tp} in epoch ${epoch}`)
    }
  }

  /** Everybody who lives says so until nothing changes. */
  settle(): void {
    const alive = this.clients.filter(({ state }) => state === 'in')
    for (let round = 0; round < 12; round++) {
      for (const client of alive) this.beat(client)
      this.pass(round < 4 ? 20_000 : 1_000)
      this.check()
    }
    assert.equal(this.stage.state.members.size, alive.length)
    assert.equal(
      consumerMachine.stateName(this.stage.state),
      alive.length === 0 ? 'Empty' : 'Stable'
    )
    const owned = new Set(alive.flatMap(client => [...client.owned]))
    const wanted = new Set<string>()
    for (const name of this.stage.topics.names()) {
      const topic = this.stage.topics.named(name)
      const by = alive.filter(client => client.topics.includes(name) || client.pattern === 't[12]')
      const matched = by.filter(client => client.topics.includes(name) || /^t[12]$/.test(name))
      if (!topic || matched.length === 0) continue
      for (let p = 0; p < topic.partitionCount; p++) wanted.add(`${topic.id}:${p}`)
    }
    assert.deepEqual([...owned].sort(), [...wanted].sort(), 'every partition has an owner')
  }
}

function listed(owned: ReadonlySet<string>) {
  const byTopic = new Map<string, number[]>()
  for (const tp of owned) {
    const [topicId = '', partition] = tp.split(':')
    byTopic.set(topicId, [...(byTopic.get(topicId) ?? []), Number(partition)])
  }
  return [...byTopic].map(([topicId, partitions]) => ({ topicId, partitions }))
}

const who = fc.nat({ max: 5 })
const name = fc.constantFrom('t0', 't1', 't2')
const subscription = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.subarray(['t0', 't1', 't2']).map(topics => ({ topics, pattern: null }))
  },
  fc.constant({ topics: [], pattern: 't[12]' })
)
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('join' as const), who, subscription }) },
  {
    weight: 10,
    arbitrary: fc.record({ do: fc.constant('beat' as const), who, lost: fc.boolean() })
  },
  fc.record({ do: fc.constant('leave' as const), who }),
  fc.record({ do: fc.constant('crash' as const), who }),
  fc.record({ do: fc.constant('subscribe' as const), who, subscription }),
  fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(1_000, 10_000, 30_000) }),
  fc.record({ do: fc.constant('create' as const), name, count: fc.integer({ min: 1, max: 5 }) }),
  fc.record({ do: fc.constant('delete' as const), name }),
  fc.record({ do: fc.constant('restart' as const) })
)
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

function act(run: Run, one: Step): void {
  const { stage, clients } = run
  switch (one.do) {
    case 'join': {
      const client = clients[one.who] as Client
      if (client.state === 'in') return
      Object.assign(client, one.subscription)
      run.beat(client)
      return
    }
    case 'beat': {
      const client = clients[one.who] as Client
      if (client.state === 'in') run.beat(client, one.lost)
      return
    }
    case 'leave': {
      const client = clients[one.who] as Client
      if (client.state !== 'in') return
      if (client.instanceId === null) run.leave(client)
      else run.away(client)
      return
    }
    case 'crash': {
      const client = clients[one.who] as Client
      if (client.state === 'in')
        Object.assign(client, { state: 'crashed', epoch: 0, owned: new Set(), unsure: true })
      return
    }
    case 'subscribe': {
      const client = clients[one.who] as Client
      if (client.state !== 'in') return
      Object.assign(client, one.subscription)
      client.unsure = true
      return
    }
    case 'pass':
      return run.pass(one.ms)
    case 'create':
      if (stage.topics.named(one.name)) stage.topics.grow(one.name, one.count)
      else stage.topics.create(one.name, one.count)
      stage.tell({ kind: 'topics' })
      return
    case 'delete':
      stage.topics.delete(one.name)
      stage.tell({ kind: 'topics' })
      return
    case 'restart':
      stage.restart()
      stage.tell({ kind: 'loaded' })
  }
}

test('who does not give up what it has to within its rebalance timeout is removed, and others get it', () => {
  const run = new Run(2)
  run.stage.topics.create('t0', 2)
  const [lingers, waits] = run.clients as [Client, Client]
  for (const client of run.clients) Object.assign(client, { topics: ['t0'] })
  run.beat(lingers)
  run.beat(waits)
  run.beat(lingers)
  // Told to give up one, it goes on saying that it has both.
  const both = run.stage.topics.named('t0')?.id ?? ''
  lingers.owned = new Set([`${both}:0`, `${both}:1`])
  for (let passed = 0; passed < 25_000; passed += 5_000) {
    run.pass(5_000)
    assert.deepEqual([run.beat(lingers), run.beat(waits), waits.owned.size], ['NONE', 'NONE', 0])
  }
  run.pass(5_000)
  assert.deepEqual([...run.stage.state.members.keys()], [waits.id])
  run.beat(waits)
  assert.equal(waits.owned.size, 2)
  assert.equal(run.beat(lingers), 'UNKNOWN_MEMBER_ID')
})

test('whatever happens, a partition has one owner, epochs rise, and the group comes to rest with all assigned', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), steps => {
      const run = new Run(6)
      run.stage.topics.create('t0', 3)
      for (const one of steps) {
        act(run, one)
        run.check()
      }
      run.settle()
    }),
    { numRuns: 400, includeErrorInReport: true }
  )
})

const id = fc.constantFrom('a', 'b', 'c', '__proto__')
const odd = fc.record({
  memberId: id,
  memberEpoch: fc.integer({ min: -2, max: 8 }),
  instanceId: fc.option(fc.constantFrom('i', 'j', '__proto__')),
  names: fc.option(fc.subarray(['t0', 't1', 'none'])),
  pattern: fc.option(fc.constantFrom('', 't.*')),
  serverAssignor: fc.option(fc.constantFrom('range', 'uniform')),
  owned: fc.option(fc.array(fc.tuple(fc.nat({ max: 2 }), fc.integer({ min: -1, max: 9 })))),
  passMs: fc.constantFrom(0, 10_000, 31_000)
})

test('whatever members say they are and own, the group holds together and can be replayed', () => {
  fc.assert(
    fc.property(fc.array(odd, { maxLength: 40 }), heartbeats => {
      const { stage } = new Run(0)
      const ids = ['t0', 't1'].map(topic => stage.topics.create(topic, 3).id)
      for (const [ticket, one] of heartbeats.entries()) {
        const said = (one.owned ?? []).map(([topic, partition]) => ({
          topicId: ids[topic] ?? 'AAAAAAAAAAAAAAAAAAAAAA',
          partitions: [partition]
        }))
        const request = {
          groupId: 'g',
          memberId: one.memberId,
          memberEpoch: one.memberEpoch,
          instanceId: one.memberEpoch === -2 ? (one.instanceId ?? 'i') : one.instanceId,
          rackId: null,
          rebalanceTimeoutMs: 30_000,
          subscribedTopicNames: one.names,
          subscribedTopicRegex: one.pattern,
          serverAssignor: one.serverAssignor,
          topicPartitions: one.owned === null ? null : said
        }
        const client = { id: 'client', host: '/here' }
        const { effects } = stage.tell({ kind: 'heartbeat', ticket, version: 1, client, request })
        assert.equal(effects.filter(({ kind }) => kind === 'answer').length, 1)
        stage.assertReplays()
        stage.nowMs += one.passMs
        stage.tell({ kind: 'time' })
      }
    }),
    { numRuns: 300, includeErrorInReport: true }
  )
})
