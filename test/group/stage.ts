/** A group machine on a stage: topics and time under the test's hand, and a store that is replayed. */
import assert from 'node:assert/strict'
import { readStored, writeStored } from '../../src/broker/stored.ts'
import type {
  Decision,
  GroupConfig,
  Machine,
  Topic,
  Topics,
  World
} from '../../src/group/machine.ts'

export const config: GroupConfig = {
  sessionTimeoutMs: 45_000,
  heartbeatIntervalMs: 5_000,
  maxSize: 100,
  minSessionTimeoutMs: 6_000,
  maxSessionTimeoutMs: 1_800_000,
  initialRebalanceDelayMs: 0
}

/** Topics that a test creates, grows and deletes. */
export class StageTopics implements Topics {
  readonly #byName = new Map<string, Topic>()
  #created = 0

  create(name: string, partitionCount: number): Topic {
    const bytes = Buffer.alloc(16)
    bytes.writeUInt32BE(++this.#created)
    const id = bytes.toString('base64url')
    const topic = { name, id, partitionCount }
    this.#byName.set(name, topic)
    return topic
  }

  grow(name: string, more: number): void {
    const topic = this.#byName.get(name)
    if (topic) this.#byName.set(name, { ...topic, partitionCount: topic.partitionCount + more })
  }

  delete(name: string): void {
    this.#byName.delete(name)
  }

  named(name: string): Topic | undefined {
    return this.#byName.get(name)
  }

  withId(id: string): Topic | undefined {
    return [...this.#byName.values()].find(topic => topic.id === id)
  }

  names(): Iterable<string> {
    return this.#byName.keys()
  }
}

export class Stage<State, Event, Fact, Answer> {
  readonly topics = new StageTopics()
  readonly #machine: Machine<State, Event, Fact, Answer>
  readonly #blank: () => State
  readonly #plain: (state: State) => unknown
  readonly #stored = new Map<string, { readonly part: number; readonly value: Buffer }>()
  readonly #config: GroupConfig
  state: State
  nowMs = 1_000
  #ids = 0
  /** The earliest moment at which the machine wants to be told the time. */
  wakeMs = Infinity

  /** `plain`: what of a state is durable, as a value to compare. */
  constructor(
    machine: Machine<State, Event, Fact, Answer>,
    blank: () => State,
    plain: (state: State) => unknown,
    settings: Partial<GroupConfig> = {}
  ) {
    this.#machine = machine
    this.#blank = blank
    this.#plain = plain
    this.#config = { ...config, ...settings }
    this.state = blank()
  }

  /** One event; what was decided is stored, and what always holds is looked at. */
  tell(event: Event): Decision<Fact, Answer> {
    const decision = this.#machine.decide(this.state, event, this.#world())
    this.#machine.invariants(this.state)
    for (const fact of decision.facts) {
      for (const { part, name, message, value } of this.#machine.writes(fact)) {
        const key = `${part}:${name}`
        if (value === null) this.#stored.delete(key)
        else this.#stored.set(key, { part, value: writeStored(message, value) })
      }
    }
    for (const effect of decision.effects) {
      if (effect.kind === 'wake') this.wakeMs = Math.min(this.wakeMs, effect.atMs)
    }
    return decision
  }

  /** What is stored gives the state that is, in whatever order it is read. */
  assertReplays(): void {
    for (const entries of [[...this.#stored.values()], [...this.#stored.values()].reverse()]) {
      assert.deepEqual(this.#plain(this.#replayed(entries)), this.#plain(this.state))
    }
  }

  /** The process ended and started anew: only what is stored is left. */
  restart(): void {
    this.state = this.#replayed([...this.#stored.values()])
    this.wakeMs = Infinity
  }

  #replayed(entries: readonly { readonly part: number; readonly value: Buffer }[]): State {
    let state = this.#blank()
    for (const { part, value } of entries) {
      const known = this.#machine.parts.get(part)
      assert(known)
      state = this.#machine.apply(state, known.fact(readStored(known.message, value) as never))
    }
    return state
  }

  #world(): World {
    return {
      wallMs: 1_700_000_000_000 + this.nowMs,
      monotonicMs: this.nowMs,
      topics: this.topics,
      config: this.#config,
      newId: () => `id-${++this.#ids}`
    }
  }
}
