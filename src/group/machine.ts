/**
 * What the group machines of the broker have in common: classic, consumer (KIP-848), controller.
 *
 * A machine decides and applies. `decide` looks at one event and gives facts, what became true, and effects, what is
 * to be done about it. `apply` takes in one fact and is the only code that changes a state. A decision has several
 * steps, each standing on the ones before it (a member joined, so the group has a new epoch, so there is a new target):
 * so `decide` applies each fact as it finds it, in a `Turn`, and what it returns is already in the state.
 *
 * Durable facts say what one thing of the group is now, whole; so they are stored under the thing's own key, one
 * replaces another, and applying what is stored, in any order, gives the state: starting is replaying. The host
 * stores the facts of a turn in one transaction, before any of its answers leave.
 *
 * Deadlines are volatile: who starts anew gives every member its whole time again, as Kafka does.
 */
import type { Fields, Message, Read, Written } from '../protocol/schema.ts'

/** A request that waits for its answer. */
export type Ticket = number

/** Who asks, as groups are described with it. */
export interface Client {
  readonly id: string
  /** '/127.0.0.1' */
  readonly host: string
}

/** The world as a decision may see it. */
export interface World {
  /** ms since 1970: for what is stored. */
  readonly wallMs: number
  /** For deadlines. */
  readonly monotonicMs: number
  readonly topics: Topics
  readonly config: GroupConfig
  /** A new id that nobody had before: 22 characters. */
  newId(): string
}

export interface Topic {
  readonly name: string
  readonly id: string
  readonly partitionCount: number
}

/** The topics that there are. */
export interface Topics {
  named(name: string): Topic | undefined
  withId(id: string): Topic | undefined
  names(): Iterable<string>
}

/** What may be set for one group; Kafka's names and defaults. Times in ms. */
export interface GroupConfig {
  /** consumer.session.timeout.ms */
  readonly sessionTimeoutMs: number
  /** consumer.heartbeat.interval.ms */
  readonly heartbeatIntervalMs: number
  /** The most members of one group. */
  readonly maxSize: number
  /** group.min.session.timeout.ms and group.max.session.timeout.ms: what a classic member may ask for. */
  readonly minSessionTimeoutMs: number
  readonly maxSessionTimeoutMs: number
  /** group.initial.rebalance.delay.ms: how long an empty classic group waits for more to join. */
  readonly initialRebalanceDelayMs: number
}

export type Effect<Answer> =
  | { readonly kind: 'answer'; readonly ticket: Ticket; readonly answer: Answer }
  /** The machine wants the event `time` at this moment (monotonic); being late or early does no harm. */
  | { readonly kind: 'wake'; readonly atMs: number }

export interface Decision<Fact, Answer> {
  readonly facts: readonly Fact[]
  readonly effects: readonly Effect<Answer>[]
}

/** Collects what one event brings about. */
export class Turn<State, Fact, Answer, W extends World = World> implements Decision<Fact, Answer> {
  readonly facts: Fact[] = []
  readonly effects: Effect<Answer>[] = []
  readonly state: State
  readonly world: W
  readonly #apply: (state: State, fact: Fact) => State

  constructor(state: State, world: W, apply: (state: State, fact: Fact) => State) {
    this.state = state
    this.world = world
    this.#apply = apply
  }

  become(fact: Fact): void {
    this.#apply(this.state, fact)
    this.facts.push(fact)
  }

  answer(ticket: Ticket, answer: Answer): void {
    this.effects.push({ kind: 'answer', ticket, answer })
  }

  wake(atMs: number): void {
    this.effects.push({ kind: 'wake', atMs })
  }
}

/** What a durable fact writes: a thing of the group, or (`value` null) that it is no more. */
export interface Write<F extends Fields = Fields> {
  /** Which kind of thing; unique over all machines. */
  readonly part: number
  /** Which of them; '' where there is one. */
  readonly name: string
  readonly message: Message<F>
  readonly value: Written<F> | null
}

/** For the compiler: the value fits the message. */
export function write<F extends Fields>(
  part: number,
  name: string,
  message: Message<F>,
  value: Written<F> | null
): Write {
  return { part, name, message, value }
}

/** How a stored thing becomes a fact again. */
export interface Part<Fact> {
  readonly message: Message
  fact(value: never): Fact
}

export function part<F extends Fields, Fact>(
  message: Message<F>,
  fact: (value: Read<F>) => Fact
): Part<Fact> {
  return { message, fact }
}

export interface Machine<State, Event, Fact, Answer, W extends World = World> {
  decide(state: State, event: Event, world: W): Decision<Fact, Answer>
  apply(state: State, fact: Fact): State
  /** Asserts what always holds. */
  invariants(state: State): void
  /** What a fact writes; nothing: it is volatile. */
  writes(fact: Fact): readonly Write[]
  /** What is stored, by its part. */
  readonly parts: ReadonlyMap<number, Part<Fact>>
}

/** Every group protocol: Kafka's names for it, and ours. */
export type GroupType = 'classic' | 'consumer' | 'controller'

/** Who commits: -1, '' and null when it isn't a member. */
export interface Committer {
  readonly memberId: string
  readonly instanceId: string | null
  readonly epoch: number
  readonly transactional: boolean
  /** Whether the request is an OffsetCommit of version 9 or later, which can carry a member epoch. */
  readonly knowsEpochs: boolean
}

/** Whether a commit is taken, by partition: an error of any partition refuses all of it. */
export type CommitCheck = (topicId: string, partition: number) => number

/** What every kind of group answers, whatever its members speak. */
export interface Membership<State> {
  /** How many members it has. */
  size(state: State): number
  /** 'Empty', 'Stable', …: as ListGroups shows it. */
  stateName(state: State): string
  /** 'consumer', or what classic members said, or ''. */
  protocolType(state: State): string
  subscribesTo(state: State, topic: string): boolean
  /** An error code, or how to check each partition. */
  mayCommit(state: State, committer: Committer): number | CommitCheck
  mayFetch(state: State, memberId: string | null, epoch: number): number
  /** Whether OffsetDelete is possible at all. */
  mayDeleteOffsets(state: State): number
  /**
   * From when on an offset's retention counts: the time of the commit, or of the moment when the group became empty;
   * null: nothing of this group expires now.
   */
  retainedFrom(state: State, topic: string, committedAtMs: number): number | null
}
