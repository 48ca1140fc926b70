/** Members of a classic group, each with its machine, and the coordinator's machine between them, under a virtual clock. */
import assert from 'node:assert/strict'
import type { ClassicAnswer as Answer } from '../../src/group/classic/answers.ts'
import { type ClassicEvent as GroupEvent, classicMachine } from '../../src/group/classic/machine.ts'
import {
  type ClassicFact,
  type ClassicGroup,
  newClassicGroup
} from '../../src/group/classic/state.ts'
import { countAssigned } from '../../src/group/member/classic-leader.ts'
import { type ClassicEvent, decide } from '../../src/group/member/classic.ts'
import {
  apply,
  checkInvariants,
  type ClassicAnswer,
  type ClassicMember,
  classicMember,
  type ClassicRequest
} from '../../src/group/member/classic-state.ts'
import { type Lease, leaseKey, type MemberAction } from '../../src/group/member/protocol.ts'
import type { AssignorChoice } from '../../src/group/member/strategies.ts'
import { Stage } from './stage.ts'

export const sessionTimeoutMs = 10_000
export const rebalanceTimeoutMs = 30_000

/** A request on its way, and its answer, once there is one. */
interface Exchange {
  readonly to: ClassicRequest['kind']
  /** Whether the coordinator has it. */
  arrived: boolean
  readonly request: ClassicRequest
  answer: ClassicAnswer | undefined
}

export interface Hand {
  readonly index: number
  readonly instanceId: string | null
  readonly assignors: readonly AssignorChoice[]
  member: ClassicMember
  alive: boolean
  exchanges: Exchange[]
  /** What the application may be reading, or whose work is not committed yet. */
  readonly holds: Map<string, Lease>
  /** Of these: asked back. */
  readonly toRelease: Map<string, Lease>
  readonly did: MemberAction<ClassicRequest>['do'][]
}

export class Crew {
  readonly stage = new Stage<ClassicGroup, GroupEvent, ClassicFact, Answer>(
    classicMachine,
    newClassicGroup,
    ({ phase, generation }) => ({ phase, generation })
  )
  readonly hands: Hand[]
  readonly #waiting = new Map<number, { readonly hand: Hand; readonly exchange: Exchange }>()
  #ticket = 0

  constructor(
    all: readonly { readonly assignors: readonly AssignorChoice[]; readonly isStatic?: boolean }[],
    partitions: number
  ) {
    this.stage.topics.create('t', partitions)
    this.stage.topics.create('u', 2)
    this.hands = all.map(({ assignors, isStatic }, index) => {
      const instanceId = isStatic ? `i${index}` : null
      const member = this.#member(instanceId, assignors)
      const own = { holds: new Map(), toRelease: new Map(), did: [], exchanges: [] }
      return { index, instanceId, assignors, member, alive: false, ...own }
    })
  }

  #member(instanceId: string | null, assignors: readonly AssignorChoice[]): ClassicMember {
    const times = { sessionTimeoutMs, rebalanceTimeoutMs, heartbeatIntervalMs: 1_000 }
    const config = { instanceId, rackId: null, ...times, assignors, rewindable: true }
    return classicMember(config, { topics: ['t', 'u'], regex: null })
  }

  // What a test lets happen

  start(hand: Hand): void {
    if (hand.alive) return
    hand.alive = true
    hand.member = this.#member(hand.instanceId, hand.assignors)
    this.tell(hand, { on: 'start' })
  }

  crash(hand: Hand): void {
    hand.alive = false
    hand.exchanges = []
    hand.holds.clear()
    hand.toRelease.clear()
  }

  tell(hand: Hand, event: ClassicEvent): void {
    if (!hand.alive) return
    const { facts, actions } = decide(hand.member, event, this.stage.nowMs)
    for (const fact of facts) hand.member = apply(hand.member, fact)
    checkInvariants(hand.member)
    for (const action of actions) this.#do(hand, action)
  }

  /** The first request that is under way reaches the coordinator, but none of `stuck`. */
  arrive(hand: Hand, stuck?: ClassicRequest['kind']): void {
    const exchange = hand.exchanges.find(({ arrived, to }) => !arrived && to !== stuck)
    if (exchange === undefined) return
    exchange.arrived = true
    this.#handle(hand, exchange)
  }

  /** An answer reaches its member: the first that there is, or the last. */
  answer(hand: Hand, which: 'first' | 'last' = 'first'): void {
    const there = hand.exchanges.filter(({ answer }) => answer !== undefined)
    const exchange = which === 'first' ? there[0] : there.at(-1)
    if (exchange?.answer === undefined) return
    hand.exchanges = hand.exchanges.filter(one => one !== exchange)
    this.tell(hand, { on: 'answered', answer: exchange.answer })
  }

  /** A request or its answer is lost, wherever it is by now. */
  lose(hand: Hand): void {
    const exchange = hand.exchanges.shift()
    if (exchange === undefined) return
    this.tell(hand, { on: 'answered', answer: { to: exchange.to, body: null } })
  }

  /** What was asked back is let go of: its handlers have ended. */
  release(hand: Hand): void {
    const leases = [...hand.toRelease.values()]
    if (leases.length === 0) return
    hand.toRelease.clear()
    for (const lease of leases) hand.holds.delete(leaseKey(lease))
    this.tell(hand, { on: 'released', leases })
  }

  /** Time goes on, until `ms` have gone by or the next moment that a member waits for. */
  pass(ms: number): void {
    const until = this.stage.nowMs + ms
    for (;;) {
      const next = Math.min(this.stage.wakeMs, ...this.hands.map(hand => this.#wakeAt(hand)))
      if (next > until) break
      this.stage.nowMs = Math.max(this.stage.nowMs, next)
      if (this.stage.wakeMs <= this.stage.nowMs) {
        this.stage.wakeMs = Infinity
        this.#group({ kind: 'time' })
      }
      for (const hand of this.hands) {
        if (this.#wakeAt(hand) <= this.stage.nowMs) this.tell(hand, { on: 'wake' })
      }
    }
    this.stage.nowMs = until
  }

  /** Partitions are added, and all who are to know hear of it. */
  grow(): void {
    this.stage.topics.grow('t', 1)
    this.look()
  }

  look(): void {
    for (const hand of this.hands)
      this.tell(hand, { on: 'topics', counts: this.#counts(), racks: new Map() })
  }

  /** Nothing is lost, nobody is slow, for so long; but who comes first changes. */
  calm(ms: number): void {
    for (let passed = 0; passed < ms; passed += 10) {
      for (let more = true; more; ) {
        more = false
        for (const hand of this.#inTurn()) {
          const before = hand.did.length
          while (hand.exchanges.some(({ arrived }) => !arrived)) this.arrive(hand)
          if (hand.did.length > before) more = true
        }
        for (const hand of this.#inTurn()) {
          const before = hand.did.length
          while (hand.exchanges.some(({ answer }) => answer !== undefined)) this.answer(hand)
          if (hand.did.length > before) more = true
        }
        for (const hand of this.#inTurn()) this.release(hand)
      }
      this.pass(10)
    }
    this.look()
  }

  #turns = 0

  #inTurn(): readonly Hand[] {
    const first = this.#turns++ % this.hands.length
    return [...this.hands.slice(first), ...this.hands.slice(0, first)]
  }

  // The rest

  #wakeAt(hand: Hand): number {
    return hand.alive ? Math.min(hand.member.wakeAt, hand.member.giveUpBy) : Infinity
  }

  #counts(): ReadonlyMap<string, number> {
    const { topics } = this.stage
    return new Map(['t', 'u'].map(name => [name, topics.named(name)?.partitionCount ?? 0]))
  }

  #do(hand: Hand, action: MemberAction<ClassicRequest>): void {
    hand.did.push(action.do)
    switch (action.do) {
      case 'request':
        hand.exchanges.push({
          to: action.request.kind,
          arrived: false,
          request: action.request,
          answer: undefined
        })
        return
      case 'assign':
        for (const lease of action.leases) this.#assigned(hand, lease)
        return
      case 'revoke':
        for (const lease of action.leases) {
          assert(hand.holds.has(leaseKey(lease)), 'only what it has is asked back')
          hand.toRelease.set(leaseKey(lease), lease)
        }
        return
      case 'lose':
        for (const lease of action.leases) {
          hand.holds.delete(leaseKey(lease))
          hand.toRelease.delete(leaseKey(lease))
        }
        return
      case 'left':
        this.crash(hand)
        return
      case 'findCoordinator':
      case 'rejoin':
      case 'fail':
        return
    }
  }

  /** G1: nobody else has it, but for who was expelled and hasn't heard of it (G12). */
  #assigned(hand: Hand, lease: Lease): void {
    const key = leaseKey(lease)
    assert(!hand.holds.has(key), `${key} is assigned twice`)
    hand.holds.set(key, lease)
    for (const other of this.hands) {
      if (other === hand || !other.holds.has(key)) continue
      const known = this.stage.state.members.get(other.member.memberId)
      assert(
        known === undefined,
        `${key}, which member ${other.index} has, was assigned to member ${hand.index}`
      )
    }
  }

  #handle(hand: Hand, exchange: Exchange): void {
    const { request } = exchange
    if (request.kind === 'count') {
      const given = [...this.stage.state.members.values()].map(({ assignment }) => assignment)
      const counts = request.ofGroup ? countAssigned(request.topics, given) : this.#counts()
      exchange.answer = { to: 'count', body: { counts, racks: new Map() } }
      return
    }
    const ticket = ++this.#ticket
    this.#waiting.set(ticket, { hand, exchange })
    const client = { id: `c${hand.index}`, host: '/here' }
    // What a request leaves out is as the broker reads it.
    const read = {
      groupId: 'g',
      groupInstanceId: null,
      reason: null,
      memberId: '',
      ...request.body
    }
    const event = { kind: request.kind, ticket, version: 9, client, request: read }
    this.#group(event as unknown as GroupEvent)
  }

  #group(event: GroupEvent): void {
    for (const effect of this.stage.tell(event).effects) {
      if (effect.kind !== 'answer') continue
      const waits = this.#waiting.get(effect.ticket)
      this.#waiting.delete(effect.ticket)
      if (waits === undefined) continue
      const { exchange } = waits
      const { to } = exchange
      const body = { skipAssignment: false, ...effect.answer }
      exchange.answer = { to, body } as unknown as ClassicAnswer
    }
  }
}
