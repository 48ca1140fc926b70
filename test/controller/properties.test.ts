/**
 * Thousands of random histories of a group: members come, go, fall silent, lose connections, keep some partitions and
 * stop others, commit what is theirs and what isn't; topics change, rewinds cross rounds, the controller restarts.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { unsettled } from '../../src/group/offsets/offsets.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import type { Rewind } from '../../src/group/controller/state.ts'
import type { RegisterAnswer, RewindAnswer } from '../../src/group/controller/world.ts'
import { type Saying, Stage, config } from './stage.ts'
import { type Step, names, step } from './steps.ts'

const registerTimeoutMs = 5_000
const heldMs = 3_000
const callMs = 4_000

/** Plays members on the stage, and looks at what they are told. */
class Play {
  readonly stage = new Stage()
  /** What each member is delivering: it stops what it doesn't keep when it registers. */
  readonly delivering = new Map<string, Set<string>>()
  /** Of each partition, the generation in which its last rewind that was answered took place. */
  readonly rewoundIn = new Map<string, number>()
  /** Every registration that was sent. */
  readonly said: { readonly who: string; readonly saying: Saying }[] = []
  lastRewindId = 0
  /**
   * Partitions, and the producer whose open transaction came from outside the group (as before KIP-447) when somebody had
   * the partition already: who is told of it only now had it first.
   */
  readonly outside = new Map<string, number>()
  /** Rewinds that were taken back, by topic id and partition. */
  readonly cancelled = new Map<string, number>()

  constructor() {
    this.stage.topic('t', 3)
    this.stage.onAnswer = (_, { who: name, what, kept }, answer) => {
      if (what === 'register') this.registered(name, kept, answer as RegisterAnswer)
      if (what === 'rewind') this.rewound(answer as RewindAnswer)
    }
  }

  of(name: string): Set<string> {
    let of = this.delivering.get(name)
    if (of === undefined) this.delivering.set(name, (of = new Set()))
    return of
  }

  registered(name: string, kept: ReadonlySet<string>, answer: RegisterAnswer): void {
    if (answer.errorCode === KafkaError.UNKNOWN_MEMBER_ID) this.of(name).clear()
    if (answer.errorCode !== KafkaError.NONE) return
    for (const { topic: of, partitions } of answer.partitions) {
      for (const { partition: index, offset } of partitions) {
        const key = `${of}:${index}`
        if (kept.has(key) && this.of(name).has(key)) continue
        this.of(name).add(key)
        const committed = this.stage.committed(of, index)
        if (committed >= 0) assert.equal(offset, committed, `${key} starts where it was left`)
        const open = unsettled(this.stage.group.offsets, of, index)
        const hadItFirst = this.outside.has(key)
        assert.ok(!open || hadItFirst, `${key} is given out, and a transaction may move it`)
      }
    }
  }

  rewound(answer: RewindAnswer): void {
    const { rewindId = 0, offsets } = answer
    if (rewindId === 0) return
    for (const { topic: of, partitions } of offsets) {
      for (const { partition: index, errorCode, offset = -1 } of partitions) {
        if (errorCode !== KafkaError.NONE) continue
        const key = `${of}:${index}`
        // The answer may come after a later rewind of the same partition.
        const newest = this.stage.group.offsets.committed.get(of)?.get(index)?.offset
        if (newest !== offset) continue
        this.rewoundIn.set(key, this.stage.group.head.generation)
      }
    }
    assert.ok(rewindId <= this.stage.group.head.lastRewindId)
  }

  take(step: Step): void {
    const { stage } = this
    switch (step.do) {
      case 'register': {
        const { memberId, generation } = stage.actor(step.who)
        if (step.stale) return this.again(step.who, step.keep)
        // Nobody is two members at once.
        if (memberId === '') stage.disconnect(step.who)
        const kept = [...this.of(step.who)].filter((_, index) => (step.keep >> index) & 1)
        this.delivering.set(step.who, new Set(kept))
        const saying = {
          memberId,
          topics: step.also ? ['t', 'u'] : ['t'],
          kept,
          instance: step.instance ? 'static' : null,
          generation,
          registerTimeoutMs
        }
        this.said.push({ who: step.who, saying })
        stage.register(step.who, saying)
        return
      }
      case 'heartbeat': {
        const { generation } = stage.actor(step.who)
        stage.heartbeat(step.who, step.held ? heldMs : 0, generation - (step.stale ? 1 : 0))
        return
      }
      case 'commit': {
        const { generation } = stage.actor(step.who)
        const epoch = generation - (step.stale ? 1 : 0)
        const key = `${step.topic}:${step.partition}`
        const code = stage.commit(step.who, step, { epoch })
        if (code !== KafkaError.NONE) return
        const since = this.rewoundIn.get(key) ?? -1
        const outside = stage.group.members.size === 0
        assert.ok(
          outside || epoch >= since,
          `a commit of ${epoch} lands after a rewind in ${since}`
        )
        return
      }
      case 'rewind':
        stage.rewind(
          step.who,
          step.partitions.map(index => ({
            topic: step.topic,
            partition: index,
            offset: step.offset,
            until: step.until
          })),
          callMs
        )
        assert.ok(stage.group.head.lastRewindId >= this.lastRewindId, 'rewind ids rise')
        this.lastRewindId = stage.group.head.lastRewindId
        return
      case 'transact': {
        const { who, topic, partition, offset, producer } = step
        const key = `${topic}:${partition}`
        const { group } = stage
        const isFirst = !unsettled(group.offsets, topic, partition)
        const isHad = group.owners.get(stage.topics.get(topic)?.id ?? '')?.has(partition) ?? false
        const isMember = group.members.has(stage.actor(who).memberId)
        if (isMember) this.outside.delete(key)
        else if (isFirst && isHad) this.outside.set(key, producer)
        stage.commit(who, { topic, partition, offset }, { producer })
        return
      }
      case 'end':
        stage.end(step.producer, step.committed)
        for (const [key, producer] of this.outside) {
          if (producer === step.producer) this.outside.delete(key)
        }
        return
      case 'cancel': {
        const rewindId = step.named ? Math.max(0, this.lastRewindId) : 0
        const before = this.waitingOf(step)
        const to = step.partitions.map(index => ({
          ...step,
          partition: index,
          offset: -3,
          rewindId
        }))
        stage.rewind(null, to)
        const after = this.waitingOf(step)
        if (before.length > 0 && rewindId === 0) this.knowCancelled(step, before)
        assert.ok(after.length <= before.length, 'nothing waits anew')
        return
      }
      case 'leave':
        this.of(step.who).clear()
        stage.leave(step.who)
        return
      case 'disconnect':
        stage.disconnect(step.who)
        return
      case 'topic':
        stage.topic(step.topic, Math.max(step.partitions, this.countOf(step.topic)))
        return
      case 'delete':
        stage.deleteTopic(step.topic)
        for (const key of this.rewoundIn.keys()) {
          if (key.startsWith(`${step.topic}:`)) this.rewoundIn.delete(key)
        }
        for (const of of this.delivering.values()) {
          for (const key of of) if (key.startsWith(`${step.topic}:`)) of.delete(key)
        }
        return
      case 'pass':
        stage.advance(step.ms)
        return
      case 'restart':
        stage.restart()
        return
    }
  }

  waitingOf({ topic: of, partitions }: { topic: string; partitions: readonly number[] }): Rewind[] {
    const rewinds = this.stage.group.rewinds.get(this.stage.topics.get(of)?.id ?? '')
    const all = partitions.map(index => rewinds?.get(index))
    return all.filter(rewind => rewind?.state === 'waiting') as Rewind[]
  }

  /** All or none: a partition that is unknown refuses the request. */
  knowCancelled(
    { topic: of, partitions }: { topic: string; partitions: readonly number[] },
    before: readonly Rewind[]
  ): void {
    if (partitions.some(index => index >= this.countOf(of))) return
    for (const { topicId, partition: index, id } of before) {
      this.cancelled.set(`${topicId}:${index}`, id)
    }
  }

  /** What was taken back never takes place. */
  staysCancelled(): void {
    for (const [key, id] of this.cancelled) {
      const [topicId = '', index = ''] = key.split(':')
      const rewind = this.stage.group.rewinds.get(topicId)?.get(Number(index))
      if (rewind?.id === id) assert.equal(rewind.state, 'cancelled', `rewind ${id} was taken back`)
    }
  }

  /** A registration arrives again, on a connection that was given up long ago: nobody reads the answer. */
  again(name: string, which: number): void {
    const of = this.said.filter(({ who, saying }) => who === name && saying.memberId !== '')
    const one = of[which % Math.max(1, of.length)]
    if (one === undefined) return
    const actor = this.stage.actor(name)
    const before = { ...actor }
    const { onAnswer } = this.stage
    this.stage.onAnswer = (ticket, waiting, answer) => {
      if (waiting.what !== 'register' || waiting.who !== name) onAnswer(ticket, waiting, answer)
    }
    const ticket = this.stage.register(name, one.saying)
    this.stage.onAnswer = onAnswer
    this.stage.forget(ticket)
    Object.assign(actor, before)
  }

  countOf(name: string): number {
    return this.stage.topics.get(name)?.partitionCount ?? 0
  }

  /** Nobody delivers what another does, as long as both are members. */
  oneOwner(): void {
    const { stage } = this
    const owners = new Map<string, string>()
    for (const name of names) {
      const { memberId } = stage.actor(name)
      if (!stage.group.members.has(memberId)) this.of(name).clear()
      for (const key of this.of(name)) {
        assert.ok(!owners.has(key), `${key} is delivered by ${owners.get(key)} and ${name}`)
        owners.set(key, name)
      }
    }
  }

  /** Whoever waits is answered in time. */
  nobodyForgotten(): void {
    const limits = {
      register: registerTimeoutMs,
      heartbeat: heldMs,
      rewind: callMs,
      unregister: 0
    }
    for (const { who: name, what, atMs } of this.stage.waiting.values()) {
      const waits = this.stage.now - atMs
      assert.ok(waits <= limits[what], `${name} waits ${waits} ms for its ${what}`)
    }
  }

  /** What was stored is what is true. */
  stored(): void {
    const { group } = this.stage
    const loaded = this.stage.loaded()
    const known = [...group.members.values()].filter(({ generation }) => generation >= 0)
    const durable = (of: typeof known) =>
      of
        .map(({ id, registration, generation, leases }) => ({
          id,
          registration,
          generation,
          leases
        }))
        .sort((one, other) => (one.id < other.id ? -1 : 1))
    assert.deepEqual(durable([...loaded.members.values()]), durable(known))
    assert.deepEqual(loaded.head, group.head)
    assert.deepEqual(loaded.known, group.known)
    assert.deepEqual(loaded.rewinds, group.rewinds)
    assert.deepEqual(loaded.offsets.committed, group.offsets.committed)
    assert.deepEqual(loaded.offsets.pending, group.offsets.pending)
    assert.equal(loaded.waiting, group.waiting)
  }

  /** Everybody behaves from now on: the group becomes stable, and has everything. */
  heal(): void {
    const { stage } = this
    for (const name of names) stage.disconnect(name)
    // Within its time-out each transaction ends.
    for (const producer of [1, 2]) stage.end(producer, producer === 1)
    for (let round = 0; round < 12; round++) {
      for (const name of names) this.behave(name, round === 0)
      this.oneOwner()
      stage.advance(1_000)
    }
    const { group } = stage
    assert.equal(group.round, null, 'the round has ended')
    assert.equal(group.waiting, 0, 'no rewind waits')
    for (const name of names) {
      const { memberId } = stage.actor(name)
      assert.ok(group.members.has(memberId), `${name} is a member`)
      const leases = group.members.get(memberId)?.leases ?? new Map()
      const held = [...leases.values()].flatMap(of => [...of.values()])
      assert.ok(!held.some(({ moved }) => moved), `${name} has nothing to give up`)
    }
    for (const { id, name, partitionCount } of stage.topics.values()) {
      for (let index = 0; index < partitionCount; index++) {
        assert.ok(group.owners.get(id)?.has(index), `somebody has ${name}:${index}`)
      }
    }
    const loads = names.map(name => this.of(name).size)
    assert.ok(Math.max(...loads) - Math.min(...loads) <= 1, `loads are even: ${loads.join(', ')}`)
  }

  /** What a member does: register where it is new, heartbeat, do as it is told. */
  behave(name: string, first: boolean): void {
    const { stage } = this
    const actor = stage.actor(name)
    const registers = () => {
      const rewound = stage.lines.findLast(line => line.startsWith(`${name}: `)) ?? ''
      // It gives up what it was told to, and what it was not answered with.
      const stop = (key: string) =>
        !actor.owned.has(key) || (rewound.includes('PARTITIONS_REWOUND') && named(rewound, key))
      const kept = [...this.of(name)].filter(key => !stop(key))
      this.delivering.set(name, new Set(kept))
      stage.register(name, { topics: ['t', 'u'], kept, registerTimeoutMs })
    }
    if ([...stage.waiting.values()].some(({ who: w, what }) => w === name && what === 'register')) {
      return
    }
    if (first || actor.memberId === '' || [...this.of(name)].some(key => !actor.owned.has(key))) {
      return registers()
    }
    stage.heartbeat(name)
    const said = stage.lines.at(-1) ?? ''
    if (/GROUP_CHANGED|TOPICS_CHANGED|REWOUND|ILLEGAL|UNKNOWN/.test(said)) registers()
  }
}

function named(said: string, key: string): boolean {
  const [of = '', index = ''] = key.split(':')
  const list = new RegExp(`${of} \\[([^\\]]*)\\]`).exec(said)?.[1] ?? ''
  return list.split(', ').includes(index)
}

describe('a controller, whatever happens', () => {
  it('no partition has two owners, nobody waits too long, and what is stored is what is true', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: 'max' }), steps => {
        const play = new Play()
        for (const one of steps) {
          play.take(one)
          play.oneOwner()
          play.nobodyForgotten()
          play.staysCancelled()
          play.stored()
        }
      }),
      { numRuns: runs(1_000) }
    )
  })

  it('once everybody behaves, the group becomes stable, even and complete', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40, size: 'max' }), steps => {
        const play = new Play()
        for (const one of steps) play.take(one)
        play.heal()
      }),
      { numRuns: runs(1_000) }
    )
  })

  it('the limits of the stage are those that the properties name', () => {
    assert.ok(heldMs <= config.sessionTimeoutMs)
  })
})

/** RUNS=100000 for a long search. */
function runs(usual: number): number {
  return Number(process.env['RUNS'] ?? usual)
}
