/**
 * Rewinds of groups that a controller leads: one request, which the controller answers when every owner has taken it
 * up. The same plans, options, results and errors as on stock Kafka (rewind.ts), where the ledger does it.
 *
 * A connection that breaks while the answer is awaited leaves open whether the rewind was written. The controller's
 * own list tells: one that is newer than all before, with these targets, is this one.
 */
import { PlayheadError } from '../../base/error.ts'
import { few } from '../../base/printable.ts'
import { type PlannedPartition, type RewindPlan, refusals } from '../../group/ledger/plan.ts'
import { RewindConsumer } from '../../protocol/api/rewind-consumer.ts'
import { noSequence, sequenceOf } from '../../protocol/embedded/rewind-envelope.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { ResponseOf } from '../../protocol/schema.ts'
import { answerError } from '../../rpc/answer-errors.ts'
import type { LaneName } from '../../rpc/call.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import { backoffMs, isPassing, sleep } from '../../rpc/retry.ts'
import { cancelledState, type LedGroup, type LedRewind, ledGroup, newestId } from '../led.ts'
import { keyOf } from '../ledger.ts'
import type { KnownRewind } from './rewind-status.ts'
import {
  RewindError,
  type RewindResult,
  type RewoundPartition,
  rewindError
} from './rewind-result.ts'
import type { RewindOptions } from './rewind.ts'

const backoff = { firstMs: 20, mostMs: 500 }
/** For the answer to come, when the controller's own deadline has passed. */
const graceMs = 2_000
let lanes = 0

/** RewindConsumer waits at the broker, so nothing else may stand behind it. */
export function rewindLane(): LaneName {
  return `wait:rewind-${++lanes}`
}

/** What was found out about a partition. */
type Found = Pick<RewoundPartition, 'state' | 'from' | 'to' | 'by'>

export async function rewindLed(
  cluster: Cluster,
  plan: RewindPlan,
  group: LedGroup,
  options: RewindOptions
): Promise<RewindResult> {
  const call = new LedRewindCall(cluster, plan, options)
  return await call.run(group)
}

class LedRewindCall {
  readonly #cluster: Cluster
  readonly #plan: RewindPlan
  readonly #options: RewindOptions
  readonly #startedAt: number
  readonly #deadline: number
  readonly #found = new Map<string, Found>()
  #refused: ReadonlySet<string> = new Set()
  #id = 0

  constructor(cluster: Cluster, plan: RewindPlan, options: RewindOptions) {
    this.#cluster = cluster
    this.#plan = plan
    this.#options = options
    this.#startedAt = cluster.env.clock.monotonic()
    this.#deadline = this.#startedAt + (options.timeoutMs ?? 30_000)
  }

  async run(group: LedGroup): Promise<RewindResult> {
    this.#admit()
    const before = newestId(group.rewinds)
    const trouble = await this.#untilAnswered(group.controller.nodeId, before)
    this.#options.onProgress?.(this.#result())
    const error = rewindError(this.#result(), null, trouble)
    if (error) throw error
    return this.#result()
  }

  /** Every owner takes part: only what would skip records is refused. */
  #admit(): void {
    const { allowSkip = false, partial = false } = this.#options
    const { group, partitions } = this.#plan
    const found = refusals(this.#plan, allowSkip)
    this.#refused = new Set(found.map(keyOf))
    if (found.length === 0 || (partial && found.length < partitions.length)) return
    const why = few(
      found.map(refusal => refusal.why),
      5,
      '; '
    )
    const message = `rewind of group '${group}' refused, nothing was written: ${why}`
    throw new RewindError('REWIND_REFUSED', message, this.#result(), { group })
  }

  get #leftMs(): number {
    return Math.max(0, this.#deadline - this.#cluster.env.clock.monotonic())
  }

  /** Null, or why it ended without an answer: then it is pending, as far as is known. */
  async #untilAnswered(controller: number, before: number): Promise<PlayheadError | null> {
    let node = controller
    for (let failures = 0; ; failures++) {
      try {
        if (await this.#ask(node)) return null
      } catch (error) {
        if (!(error instanceof PlayheadError) || !isPassing(error)) throw error
        if (this.#leftMs === 0) return error
      }
      const { clock, random } = this.#cluster.env
      const { signal } = this.#options
      await sleep(clock, backoffMs(random, backoff, failures), [this.#cluster.closing, signal])
      const group = await this.#look()
      if (group === null) continue
      node = group.controller.nodeId
      const written = group.rewinds.find(rewind => this.#isOurs(rewind, before))
      if (written === undefined) continue
      this.#id = written.rewindId
      return await this.#watch()
    }
  }

  /** False: the controller is elsewhere, nothing was written. */
  async #ask(node: number): Promise<boolean> {
    const { group: groupId } = this.#plan
    const { who = 'admin', reason = '', signal } = this.#options
    const timeoutMs = Math.floor(this.#leftMs)
    const lane = rewindLane()
    try {
      const answer = await this.#cluster.request(
        RewindConsumer,
        { groupId, timeoutMs, reason, by: who, offsets: this.#offsets() },
        { to: { node }, lane, timeoutMs: timeoutMs + graceMs, signal }
      )
      return this.#answered(answer)
    } finally {
      this.#cluster.endLane(lane)
    }
  }

  #offsets() {
    const byTopic = new Map<string, PlannedPartition[]>()
    for (const planned of this.#wanted()) {
      byTopic.set(planned.topic, [...(byTopic.get(planned.topic) ?? []), planned])
    }
    return [...byTopic].map(([topic, of]) => ({
      topic,
      partitions: of.map(({ partition, target: offset, until, resume }) => {
        return { partition, offset, until: until ?? -1, resume: resume ?? -1 }
      })
    }))
  }

  #wanted(): readonly PlannedPartition[] {
    return this.#plan.partitions.filter(planned => !this.#refused.has(keyOf(planned)))
  }

  #answered(answer: ResponseOf<typeof RewindConsumer>): boolean {
    const { errorCode, errorMessage, rewindId, offsets } = answer
    if (errorCode === KafkaError.NOT_COORDINATOR) return false
    if (rewindId === 0) {
      const what = `rewind of group '${this.#plan.group}'`
      throw answerError(errorCode, errorMessage === null ? what : `${what}: ${errorMessage}`)
    }
    this.#id = rewindId
    this.#options.onWritten?.()
    for (const { topic, partitions } of offsets) {
      for (const { partition, errorCode: code, previousOffset, offset } of partitions) {
        const state = stateOf(code)
        const from = previousOffset < 0 ? null : previousOffset
        this.#found.set(keyOf({ topic, partition }), { state, from, to: offset, by: null })
      }
    }
    return true
  }

  #isOurs({ rewindId, topic, partition, by, reason }: LedRewind, before: number): boolean {
    const { who = 'admin', reason: why = '' } = this.#options
    const asked = this.#wanted().some(p => p.topic === topic && p.partition === partition)
    return rewindId > before && asked && by === who && why.startsWith(reason)
  }

  async #look(): Promise<LedGroup | null> {
    try {
      const timeoutMs = Math.max(1_000, this.#leftMs)
      return await ledGroup(this.#cluster, this.#plan.group, { timeoutMs })
    } catch (error) {
      if (!(error instanceof PlayheadError) || !isPassing(error) || this.#leftMs === 0) throw error
      return null
    }
  }

  /** It is written, and its answer lost: the list shows when it is done. */
  async #watch(): Promise<PlayheadError | null> {
    const { clock, random } = this.#cluster.env
    this.#options.onWritten?.()
    for (let looks = 0; ; looks++) {
      const group = await this.#look()
      for (const rewind of group?.rewinds ?? []) this.#seen(rewind)
      const open = this.#wanted().filter(p => {
        const state = this.#found.get(keyOf(p))?.state
        return state !== 'applied' && state !== 'cancelled'
      })
      if (open.length === 0 || this.#leftMs === 0) return null
      const { signal } = this.#options
      await sleep(clock, backoffMs(random, backoff, looks), [this.#cluster.closing, signal])
    }
  }

  #seen({ topic, partition, rewindId, state, previousOffset, offset }: LedRewind): void {
    if (rewindId < this.#id) return
    const from = previousOffset < 0 ? null : previousOffset
    const later = rewindId > this.#id
    const known = this.#found.get(keyOf({ topic, partition }))
    // Newer than ours: it may have come after ours took effect.
    if (later && known?.state === 'applied') return
    this.#found.set(keyOf({ topic, partition }), {
      state: later ? 'superseded' : listedState(state),
      from,
      to: offset,
      by: later ? sequenceOf(rewindId) : null
    })
  }

  #result(): RewindResult {
    const { group, ledger, kind } = this.#plan
    const ms = this.#cluster.env.clock.monotonic() - this.#startedAt
    const partitions = this.#plan.partitions.map((planned): RewoundPartition => {
      const { topic, partition, owner, clamped, committed, target } = planned
      const refused = this.#refused.has(keyOf(planned))
      const none = {
        state: refused ? 'refused' : 'pending',
        from: committed,
        to: target,
        by: null
      } as const
      const found = this.#found.get(keyOf(planned)) ?? none
      const known = found.state !== 'pending' && found.state !== 'refused'
      return { topic, partition, owner, clamped, ms: known ? ms : null, ...found }
    })
    const id = this.#id === 0 ? noSequence : sequenceOf(this.#id)
    return { id, group, ledger, kind, partitions, ms }
  }
}

function stateOf(code: number): RewoundPartition['state'] {
  if (code === KafkaError.NONE) return 'applied'
  if (code === KafkaError.OPERATION_NOT_ATTEMPTED) return 'cancelled'
  return code === KafkaError.REWIND_SUPERSEDED ? 'superseded' : 'pending'
}

/** As the controller lists it. */
function listedState(state: number): 'pending' | 'applied' | 'cancelled' {
  if (state === 0) return 'pending'
  return state === cancelledState ? 'cancelled' : 'applied'
}

/** The newest rewind of each partition, by call, newest first. */
export function ledRewinds({ rewinds }: LedGroup): readonly KnownRewind[] {
  const byId = new Map<number, LedRewind[]>()
  for (const rewind of rewinds) {
    byId.set(rewind.rewindId, [...(byId.get(rewind.rewindId) ?? []), rewind])
  }
  return [...byId]
    .sort(([one], [other]) => other - one)
    .map(([id, all]) => ({
      id: sequenceOf(id),
      who: all[0]?.by ?? '',
      reason: all[0]?.reason ?? '',
      created: all[0]?.askedAt ?? 0,
      expires: Infinity,
      partitions: all.map(({ topic, partition, state, previousOffset, offset, ...rest }) => ({
        topic,
        partition,
        state: listedState(state),
        from: previousOffset < 0 || listedState(state) !== 'applied' ? null : previousOffset,
        to: offset,
        committed: null,
        until: rest.until < 0 ? null : rest.until,
        resume: rest.resume < 0 ? null : rest.resume,
        replaying: rest.replaying
      }))
    }))
}
