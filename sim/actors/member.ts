/** A member of a group: reads in one of the consumer's ways, handles what it gets, and takes down what it sees. */
import { PlayheadError } from '../../src/base/error.ts'
import { Consumer } from '../../src/client/consumer/consumer.ts'
import type { TopicPartition } from '../../src/client/partition.ts'
import type { ConsumerRecord } from '../../src/client/consumer/record.ts'
import type { Rewound } from '../../src/client/consumer/rewound.ts'
import { Cluster } from '../../src/rpc/cluster.ts'
import type { RewindId, Tp } from '../history/events.ts'
import { nameOfValue } from '../history/values.ts'
import type { MemberPlan } from '../plan/plan.ts'
import type { Process } from '../world/process.ts'
import { type Program, sleep } from '../world/world.ts'
import { mustSettle, rest, type Stage } from './stage.ts'
import { Transactor } from './transactor.ts'

/** What members of a world speak. */
const protocols = {
  log: 'consumer',
  groups: 'consumer',
  classic: 'classic',
  controller: 'controller'
} as const

/** How long closing may take at most. */
const closeMs = 20_000

export function memberProgram(stage: () => Stage, plan: MemberPlan): Program {
  return process => play(stage(), plan, process)
}

async function play(stage: Stage, plan: MemberPlan, process: Process): Promise<void> {
  if (process.incarnation === 1) await rest(stage, process, plan.joinAtMs)
  let leavesAt = process.incarnation === 1 ? plan.leaveAtMs : Infinity
  for (let count = 1; !stage.stopping; count++) {
    const name = `${process.node}.${process.incarnation}.${count}`
    await new Membership(stage, plan, process, name).play(leavesAt)
    leavesAt = Infinity
    await rest(stage, process, stage.healed ? 100 : plan.awayMs)
  }
}

/** Members that can call `rewind`, by the node they run on. */
export const openConsumers = new WeakMap<Process, Consumer>()

class Membership {
  readonly #stage: Stage
  readonly #plan: MemberPlan
  readonly #process: Process
  readonly #name: string
  readonly #cluster: Cluster
  readonly #consumer: Consumer
  readonly #owned = new Set<Tp>()
  /** Where it said that it stands. */
  readonly #said = new Map<Tp, number>()
  #closing: Promise<void> | undefined
  /** Where it sought, until something came from there. */
  readonly #sought = new Map<Tp, number>()
  /** Something went wrong, and it said so. */
  #troubled = false

  constructor(stage: Stage, plan: MemberPlan, process: Process, name: string) {
    this.#stage = stage
    this.#plan = plan
    this.#process = process
    this.#name = name
    this.#cluster = new Cluster(process.env, {
      bootstrap: stage.bootstrap,
      clientId: name,
      requestTimeoutMs: 5_000,
      // New topics and partitions are found within that time.
      metadataMaxAgeMs: 5_000
    })
    this.#consumer = new Consumer(this.#cluster, {
      group: plan.group,
      topics: plan.topics,
      protocol: protocols[stage.plan.world],
      commit: plan.mode === 'transact' ? 'manual' : plan.commit,
      commitIntervalMs: plan.commitIntervalMs,
      sessionTimeoutMs: stage.plan.sessionTimeoutMs,
      rewindCheckMs: plan.rewindCheckMs,
      fetchMaxBytes: plan.fetchMaxBytes,
      partitionMaxBytes: plan.partitionMaxBytes,
      fetchMaxWaitMs: plan.fetchMaxWaitMs,
      bufferMaxBytes: plan.bufferMaxBytes,
      ...(plan.isStatic && { instanceId: process.node }),
      ...(plan.startFrom && { startFrom: plan.startFrom }),
      ...(plan.maxProcessingMs && { maxProcessingMs: plan.maxProcessingMs }),
      ...(plan.rewindHandlerWaitMs && { rewindHandlerWaitMs: plan.rewindHandlerWaitMs }),
      ...(plan.onRewind && { onRewind: told => this.#onRewind(told), onRewindTimeoutMs: 2_000 })
    })
    openConsumers.set(process, this.#consumer)
    this.#listen()
  }

  async play(leavesAtMs: number): Promise<void> {
    const { world } = this.#stage
    const { group } = this.#plan
    const sessionMs = this.#stage.plan.sessionTimeoutMs
    world.saw(this.#process, {
      k: 'join',
      member: this.#name,
      group,
      committedOnly: true,
      sessionMs,
      startFrom: this.#plan.startFrom,
      topics: this.#plan.topics,
      ...(this.#plan.maxProcessingMs && { rebalanceMs: this.#plan.maxProcessingMs })
    })
    void this.#watch(leavesAtMs)
    try {
      await this.#read()
    } catch (error) {
      if (!(error instanceof PlayheadError) && !(error instanceof HandlerError)) throw error
      this.#troubled = true
      const why = error instanceof PlayheadError ? error.code : 'handler'
      world.mark(`reading ends: ${why}`)
      // A transaction that fails ends it, too.
      if (this.#plan.mode !== 'transact' && this.#closing === undefined) {
        world.saw(this.#process, { k: 'ended', member: this.#name, why })
      }
    }
    await this.#close()
    const drained = this.#drains ? { drained: true } : {}
    world.saw(this.#process, { k: 'left', member: this.#name, ...drained })
    await mustSettle(this.#stage, this.#process, 'cluster.close', closeMs, () =>
      this.#cluster.close()
    )
    world.saw(this.#process, { k: 'closed', leftovers: this.#process.leftovers })
  }

  async #watch(leavesAtMs: number): Promise<void> {
    while (this.#closing === undefined) {
      const late = this.#process.env.clock.monotonic() > leavesAtMs && !this.#stage.healed
      if (late || this.#stage.stopping) return this.#close()
      if (this.#now(this.#plan.seeks)) this.#seek()
      if (this.#stage.quiet && this.#plan.mode === 'transact') this.#sayWhere()
      await sleep(this.#stage.world, this.#process, 250)
    }
  }

  #close(): Promise<void> {
    if (this.#closing !== undefined) return this.#closing
    // From here on nothing new may be delivered.
    this.#given([...this.#owned], 'revoked')
    this.#closing = mustSettle(this.#stage, this.#process, 'consumer.close', closeMs, () =>
      this.#consumer.close({ timeoutMs: closeMs })
    )
    return this.#closing
  }

  #listen(): void {
    const { world } = this.#stage
    const member = this.#name
    this.#consumer.on('assigned', ({ partitions }) => {
      const tps = partitions.map(nameOf)
      for (const tp of tps) this.#owned.add(tp)
      if (tps.length > 0) world.saw(this.#process, { k: 'assigned', member, tps })
    })
    this.#consumer.on('revoked', ({ partitions }) => {
      this.#given(partitions.map(nameOf), 'revoked', this.#drains)
    })
    this.#consumer.on('lost', ({ partitions }) => this.#given(partitions.map(nameOf), 'lost'))
    this.#consumer.on('moved', ({ topic, partition, from, to }) => {
      world.saw(this.#process, { k: 'moved', member, tp: `${topic}:${partition}`, from, to })
    })
    this.#consumer.on('rewound', ({ id, partitions }) => {
      for (const { topic, partition, from, to } of partitions) {
        const tp = `${topic}:${partition}`
        world.saw(this.#process, { k: 'applied', member, tp, id, from: from ?? 0, to })
        // Whoever seeks while a rewind is under way gets where he sought once it is over. Whoever did not, does not.
        const at = this.#consumer.position({ topic, partition }) ?? to
        if (at !== to && at === this.#sought.get(tp))
          world.saw(this.#process, { k: 'seek', member, tp, from: to, to: at })
      }
    })
    this.#consumer.on('error', ({ error }) => {
      this.#troubled = true
      world.mark(`consumer error: ${error.code}`)
    })
    this.#consumer.on('stalled', ({ reason }) => world.mark(`stalled: ${reason}`))
  }

  #given(all: readonly Tp[], k: 'revoked' | 'lost', drained = false): void {
    const tps = all.filter(tp => this.#owned.delete(tp))
    if (tps.length === 0) return
    for (const tp of tps) this.#said.delete(tp)
    const more = drained ? { drained } : {}
    this.#stage.world.saw(this.#process, { k, member: this.#name, tps, ...more })
  }

  /** What it gives up in order is committed: else an error would have said so. */
  get #drains(): boolean {
    const { commit, mode } = this.#plan
    return commit === 'auto' && mode !== 'transact' && !this.#troubled
  }

  async #read(): Promise<void> {
    switch (this.#plan.mode) {
      case 'iterate':
        for await (const record of this.#consumer) {
          this.#deliver(record)
          await this.#work()
          this.#handled(record)
          await this.#commitAtTimes()
        }
        return
      case 'batches':
        for await (const batch of this.#consumer.batches()) {
          const records = [...batch]
          for (const record of records) this.#deliver(record)
          await this.#work()
          for (const record of records) this.#handled(record)
          await this.#commitAtTimes()
        }
        return
      case 'run':
        return this.#consumer.run(
          async (record, { signal }) => {
            this.#deliver(record)
            await this.#work()
            if (!this.#stage.healed && this.#process.random.chance(this.#plan.handlerThrows)) {
              this.#troubled = true
              throw new HandlerError('a handler throws')
            }
            this.#handled(record, { signalled: signal.aborted })
          },
          { concurrency: this.#plan.concurrency }
        )
      case 'poll':
        return this.#poll(records => this.#take(records))
      case 'transact':
        return this.#transact()
      default:
        return this.#plan.mode satisfies never
    }
  }

  async #take(records: readonly ConsumerRecord[]): Promise<void> {
    for (const record of records) this.#deliver(record)
    if (records.length > 0) await this.#work()
    for (const record of records) this.#handled(record)
    await this.#commitAtTimes()
  }

  /** A transaction that fails ends the membership: the next begins with what the group has. */
  async #transact(): Promise<void> {
    const transactor = new Transactor({
      stage: this.#stage,
      process: this.#process,
      cluster: this.#cluster,
      consumer: this.#consumer,
      name: this.#name,
      group: this.#plan.group,
      rewindOf: sequenceOf,
      delivered: record => this.#deliver(record),
      handled: record => this.#handled(record),
      work: () => this.#work()
    })
    try {
      await this.#poll(async records => {
        if (records.length > 0) await transactor.take(records)
      })
    } finally {
      await transactor.close()
    }
  }

  async #poll(take: (records: readonly ConsumerRecord[]) => Promise<void>): Promise<void> {
    while (this.#closing === undefined) {
      const maxRecords = this.#process.random.pick([1, 10, 500])
      let records: readonly ConsumerRecord[]
      try {
        records = await this.#consumer.poll({ timeoutMs: 500, maxRecords })
      } catch (error) {
        if (error instanceof PlayheadError && error.code === 'CLOSED') return
        throw error
      }
      await take(records)
    }
  }

  /** Where it stands: what is committed in a transaction is not seen otherwise. */
  #sayWhere(): void {
    for (const tp of this.#consumer.assignment) {
      const to = this.#consumer.position(tp)
      const name = nameOf(tp)
      if (to === undefined || this.#said.get(name) === to) continue
      this.#said.set(name, to)
      this.#stage.world.saw(this.#process, { k: 'stands', member: this.#name, tp: name, to })
    }
  }

  /** By chance, while things go wrong. Draws nothing where it never can be. */
  #now(probability = 0): boolean {
    return probability > 0 && !this.#stage.healed && this.#process.random.chance(probability)
  }

  /** Somewhere in what is known of the log, on one of its partitions. */
  #seek(): void {
    const { world, liveness } = this.#stage
    const { random } = this.#process
    const { assignment } = this.#consumer
    if (assignment.length === 0 || this.#closing !== undefined) return
    const at = random.pick(assignment)
    const tp = nameOf(at)
    if (!this.#owned.has(tp)) return
    const from = this.#consumer.position(at)
    const to = Math.floor(liveness.endOf(tp) * random.pick([0, random.next(), 1]))
    try {
      this.#consumer.seek({ ...at, offset: to })
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
      return world.mark(`a seek fails: ${error.code}`)
    }
    world.mark('a seek')
    this.#sought.set(tp, to)
    const { node } = this.#process
    world.saw(this.#process, {
      k: 'seek',
      member: this.#name,
      tp,
      ...(from !== undefined && { from }),
      to
    })
    world.tell(() => `${node} seeks ${tp} from ${from} to ${to}`)
  }

  async #onRewind({ id, partitions }: Rewound): Promise<void> {
    const { world, healed } = this.#stage
    world.saw(this.#process, {
      k: 'announced',
      member: this.#name,
      id,
      tps: partitions.map(nameOf)
    })
    if (healed) return
    world.mark(`onRewind: ${this.#plan.onRewind}`)
    switch (this.#plan.onRewind) {
      case 'slow':
        return sleep(world, this.#process, 1_000 * this.#process.random.next())
      case 'throws':
        throw new HandlerError('onRewind throws')
      case 'hangs':
        return this.#hang()
      default:
    }
  }

  /** Ends when all is well again, whatever signal fires. */
  async #hang(): Promise<void> {
    while (!this.#stage.healed) await sleep(this.#stage.world, this.#process, 500)
  }

  async #work(): Promise<void> {
    const { handlerMs, handlerHangs = 0 } = this.#plan
    if (this.#now(handlerHangs)) {
      this.#stage.world.mark('a handler hangs')
      return this.#hang()
    }
    if (handlerMs > 0 && !this.#stage.healed) {
      await sleep(this.#stage.world, this.#process, handlerMs * this.#process.random.next())
    }
  }

  async #commitAtTimes(): Promise<void> {
    if (this.#plan.commit !== 'manual' || this.#closing !== undefined) return
    if (!this.#process.random.chance(0.2)) return
    try {
      await mustSettle(this.#stage, this.#process, 'commit', 60_000, () => this.#consumer.commit())
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
      this.#stage.world.mark(`a commit fails: ${error.code}`)
    }
  }

  #deliver(record: ConsumerRecord): void {
    const { topic, partition, offset } = record
    const v = nameOfValue(record.value)
    const tp = `${topic}:${partition}`
    this.#sought.delete(tp)
    this.#stage.world.saw(this.#process, {
      k: 'deliver',
      member: this.#name,
      tp,
      offset,
      v,
      rewindId: sequenceOf(record)
    })
  }

  #handled(
    { topic, partition, offset }: ConsumerRecord,
    more: { readonly signalled?: boolean } = {}
  ): void {
    const tp = `${topic}:${partition}`
    const member = this.#name
    this.#stage.world.saw(this.#process, { k: 'handled', member, tp, offset, ...more })
  }
}

class HandlerError extends Error {}

function nameOf({ topic, partition }: TopicPartition): Tp {
  return `${topic}:${partition}`
}

/** The probe inside the owner: which rewind the record's partition is at. */
function sequenceOf(record: ConsumerRecord): RewindId {
  const { source } = record as unknown as {
    source: { playhead: { mark: { sequence: RewindId } } }
  }
  return source.playhead.mark.sequence
}
