/**
 * Where the groups live. The host gives events to a group's machine, stores what it decided, and only then lets the
 * answers go: requests, topics that come and go, and deadlines are all events. It knows nothing of what a group is.
 *
 * Starting is replaying: what is stored is applied, and each group is told that it was loaded.
 */
import type { ControllerWorld, LogView } from '../group/controller/world.ts'
import type { Env, Timer } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import { Changes, type Store } from '../base/store.ts'
import {
  type Effect,
  type GroupConfig,
  type GroupType,
  type Ticket,
  type Topics,
  type Write,
  write
} from '../group/machine.ts'
import {
  type OffsetFact,
  applyOffset,
  endTransaction,
  expire,
  forget,
  offsetParts,
  offsetWrites
} from '../group/offsets/offsets.ts'
import { type GroupSettings, defaultRetentionMs, groupConfig } from './group-configs.ts'
import {
  GroupKeys,
  StoredGroup,
  StoredGroupConfig,
  configPart,
  groupPart,
  storedGroups
} from './group-store.ts'
import { type AnyMembers, type Group, newGroup, newMembers } from './group.ts'
import { groupCount } from './limits.ts'
import { readStored } from './stored.ts'

/** Kafka's offsets.retention.check.interval.ms. */
const retentionCheckMs = 600_000

/** What of a group takes events: see `Members`. */
interface Decider<Event, Answer> {
  decide(
    event: Event,
    world: ControllerWorld
  ): { readonly writes: readonly Write[]; readonly effects: readonly Effect<Answer>[] }
}

/** Events that are no requests, which every machine takes. */
interface HostEvent {
  readonly kind: 'loaded' | 'topics' | 'time'
}

interface Waiting {
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
}

/** What a producer wants to commit in its transaction. */
export interface TransactionalCommit {
  readonly transactionalId: string
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly groupId: string
  /** Of TxnOffsetCommit: from 5 on the group joins the transaction by it (KIP-890). */
  readonly version: number
}

export interface GroupHostOptions {
  readonly env: Env
  readonly store: Store
  readonly topics: Topics
  readonly log: (topic: string, partition: number) => LogView | undefined
  readonly settings: GroupSettings
}

export class GroupHost {
  readonly #env: Env
  readonly #store: Store
  readonly #topics: Topics
  readonly #log: GroupHostOptions['log']
  readonly #settings: GroupSettings
  readonly #defaults: GroupConfig
  readonly #keys: GroupKeys
  readonly #groups = new Map<string, Group>()
  /** What was set for groups, by group. */
  readonly #configs = new Map<string, ReadonlyMap<string, string>>()
  readonly #waiting = new Map<Ticket, Waiting>()
  readonly #alarms = new Map<Group, { readonly atMs: number; readonly timer: Timer }>()
  /**
   * Asks the transaction's coordinator whether the producer may commit now, and makes the group part of the
   * transaction. Set by who coordinates transactions; resolves with an error code.
   */
  admit: (commit: TransactionalCommit) => number | Promise<number> = () => 0
  #tickets = 0
  /** What is true and not yet given to the store. */
  #changes = new Changes()
  #durable: Promise<void> = Promise.resolve()
  #sweeping: Timer | undefined
  #closed = false

  constructor({ env, store, topics, log, settings }: GroupHostOptions) {
    this.#env = env
    this.#store = store
    this.#topics = topics
    this.#log = log
    this.#settings = settings
    this.#defaults = groupConfig(settings, new Map())
    this.#keys = new GroupKeys(env.cpu)
  }

  get(groupId: string): Group | undefined {
    return this.#groups.get(groupId)
  }

  get all(): Iterable<Group> {
    return this.#groups.values()
  }

  /** Everything that was decided is as durable as the store promises: what is read may be told. */
  get settled(): Promise<void> {
    return this.#durable
  }

  /** The group, made with these members when it isn't there. Throws QUEUE_FULL when there are too many. */
  obtain(groupId: string, members: () => AnyMembers): Group {
    const there = this.#groups.get(groupId)
    if (there !== undefined) return there
    if (this.#groups.size >= groupCount) this.#makeRoom()
    const group = newGroup(groupId, this.#keys.of(groupId), members())
    this.#groups.set(groupId, group)
    this.#putGroup(group)
    return group
  }

  /** A group without members changes its protocol; its offsets stay. */
  replaceMembers(group: Group, members: AnyMembers): void {
    this.#keys.deleteMachine(group.key, this.#changes)
    group.members = members
    this.#putGroup(group)
  }

  /** Gives the event of a request to the group; resolves with the answer, when what it promises is stored. */
  ask<Event, Answer>(
    group: Group,
    decider: Decider<Event, Answer>,
    event: (ticket: Ticket) => Event
  ): Promise<Answer> {
    const ticket = ++this.#tickets
    return new Promise<Answer>((resolve, reject) => {
      this.#waiting.set(ticket, { resolve: answer => resolve(answer as Answer), reject })
      this.tell(group, decider, event(ticket))
    })
  }

  tell<Event, Answer>(group: Group, decider: Decider<Event, Answer>, event: Event): void {
    const effects = this.#decide(group, decider, event)
    this.#carryOut(group, effects, this.#flush())
  }

  /** Whoever waited for the answer is gone: the group is told, as it may take that for a sign. */
  abandon<Event>(
    group: Group,
    decider: Decider<Event | { kind: 'closed'; ticket: Ticket }, unknown>,
    ticket: Ticket
  ): void {
    if (this.#closed || !this.#waiting.delete(ticket)) return
    this.tell(group, decider, { kind: 'closed', ticket })
  }

  /** Takes in what the offsets of a group decided; resolves when it is stored. */
  take(group: Group, facts: readonly OffsetFact[]): Promise<void> {
    this.#apply(group, facts, this.#changes)
    const effects = this.#settle(group, facts, this.#changes)
    const stored = this.#flush()
    this.#carryOut(group, effects, stored)
    return stored
  }

  /**
   * A transaction ends: what it would commit counts, or is dropped, in every group. Goes into `changes`, which the
   * caller commits; then it calls `stored` with that, so that nobody is told before.
   */
  endTransaction(producerId: bigint, committed: boolean, changes: Changes): void {
    for (const group of this.#groups.values()) {
      const facts = endTransaction(group.offsets, producerId, committed)
      if (facts.length === 0) continue
      this.#apply(group, facts, changes)
      const effects = this.#settle(group, facts, changes)
      // After the caller has committed this, which it does in this turn.
      void Promise.resolve().then(() => this.#carryOut(group, effects, this.#durable))
    }
  }

  /** Where transactions decide where partitions start, the group is told that some don't any more. */
  #settle(
    { id, key, members, offsets }: Group,
    facts: readonly OffsetFact[],
    changes: Changes
  ): readonly Effect<unknown>[] {
    if (members.type !== 'controller') return []
    const open = offsets.pending.size > 0
    const settles = ({ kind }: OffsetFact) => kind === 'decided' || (open && kind === 'committed')
    if (!facts.some(settles)) return []
    const { writes, effects } = members.decide({ kind: 'settled' }, this.#world(id))
    for (const write of writes) this.#keys.put(key, write, changes)
    return effects
  }

  /** The last commit to the store that what is read here may come from. */
  stored(commit: Promise<void>): void {
    this.#durable = commit
    commit.catch(error => this.#env.log.error('offsets could not be stored', { error }))
  }

  /** The group is no more, with its offsets. */
  delete(group: Group): Promise<void> {
    this.#drop(group)
    return this.#flush()
  }

  /** A topic came, grew or went: groups that subscribe to it look again; what went takes its offsets along. */
  topicChanged(topic: { readonly name: string; readonly id: string }, gone: boolean): void {
    const told: (readonly [Group, readonly Effect<unknown>[]])[] = []
    for (const group of this.#groups.values()) {
      if (gone) {
        const facts = forget(group.offsets, commit => commit.topic === topic.name)
        this.#apply(group, facts, this.#changes)
      }
      const { members } = group
      if (!members.subscribesTo(topic.name)) continue
      told.push([group, this.#decide<HostEvent, unknown>(group, members, { kind: 'topics' })])
    }
    // After the commit of the change itself, which its author gives to the store in this turn.
    void Promise.resolve().then(() => {
      const stored = this.#flush()
      for (const [group, effects] of told) this.#carryOut(group, effects, stored)
    })
  }

  config(groupId: string): GroupConfig {
    const set = this.#configs.get(groupId)
    return set === undefined ? this.#defaults : groupConfig(this.#settings, set)
  }

  /** What was set for the group. */
  configs(groupId: string): ReadonlyMap<string, string> {
    return this.#configs.get(groupId) ?? new Map()
  }

  /** Sets all of it anew. */
  configure(groupId: string, configs: ReadonlyMap<string, string>): Promise<void> {
    this.#configs.set(groupId, configs)
    const list = [...configs].map(([name, value]) => ({ name, value }))
    const stored = write(configPart, '', StoredGroupConfig, { groupId, configs: list })
    this.#keys.put(this.#keys.of(groupId), stored, this.#changes)
    return this.#flush()
  }

  load(): void {
    let group: Group | undefined
    for (const { group: at, part, key, value } of storedGroups(this.#store)) {
      if (part === configPart) {
        const { groupId, configs } = readStored(StoredGroupConfig, value)
        this.#configs.set(groupId, new Map(configs.map(config => [config.name, config.value])))
        continue
      }
      if (part === groupPart) {
        const { groupId, type } = readStored(StoredGroup, value)
        const members = newMembers(type)
        group = newGroup(groupId, key.subarray(0, at.length), members)
        this.#groups.set(groupId, group)
      } else if (group?.key.toString('latin1') !== at || !this.#load(group, part, value)) {
        throw new PlayheadError('CORRUPT_RECORDS', `the store has part ${part} of an unknown group`)
      }
    }
    for (const loaded of this.#groups.values()) this.#loaded(loaded)
    this.#sweeping = this.#env.clock.after(retentionCheckMs, () => this.#sweep())
  }

  /** Whoever still waits is told that the broker closes; no timer is left. */
  close(): void {
    this.#closed = true
    this.#sweeping?.cancel()
    for (const { timer } of this.#alarms.values()) timer.cancel()
    this.#alarms.clear()
    const error = new PlayheadError('CLOSED', 'the broker is closed')
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }

  #decide<Event, Answer>(
    group: Group,
    decider: Decider<Event, Answer>,
    event: Event
  ): readonly Effect<Answer>[] {
    const { writes, effects } = decider.decide(event, this.#world(group.id))
    for (const write of writes) this.#keys.put(group.key, write, this.#changes)
    return effects
  }

  #carryOut(group: Group, effects: readonly Effect<unknown>[], stored: Promise<void>): void {
    for (const effect of effects) {
      if (effect.kind === 'wake') this.#wake(group, effect.atMs)
      else this.#answer(effect.ticket, effect.answer, stored)
    }
  }

  #load(group: Group, part: number, value: Buffer): boolean {
    const known = offsetParts.get(part)
    if (known === undefined) return group.members.load(part, value)
    const stored = readStored(known.message, value)
    applyOffset(group.offsets, known.fact(stored as never))
    return true
  }

  #loaded(group: Group): void {
    // A topic that was deleted, perhaps just before the process ended: its offsets go too.
    const gone = forget(group.offsets, ({ topicId }) => this.#topics.withId(topicId) === undefined)
    this.#apply(group, gone, this.#changes)
    this.tell<HostEvent, unknown>(group, group.members, { kind: 'loaded' })
  }

  #world(groupId: string): ControllerWorld {
    const { clock, cpu } = this.#env
    return {
      wallMs: clock.now(),
      monotonicMs: clock.monotonic(),
      topics: this.#topics,
      config: this.config(groupId),
      newId: () => cpu.randomBytes(16).toString('base64url'),
      log: this.#log
    }
  }

  #putGroup(group: Group): void {
    const type: GroupType = group.members.type
    const stored = write(groupPart, '', StoredGroup, { groupId: group.id, type })
    this.#keys.put(group.key, stored, this.#changes)
  }

  #apply(group: Group, facts: readonly OffsetFact[], changes: Changes): void {
    for (const fact of facts) {
      applyOffset(group.offsets, fact)
      for (const write of offsetWrites(fact)) this.#keys.put(group.key, write, changes)
    }
  }

  /** Groups of which nothing is left go before their time. */
  #makeRoom(): void {
    for (const group of this.#groups.values()) if (isNothing(group)) this.#drop(group)
    if (this.#groups.size < groupCount) return
    throw new PlayheadError('QUEUE_FULL', `there are ${groupCount} groups: delete some first`)
  }

  #drop(group: Group): void {
    this.#groups.delete(group.id)
    this.#alarms.get(group)?.timer.cancel()
    this.#alarms.delete(group)
    this.#keys.delete(group.key, this.#changes)
  }

  #flush(): Promise<void> {
    if (this.#changes.empty) return this.#durable
    const changes = this.#changes
    this.#changes = new Changes()
    this.stored(this.#store.commit(changes))
    return this.#durable
  }

  #answer(ticket: Ticket, answer: unknown, stored: Promise<void>): void {
    const waiting = this.#waiting.get(ticket)
    this.#waiting.delete(ticket)
    if (waiting !== undefined) stored.then(() => waiting.resolve(answer), waiting.reject)
  }

  #wake(group: Group, atMs: number): void {
    const armed = this.#alarms.get(group)
    if (this.#closed || (armed !== undefined && armed.atMs <= atMs)) return
    armed?.timer.cancel()
    const delayMs = Math.max(0, atMs - this.#env.clock.monotonic())
    const timer = this.#env.clock.after(delayMs, () => {
      this.#alarms.delete(group)
      this.tell<HostEvent, unknown>(group, group.members, { kind: 'time' })
    })
    this.#alarms.set(group, { atMs, timer })
  }

  /** Forgets offsets that nobody used for long, and groups of which nothing is left. */
  #sweep(): void {
    const retentionMs = this.#settings.offsetsRetentionMs ?? defaultRetentionMs
    const now = this.#env.clock.now()
    for (const group of this.#groups.values()) {
      const { members, offsets } = group
      const facts = expire(offsets, now, retentionMs, (topic, committedAtMs) =>
        members.retainedFrom(topic, committedAtMs)
      )
      this.#apply(group, facts, this.#changes)
      if (isNothing(group)) this.#drop(group)
    }
    void this.#flush()
    this.#sweeping = this.#env.clock.after(retentionCheckMs, () => this.#sweep())
  }
}

function isNothing({ members, offsets }: Group): boolean {
  return members.empty && offsets.committed.size === 0 && offsets.pending.size === 0
}
