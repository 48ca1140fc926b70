/** One group: its offsets, and the machine of its members with its state. */
import { type ClassicEvent, classicMachine } from '../group/classic/machine.ts'
import type { ClassicAnswer } from '../group/classic/answers.ts'
import { type ClassicFact, type ClassicGroup, newClassicGroup } from '../group/classic/state.ts'
import type { HeartbeatAnswer } from '../group/consumer/heartbeat.ts'
import { controllerMachine } from '../group/controller/machine.ts'
import {
  type ControllerFact,
  type ControllerGroup,
  newControllerGroup
} from '../group/controller/state.ts'
import type {
  ControllerAnswer,
  ControllerEvent,
  ControllerWorld
} from '../group/controller/world.ts'
import { type ConsumerEvent, consumerMachine } from '../group/consumer/machine.ts'
import { type ConsumerFact, type ConsumerGroup, newConsumerGroup } from '../group/consumer/state.ts'
import type {
  CommitCheck,
  Committer,
  Effect,
  Machine,
  Membership,
  Write
} from '../group/machine.ts'
import { type Offsets, noOffsets } from '../group/offsets/offsets.ts'
import { readStored } from './stored.ts'

/** Members up to which a group is looked over after each change. */
const oftenUpTo = 100

/** A machine at work: what differs between protocols is inside. */
export class Members<State, Event, Fact extends { readonly kind: string }, Answer> {
  readonly #machine: Machine<State, Event, Fact, Answer, ControllerWorld> & Membership<State>
  readonly state: State
  /** Since what always holds was looked at. */
  #changes = 0

  constructor(
    machine: Machine<State, Event, Fact, Answer, ControllerWorld> & Membership<State>,
    state: State
  ) {
    this.#machine = machine
    this.state = state
  }

  /** What the event makes true, as it is to be stored, and what is to be done then. */
  decide(
    event: Event,
    world: ControllerWorld
  ): { writes: readonly Write[]; effects: readonly Effect<Answer>[] } {
    const { facts, effects } = this.#machine.decide(this.state, event, world)
    const writes: Write[] = []
    for (const fact of facts) for (const write of this.#machine.writes(fact)) writes.push(write)
    if (writes.length > 0) this.#lookOver()
    return { writes, effects }
  }

  /** Takes in what is stored. False: the part isn't this machine's. */
  load(part: number, value: Buffer): boolean {
    const known = this.#machine.parts.get(part)
    if (known === undefined) return false
    const stored = readStored(known.message, value)
    this.#machine.apply(this.state, known.fact(stored as never))
    return true
  }

  /** After each change; of a large group now and then, so that it stays a small part of the work. */
  #lookOver(): void {
    if (++this.#changes * oftenUpTo < this.#machine.size(this.state)) return
    this.#changes = 0
    this.#machine.invariants(this.state)
  }

  get empty(): boolean {
    return this.#machine.size(this.state) === 0
  }
  get stateName(): string {
    return this.#machine.stateName(this.state)
  }
  get protocolType(): string {
    return this.#machine.protocolType(this.state)
  }
  subscribesTo(topic: string): boolean {
    return this.#machine.subscribesTo(this.state, topic)
  }
  mayCommit(committer: Committer): number | CommitCheck {
    return this.#machine.mayCommit(this.state, committer)
  }
  mayFetch(memberId: string | null, epoch: number): number {
    return this.#machine.mayFetch(this.state, memberId, epoch)
  }
  mayDeleteOffsets(): number {
    return this.#machine.mayDeleteOffsets(this.state)
  }
  retainedFrom(topic: string, committedAtMs: number): number | null {
    return this.#machine.retainedFrom(this.state, topic, committedAtMs)
  }
}

export class ConsumerMembers extends Members<
  ConsumerGroup,
  ConsumerEvent,
  ConsumerFact,
  HeartbeatAnswer
> {
  readonly type = 'consumer'

  constructor() {
    super(consumerMachine, newConsumerGroup())
  }
}

/** Also of a group that has no members and only commits. */
export class ClassicMembers extends Members<
  ClassicGroup,
  ClassicEvent,
  ClassicFact,
  ClassicAnswer
> {
  readonly type = 'classic'

  constructor() {
    super(classicMachine, newClassicGroup())
  }
}

/** Its machine commits offsets too, where a rewind does: so it has the group's. */
export class ControllerMembers extends Members<
  ControllerGroup,
  ControllerEvent,
  ControllerFact,
  ControllerAnswer
> {
  readonly type = 'controller'

  constructor(offsets: Offsets = noOffsets()) {
    super(controllerMachine, newControllerGroup(offsets))
  }
}

export type AnyMembers = ConsumerMembers | ClassicMembers | ControllerMembers

/** Of the type that is stored of a group. */
export function newMembers(type: string): AnyMembers {
  if (type === 'consumer') return new ConsumerMembers()
  return type === 'controller' ? new ControllerMembers() : new ClassicMembers()
}

export interface Group {
  readonly id: string
  /** In the store. */
  readonly key: Buffer
  readonly offsets: Offsets
  members: AnyMembers
}

/** The group, if it is one of the classic protocol, with what takes its events. */
export function classicGroup(
  group: Group | undefined
): { readonly group: Group; readonly members: ClassicMembers } | undefined {
  const members = group?.members
  return group && members?.type === 'classic' ? { group, members } : undefined
}

export function newGroup(id: string, key: Buffer, members: AnyMembers): Group {
  const offsets = members.type === 'controller' ? members.state.offsets : noOffsets()
  return { id, key, offsets, members }
}
