/**
 * Classic groups under any sequence of events: clients join, sync, heartbeat, leave, give up waiting, crash, come back
 * under another id; time passes; the coordinator starts anew.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { ClassicAnswer, JoinAnswer, SyncAnswer } from '../../src/group/classic/answers.ts'
import { type ClassicEvent, classicMachine } from '../../src/group/classic/machine.ts'
import {
  type ClassicFact,
  type ClassicGroup,
  newClassicGroup
} from '../../src/group/classic/state.ts'
import type { GroupConfig } from '../../src/group/machine.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { Stage } from './stage.ts'

const sessionTimeoutMs = 10_000
const rebalanceTimeoutMs = 30_000
/** A client that was never answered is found out after five minutes; nobody waits longer. */
const longestWaitMs = 300_000 + rebalanceTimeoutMs

function plain(group: ClassicGroup): unknown {
  const { phase, generation, protocolType, protocol, leader, sinceMs, members } = group
  const sorted = [...members.values()].sort((a, b) => (a.memberId < b.memberId ? -1 : 1))
  return {
    group: [phase, generation, protocolType, protocol, leader, sinceMs],
    members: sorted.map(
      ({ joining: _j, syncing: _s, unsynced: _u, fresh: _f, sessionEndsMs: _e, ...stored }) =>
        stored
    )
  }
}

interface Client {
  readonly index: number
  id: string
  instanceId: string | null
  generation: number
  version: number
  protocol: number
  /** What it does when it is its turn. */
  next: 'nothing' | 'join' | 'sync' | 'beat'
  /** Of the leader: who is to get something. */
  leads: readonly string[] | null
  waits: { readonly ticket: number; readonly sinceMs: number } | null
  assignment: string | null
}

const protocols = [
  [{ name: 'range', metadata: Buffer.from('r') }],
  [
    { name: 'sticky', metadata: Buffer.from('s') },
    { name: 'range', metadata: Buffer.from('r') }
  ]
]

class Run {
  readonly stage: Stage<ClassicGroup, ClassicEvent, ClassicFact, ClassicAnswer>
  readonly clients: Client[]
  /** Who a leader was told of, by generation. */
  readonly #formed = new Map<number, string>()
  #ticket = 0
  #generation = 0

  constructor(count: number, settings: Partial<GroupConfig>) {
    this.stage = new Stage(classicMachine, newClassicGroup, plain, settings)
    this.clients = Array.from({ length: count }, (_, index) => ({
      index,
      id: '',
      instanceId: index % 3 === 2 ? `i${index}` : null,
      generation: -1,
      version: 9,
      protocol: 0,
      next: 'nothing',
      leads: null,
      waits: null,
      assignment: null
    }))
  }

  /** The client's next request, if it isn't waiting for an answer. */
  go(client: Client): void {
    const { id: memberId, instanceId: groupInstanceId, generation: generationId, version } = client
    if (client.waits !== null || client.next === 'nothing') return
    const ticket = ++this.#ticket
    client.waits = { ticket, sinceMs: this.stage.nowMs }
    if (client.next === 'join') {
      return this.#tell({
        kind: 'join',
        ticket,
        version,
        client: { id: 'client', host: '/here' },
        request: {
          groupId: 'g',
          sessionTimeoutMs,
          rebalanceTimeoutMs,
          memberId,
          groupInstanceId,
          protocolType: 'consumer',
          protocols: protocols[client.protocol] ?? [],
          reason: null
        }
      })
    }
    if (client.next === 'beat') {
      const request = { groupId: 'g', generationId, memberId, groupInstanceId }
      return this.#tell({ kind: 'heartbeat', ticket, request })
    }
    const assignments = (client.leads ?? []).map(to => {
      return { memberId: to, assignment: Buffer.from(`${generationId}:${to}`) }
    })
    const request = { groupId: 'g', generationId, memberId, groupInstanceId, assignments }
    this.#tell({
      kind: 'sync',
      ticket,
      request: { ...request, protocolType: null, protocolName: null }
    })
  }

  leave(client: Client): void {
    const ticket = ++this.#ticket
    const members = [{ memberId: client.id, groupInstanceId: client.instanceId, reason: null }]
    this.#tell({
      kind: 'leave',
      ticket,
      version: 5,
      request: { groupId: 'g', memberId: '', members }
    })
    this.forget(client)
  }

  /** Its process is gone; who waited for it waits for nobody. */
  forget(client: Client): void {
    Object.assign(client, {
      id: '',
      generation: -1,
      next: 'nothing',
      leads: null,
      waits: null,
      assignment: null
    })
  }

  restart(): void {
    this.stage.restart()
    for (const client of this.clients) client.waits = null
    this.#tell({ kind: 'loaded' })
  }

  pass(ms: number): void {
    const untilMs = this.stage.nowMs + ms
    while (this.stage.wakeMs <= untilMs) {
      this.stage.nowMs = Math.max(this.stage.nowMs, this.stage.wakeMs)
      this.stage.wakeMs = Infinity
      this.#tell({ kind: 'time' })
    }
    this.stage.nowMs = untilMs
  }

  #tell(event: ClassicEvent): void {
    for (const effect of this.stage.tell(event).effects) {
      if (effect.kind === 'answer') this.#answered(effect.ticket, effect.answer)
    }
  }

  #answered(ticket: number, answer: ClassicAnswer): void {
    const client = this.clients.find(({ waits }) => waits?.ticket === ticket)
    if (client === undefined) return
    client.waits = null
    if (client.next === 'join') return this.#joined(client, answer as JoinAnswer)
    if (client.next === 'sync') return this.#synced(client, answer as SyncAnswer)
    if (answer.errorCode !== KafkaError.NONE) this.#again(client, answer.errorCode)
  }

  #joined(client: Client, answer: JoinAnswer): void {
    const { errorCode, memberId, generationId = -1, leader, members } = answer
    if (errorCode === KafkaError.MEMBER_ID_REQUIRED) {
      client.id = memberId
      return
    }
    if (errorCode !== KafkaError.NONE) return this.#again(client, errorCode)
    const rejoins = client.id === memberId
    assert(
      !rejoins || generationId >= client.generation,
      'the generation of a member never goes down'
    )
    const leads = leader === memberId && !answer.skipAssignment
    Object.assign(client, { id: memberId, generation: generationId, next: 'sync' })
    client.leads = leads ? members.map(one => one.memberId) : null
    if (!leads) return
    const told = JSON.stringify(members.map(one => one.memberId).sort())
    assert.equal(
      this.#formed.get(generationId) ?? told,
      told,
      'a generation has one set of members'
    )
    this.#formed.set(generationId, told)
  }

  #synced(client: Client, { errorCode, assignment }: SyncAnswer): void {
    if (errorCode !== KafkaError.NONE) return this.#again(client, errorCode)
    client.next = 'beat'
    client.assignment = assignment.toString()
  }

  #again(client: Client, errorCode: number): void {
    client.next = 'join'
    client.leads = null
    client.assignment = null
    if (errorCode === KafkaError.FENCED_INSTANCE_ID) return this.forget(client)
    if (errorCode === KafkaError.UNKNOWN_MEMBER_ID) client.id = ''
  }

  check(): void {
    const { generation } = this.stage.state
    assert(generation >= this.#generation, 'the generation of a group never goes down')
    this.#generation = generation
    for (const { waits } of this.clients) {
      assert(
        waits === null || this.stage.nowMs - waits.sinceMs <= longestWaitMs,
        'every request is answered'
      )
    }
    this.stage.assertReplays()
  }

  settle(): void {
    const alive = this.clients.filter(({ next }) => next !== 'nothing')
    for (let round = 0; round < 120; round++) {
      for (const client of alive) this.go(client)
      this.pass(5_000)
      this.check()
    }
    const { state } = this.stage
    const left = alive.filter(({ next }) => next !== 'nothing')
    assert.equal(state.members.size, left.length)
    assert.equal(state.phase, left.length === 0 ? 'Empty' : 'Stable')
    for (const { id, generation, assignment, waits, next } of left) {
      assert.deepEqual([next, waits, generation], ['beat', null, state.generation])
      // A static member that took another's place has what that one was given.
      if (!id.startsWith('i')) assert.equal(assignment, `${generation}:${id}`)
      else assert(assignment !== '' && assignment !== null)
    }
  }
}

const who = fc.nat({ max: 5 })
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('start' as const),
      who,
      version: fc.constantFrom(2, 9),
      protocol: fc.nat({ max: 1 })
    })
  },
  { weight: 16, arbitrary: fc.record({ do: fc.constant('go' as const), who }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('all' as const) }) },
  fc.record({ do: fc.constant('rejoin' as const), who, protocol: fc.nat({ max: 1 }) }),
  fc.record({ do: fc.constant('leave' as const), who }),
  fc.record({ do: fc.constant('crash' as const), who }),
  fc.record({
    do: fc.constant('pass' as const),
    ms: fc.constantFrom(1_000, 6_000, 20_000, 60_000)
  }),
  fc.record({ do: fc.constant('restart' as const) })
)
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

function act(run: Run, one: Step): void {
  const client = 'who' in one ? (run.clients[one.who] as Client) : undefined
  const runs = client !== undefined && client.next !== 'nothing'
  switch (one.do) {
    case 'start':
      if (client && !runs)
        Object.assign(client, { next: 'join', version: one.version, protocol: one.protocol })
      return
    case 'go':
      if (client) run.go(client)
      return
    case 'all':
      for (const each of run.clients) run.go(each)
      return
    case 'rejoin':
      if (client && runs && !client.waits)
        Object.assign(client, { next: 'join', protocol: one.protocol })
      return
    case 'leave':
      if (client && runs && client.id !== '') run.leave(client)
      return
    case 'crash':
      if (client) run.forget(client)
      return
    case 'pass':
      return run.pass(one.ms)
    case 'restart':
      return run.restart()
  }
}

/** A group of clients that are all where they want to be. */
function stable(count: number): Run {
  const run = new Run(count, {})
  for (const client of run.clients) client.next = 'join'
  for (let round = 0; round < 10; round++) for (const client of run.clients) run.go(client)
  assert.equal(run.stage.state.phase, 'Stable')
  return run
}

/** Heartbeats whatever it should do. */
function beatFor(run: Run, client: Client, ms: number): void {
  for (let passed = 0; passed < ms; passed += 5_000) {
    const { next } = client
    client.next = 'beat'
    run.go(client)
    client.next = next
    run.pass(5_000)
  }
}

test('who heartbeats but does not join again is removed at the rebalance timeout', () => {
  const run = stable(3)
  const [joins, lingers, leaves] = run.clients as [Client, Client, Client]
  run.leave(leaves)
  joins.next = 'join'
  run.go(joins)
  beatFor(run, lingers, rebalanceTimeoutMs - 5_000)
  assert.equal(run.stage.state.phase, 'PreparingRebalance')
  beatFor(run, lingers, 5_000)
  assert.deepEqual([...run.stage.state.members.keys()], [joins.id])
  assert.equal(joins.waits, null)
})

test('a leader that heartbeats but gives no assignment is removed, and who waits for it is told to join again', () => {
  const run = stable(2)
  const clients = run.clients as [Client, Client]
  for (const client of clients) client.next = 'join'
  for (const client of clients) run.go(client)
  const leader = clients.find(({ leads }) => leads !== null) as Client
  const other = clients.find(client => client !== leader) as Client
  run.go(other)
  assert.notEqual(other.waits, null)
  beatFor(run, leader, rebalanceTimeoutMs)
  assert.deepEqual([other.waits, other.next], [null, 'join'])
  assert.deepEqual([...run.stage.state.members.keys()], [other.id])
})

for (const initialRebalanceDelayMs of [0, 3_000]) {
  test(`whatever happens, every request is answered and the group comes to rest, with an initial delay of ${initialRebalanceDelayMs} ms`, () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), steps => {
        const run = new Run(6, { initialRebalanceDelayMs })
        for (const one of steps) {
          act(run, one)
          run.check()
        }
        run.settle()
      }),
      { numRuns: 300, includeErrorInReport: true }
    )
  })
}

const id = fc.constantFrom('', 'x', 'client-id-1', 'client-id-2', 'client-id-3', 'i-id-1', 'i-id-2')
const odd = fc.record({
  do: fc.constantFrom('join', 'join', 'sync', 'sync', 'beat', 'leave', 'time', 'committed'),
  memberId: id,
  groupInstanceId: fc.option(fc.constant('i')),
  generationId: fc.integer({ min: -1, max: 4 }),
  version: fc.constantFrom(2, 5, 9),
  protocol: fc.nat({ max: 1 }),
  ms: fc.constantFrom(0, 11_000, 31_000)
})

test('whatever clients say they are, every request is answered once, and the group can be replayed', () => {
  fc.assert(
    fc.property(fc.array(odd, { maxLength: 60 }), requests => {
      const { stage } = new Run(0, {})
      const open = new Set<number>()
      const tell = (event: ClassicEvent) => {
        for (const effect of stage.tell(event).effects) {
          if (effect.kind === 'answer') assert(open.delete(effect.ticket), 'each is answered once')
        }
        stage.assertReplays()
      }
      for (const [ticket, one] of requests.entries()) {
        const { memberId, groupInstanceId, generationId, version } = one
        const by = { groupId: 'g', memberId, groupInstanceId, generationId }
        if (!['time', 'committed'].includes(one.do)) open.add(ticket)
        switch (one.do) {
          case 'join': {
            const joining = {
              sessionTimeoutMs,
              rebalanceTimeoutMs,
              protocolType: 'consumer',
              reason: null
            }
            const request = { ...by, ...joining, protocols: protocols[one.protocol] ?? [] }
            tell({ kind: 'join', ticket, version, client: { id: 'client', host: '/h' }, request })
            break
          }
          case 'sync': {
            const assignments = [{ memberId, assignment: Buffer.from('a') }]
            const request = { ...by, assignments, protocolType: null, protocolName: null }
            tell({ kind: 'sync', ticket, request })
            break
          }
          case 'beat':
            tell({ kind: 'heartbeat', ticket, request: by })
            break
          case 'leave': {
            const members = [{ memberId, groupInstanceId, reason: null }]
            tell({ kind: 'leave', ticket, version, request: { groupId: 'g', memberId, members } })
            break
          }
          case 'committed':
            tell({ kind: 'committed', memberId })
            break
          case 'time':
            stage.nowMs += one.ms
            tell({ kind: 'time' })
        }
      }
      for (let round = 0; round < 40; round++) {
        stage.nowMs += 20_000
        tell({ kind: 'time' })
      }
      assert.deepEqual([open.size, stage.state.members.size], [0, 0])
    }),
    { numRuns: 500, includeErrorInReport: true }
  )
})
