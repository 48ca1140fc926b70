/**
 * A controller's machine on a stage: members by short names, topics, logs, time and a store are all here, and what
 * happens is written down in lines that people can read. Transcripts and properties both play on it.
 */
import { PlayheadError } from '../../src/base/error.ts'
import { controllerMachine } from '../../src/group/controller/machine.ts'
import {
  type ControllerFact,
  type ControllerGroup,
  newControllerGroup
} from '../../src/group/controller/state.ts'
import type {
  ControllerAnswer,
  ControllerEvent,
  ControllerWorld,
  HeartbeatAnswer,
  RegisterAnswer,
  RewindAnswer
} from '../../src/group/controller/world.ts'
import type { GroupConfig, Topic } from '../../src/group/machine.ts'
import {
  applyOffset,
  commit,
  endTransaction,
  forget,
  type OffsetFact,
  offsetOf,
  offsetParts,
  offsetWrites
} from '../../src/group/offsets/offsets.ts'
import { codec } from '../../src/protocol/codec.ts'
import { encodeCommit } from '../../src/protocol/embedded/rewind-envelope.ts'
import { KafkaError, kafkaErrorName } from '../../src/protocol/errors.ts'
import { Reader } from '../../src/protocol/reader.ts'
import { Writer } from '../../src/protocol/writer.ts'

export const config: GroupConfig = {
  sessionTimeoutMs: 10_000,
  heartbeatIntervalMs: 3_000,
  maxSize: 100,
  minSessionTimeoutMs: 6_000,
  maxSessionTimeoutMs: 60_000,
  initialRebalanceDelayMs: 0
}

interface StagedTopic extends Topic {
  readonly partitionCount: number
  readonly logs: { start: number; end: number }[]
}

export interface Actor {
  readonly name: string
  memberId: string
  generation: number
  /** As it was answered: topic:partition to where it starts. */
  owned: Map<string, { offset: number; rewindId: number; since: number }>
}

export type Asked = 'register' | 'heartbeat' | 'rewind' | 'unregister'

interface Waiting {
  readonly who: string
  readonly what: Asked
  readonly kept: ReadonlySet<string>
  readonly atMs: number
}

/** What a registration says. */
export interface Saying {
  readonly topics?: readonly string[]
  readonly pattern?: string | null
  readonly instance?: string | null
  /** 'orders:0' …; null: stopped everything. */
  readonly kept?: readonly string[] | null
  readonly startFrom?: number
  readonly capacity?: number
  readonly generation?: number
  readonly memberId?: string
  readonly sessionTimeoutMs?: number
  readonly registerTimeoutMs?: number
}

export interface Target {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly until?: number
  readonly resume?: number
  readonly rewindId?: number
}

export class Stage {
  readonly lines: string[] = []
  readonly actors = new Map<string, Actor>()
  readonly topics = new Map<string, StagedTopic>()
  /** As the store has it: part, name → bytes. */
  readonly stored = new Map<string, { part: number; bytes: Buffer }>()
  readonly waiting = new Map<number, Waiting>()
  /** Every answer, for properties. */
  onAnswer: (ticket: number, waiting: Waiting, answer: ControllerAnswer) => void = () => {}
  now = 0
  group: ControllerGroup = newControllerGroup()
  #tickets = 0
  #ids = 0
  #alarm = Infinity

  get world(): ControllerWorld {
    const named = (name: string) => this.topics.get(name)
    return {
      wallMs: this.now,
      monotonicMs: this.now,
      config,
      newId: () => String(++this.#ids),
      topics: {
        named,
        withId: id => [...this.topics.values()].find(topic => topic.id === id),
        names: () => this.topics.keys()
      },
      log: (topic, partition) => {
        const log = named(topic)?.logs[partition]
        return log && { ...log, epochOf: () => 0 }
      }
    }
  }

  actor(name: string): Actor {
    let actor = this.actors.get(name)
    if (actor === undefined) {
      actor = { name, memberId: '', generation: -1, owned: new Map() }
      this.actors.set(name, actor)
    }
    return actor
  }

  topic(name: string, partitionCount: number, end = 100): void {
    const before = this.topics.get(name)
    const id = before?.id ?? Buffer.alloc(16, `${name}${++this.#ids}`).toString('base64url')
    const logs = Array.from({ length: partitionCount }, (_, index) => {
      return before?.logs[index] ?? { start: 0, end }
    })
    this.topics.set(name, { name, id, partitionCount, logs })
    this.#tell({ kind: 'topics' })
  }

  deleteTopic(name: string): void {
    this.topics.delete(name)
    this.#take(forget(this.group.offsets, ({ topic }) => topic === name))
    this.#tell({ kind: 'topics' })
  }

  register(name: string, saying: Saying = {}): number {
    const actor = this.actor(name)
    const kept = saying.kept === undefined || saying.kept === null ? null : saying.kept
    return this.#ask(name, 'register', new Set(kept ?? []), ticket => ({
      kind: 'register',
      ticket,
      client: { id: name, host: '/127.0.0.1' },
      request: {
        groupId: 'g',
        memberId: saying.memberId ?? actor.memberId,
        instanceId: saying.instance ?? null,
        clientHost: '',
        generationId: saying.generation ?? actor.generation,
        sessionTimeoutMs: saying.sessionTimeoutMs ?? -1,
        registerTimeoutMs: saying.registerTimeoutMs ?? 5_000,
        topics: saying.topics ?? [],
        topicPattern: saying.pattern ?? null,
        startFrom: saying.startFrom ?? 0,
        capacity: saying.capacity ?? 0,
        kept: kept === null ? null : this.#byTopicId(kept)
      }
    }))
  }

  heartbeat(name: string, maxWaitMs = 0, generation?: number): number {
    const { memberId, generation: own } = this.actor(name)
    const generationId = generation ?? own
    return this.#ask(name, 'heartbeat', new Set(), ticket => ({
      kind: 'heartbeat',
      ticket,
      request: { groupId: 'g', memberId, generationId, maxWaitMs }
    }))
  }

  rewind(by: string | null, targets: readonly Target[], timeoutMs = 5_000): number {
    const actor = by === null ? null : this.actor(by)
    const names = [...new Set(targets.map(({ topic }) => topic))]
    const offsets = names.map(topic => ({
      topic,
      partitions: targets
        .filter(target => target.topic === topic)
        .map(({ partition, offset, until = -1, resume = -1, rewindId = 0 }) => {
          return { partition, offset, until, resume, rewindId }
        })
    }))
    return this.#ask(by ?? 'tool', 'rewind', new Set(), ticket => ({
      kind: 'rewind',
      ticket,
      request: {
        groupId: 'g',
        memberId: actor?.memberId ?? null,
        generationId: actor?.generation ?? -1,
        timeoutMs,
        reason: '',
        offsets,
        by: ''
      },
      client: { id: 'tool', host: '/127.0.0.1' }
    }))
  }

  leave(name: string): number {
    const { memberId, generation } = this.actor(name)
    return this.#ask(name, 'unregister', new Set(), ticket => ({
      kind: 'unregister',
      ticket,
      request: { groupId: 'g', memberId, generationId: generation, reason: null }
    }))
  }

  /**
   * As OffsetCommit does, or TxnOffsetCommit in the transaction of `producer`. Returns the error code. `mark`: the rewind
   * that it is at, as our consumers say.
   */
  commit(
    name: string,
    { topic, partition, offset }: Omit<Target, 'until' | 'resume'>,
    { epoch, producer, mark }: { epoch?: number; producer?: number; mark?: string | undefined } = {}
  ): number {
    const { memberId, generation } = this.actor(name)
    const verdict = controllerMachine.mayCommit(this.group, {
      memberId,
      instanceId: null,
      epoch: epoch ?? generation,
      transactional: producer !== undefined,
      knowsEpochs: true
    })
    const { id: topicId, partitionCount = 0 } = this.topics.get(topic) ?? { id: '' }
    if (partition >= partitionCount) return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    const code = typeof verdict === 'number' ? verdict : verdict(topicId, partition)
    if (code !== KafkaError.NONE) return code
    const metadata = mark === undefined ? null : encodeCommit({ sequence: mark, from: null }, '')
    const one = { topic, topicId, partition, offset, leaderEpoch: 0, metadata }
    const producerId = producer === undefined ? undefined : BigInt(producer)
    const how = { nowMs: this.world.wallMs, producerId }
    this.#take(commit(this.group.offsets, [one], how).facts)
    if (producer === undefined && this.group.offsets.pending.size > 0)
      this.#tell({ kind: 'settled' })
    return code
  }

  /** The transaction that `producer` has open ends. */
  end(producer: number, committed: boolean): void {
    this.#take(endTransaction(this.group.offsets, BigInt(producer), committed))
    this.#tell({ kind: 'settled' })
  }

  committed(topic: string, partition: number): number {
    return offsetOf(this.group.offsets, topic, partition)?.offset ?? -1
  }

  /** The connection of everything that `name` waits on breaks. */
  disconnect(name: string): void {
    for (const [ticket, { who }] of this.waiting) {
      if (who !== name) continue
      this.waiting.delete(ticket)
      this.#tell({ kind: 'closed', ticket })
    }
  }

  /** The connection that a request came by is gone. */
  forget(ticket: number): void {
    if (this.waiting.delete(ticket)) this.#tell({ kind: 'closed', ticket })
  }

  /** Time passes, and with it deadlines. */
  advance(ms: number): void {
    const end = this.now + ms
    while (this.#alarm <= end) {
      this.now = Math.max(this.now, this.#alarm)
      this.#alarm = Infinity
      this.#tell({ kind: 'time' })
    }
    this.now = end
  }

  /** kill -9: what was stored is all there is. Whoever waited hears nothing. */
  restart(): void {
    this.waiting.clear()
    this.#alarm = Infinity
    this.group = this.loaded()
    this.#tell({ kind: 'loaded' })
  }

  /** What a controller knows that has just read the store. */
  loaded(): ControllerGroup {
    const group = newControllerGroup()
    const keys = [...this.stored.keys()].sort()
    for (const key of keys) {
      const { part, bytes } = this.stored.get(key) ?? { part: -1, bytes: Buffer.alloc(0) }
      const own = controllerMachine.parts.get(part)
      const known = own ?? offsetParts.get(part)
      if (known === undefined) throw new PlayheadError('CORRUPT_RECORDS', `part ${part}`)
      const value = codec(known.message, 0).read(new Reader(bytes)) as never
      if (own !== undefined) controllerMachine.apply(group, own.fact(value))
      else applyOffset(group.offsets, (offsetParts.get(part) ?? known).fact(value) as never)
    }
    return group
  }

  #ask(
    who: string,
    what: Asked,
    kept: ReadonlySet<string>,
    event: (ticket: number) => ControllerEvent
  ): number {
    const ticket = ++this.#tickets
    this.waiting.set(ticket, { who, what, kept, atMs: this.now })
    this.#tell(event(ticket))
    return ticket
  }

  #tell(event: ControllerEvent): void {
    const { facts, effects } = controllerMachine.decide(this.group, event, this.world)
    for (const fact of facts) this.#write(fact)
    controllerMachine.invariants(this.group)
    for (const effect of effects) {
      if (effect.kind === 'wake') this.#alarm = Math.min(this.#alarm, effect.atMs)
      else this.#answered(effect.ticket, effect.answer)
    }
  }

  #take(facts: readonly OffsetFact[]): void {
    for (const fact of facts) {
      applyOffset(this.group.offsets, fact)
      for (const write of offsetWrites(fact)) this.#store(write)
    }
  }

  #write(fact: ControllerFact): void {
    for (const write of controllerMachine.writes(fact)) this.#store(write)
  }

  #store({
    part,
    name,
    message,
    value
  }: ReturnType<typeof controllerMachine.writes>[number]): void {
    const key = `${String(part).padStart(3, '0')} ${name}`
    if (value === null) {
      this.stored.delete(key)
      return
    }
    const writer = new Writer()
    codec(message, 0).write(writer, value)
    this.stored.set(key, { part, bytes: writer.join() })
  }

  #answered(ticket: number, answer: ControllerAnswer): void {
    const waiting = this.waiting.get(ticket)
    if (waiting === undefined) return
    this.waiting.delete(ticket)
    const { who, what } = waiting
    if (what === 'register') this.#registered(who, waiting, answer as RegisterAnswer)
    else if (what === 'heartbeat') this.#beaten(who, answer as HeartbeatAnswer)
    else if (what === 'rewind') this.#rewound(who, answer as RewindAnswer)
    else {
      const code = kafkaErrorName(answer.errorCode)
      this.lines.push(`${who}: ${code === 'NONE' ? 'left' : code}`)
      if (code === 'NONE') this.#out(who)
    }
    this.onAnswer(ticket, waiting, answer)
  }

  #registered(who: string, { kept }: Waiting, answer: RegisterAnswer): void {
    const news = new Set((answer.rewinds ?? []).map(({ rewindId }) => rewindId))
    const actor = this.actor(who)
    const { errorCode, memberId = '', generationId = -1 } = answer
    if (errorCode !== KafkaError.NONE && errorCode !== KafkaError.OFFSET_OUT_OF_RANGE) {
      this.lines.push(`${who}: ${kafkaErrorName(errorCode)} (${answer.errorMessage ?? 'no more'})`)
      if (errorCode === KafkaError.UNKNOWN_MEMBER_ID) this.#out(who)
      return
    }
    actor.memberId = memberId
    actor.generation = generationId
    const owned: Actor['owned'] = new Map()
    const shown = answer.partitions.map(({ topic, partitions }) => {
      const list = partitions.map(({ partition, offset, rewindId, until, resume }) => {
        const key = `${topic}:${partition}`
        const before = kept.has(key) ? actor.owned.get(key) : undefined
        owned.set(key, before ?? { offset, rewindId, since: generationId })
        const window =
          until === undefined || until < 0 || resume === -1 ? '' : ` until ${until} then ${resume}`
        if (before !== undefined) return `${partition} goes on`
        return `${partition} from ${offset}${news.has(rewindId) ? ` by rewind ${rewindId}` : ''}${window}`
      })
      return `${topic} [${list.join(', ')}]`
    })
    const lost = [...kept].filter(key => !owned.has(key))
    actor.owned = owned
    const error = errorCode === KafkaError.NONE ? '' : ` ${kafkaErrorName(errorCode)}`
    const to = shown.length === 0 ? 'nothing' : shown.join(' ')
    const gives = lost.length === 0 ? '' : `; to give up: ${lost.join(', ')}`
    this.lines.push(`${who}: registered in generation ${generationId}:${error} ${to}${gives}`)
  }

  #beaten(who: string, { errorCode, rewound }: HeartbeatAnswer): void {
    const which = rewound.map(({ topic, partitions }) => `${topic} [${partitions.join(', ')}]`)
    const code =
      errorCode === KafkaError.NONE ? 'heartbeat answered, no news' : kafkaErrorName(errorCode)
    this.lines.push(`${who}: ${[code, ...which].join(' ')}`)
    if (errorCode === KafkaError.UNKNOWN_MEMBER_ID) this.#out(who)
  }

  #rewound(who: string, { errorCode, rewindId = 0, offsets }: RewindAnswer): void {
    const list = offsets.flatMap(({ topic, partitions }) =>
      partitions.map(({ partition, errorCode: code, previousOffset = -1, offset = -1 }) => {
        const error = code === KafkaError.NONE ? '' : ` ${kafkaErrorName(code)}`
        return `${topic}:${partition} ${previousOffset} -> ${offset}${error}`
      })
    )
    const done = rewindId === 0 ? 'taken back' : 'done'
    const verdict = errorCode === KafkaError.NONE ? done : kafkaErrorName(errorCode)
    this.lines.push(`${who}: rewind ${rewindId} ${verdict} ${list.join(', ')}`.trimEnd())
  }

  #out(who: string): void {
    Object.assign(this.actor(who), { memberId: '', generation: -1, owned: new Map() })
  }

  #byTopicId(kept: readonly string[]): { topicId: string; partitions: number[] }[] {
    const byTopic = new Map<string, number[]>()
    for (const key of kept) {
      const at = key.lastIndexOf(':')
      const topicId = this.topics.get(key.slice(0, at))?.id
      if (topicId === undefined) continue
      byTopic.set(topicId, [...(byTopic.get(topicId) ?? []), Number(key.slice(at + 1))])
    }
    return [...byTopic].map(([topicId, partitions]) => ({ topicId, partitions }))
  }
}
