/**
 * Carries a plan out: refuses what cannot be, writes the entries to the ledger in one commit, and waits until
 * the owners' commits show that they took it up (live-rewind.md, the caller). Whatever the group is or becomes
 * meanwhile, the entries come first, so that a caller that dies anywhere leaves the rewind or nothing:
 *
 *   - an owner that lives takes the entry up at its next check;
 *   - a partition without an owner: its next owner does;
 *   - a group without members: this caller commits for it, which Kafka allows while there are none. If a member
 *     comes in between, that is refused, and the member finds the entry.
 */
import { assert } from '../../base/assert.ts'
import { PlayheadError } from '../../base/error.ts'
import { few } from '../../base/printable.ts'
import {
  beforeOf,
  cancelled,
  coveredBy,
  done,
  judge,
  over,
  repaired
} from '../../group/ledger/caller.ts'
import { type PlannedPartition, type RewindPlan, refusals } from '../../group/ledger/plan.ts'
import { effective, windowOf } from '../../group/ledger/position.ts'
import {
  checkEntry,
  encodeCommit,
  nextSequence,
  noSequence,
  type RewindEntry,
  type Sequence
} from '../../protocol/embedded/rewind-envelope.ts'
import type { Cluster, WaitOptions } from '../../rpc/cluster.ts'
import { sleep } from '../../rpc/retry.ts'
import { ledGroup } from '../led.ts'
import {
  commitFromOutside,
  keyOf,
  type PartitionEntry,
  readSlots,
  type Slots,
  writeEntries
} from '../ledger.ts'
import { describeGroups, type GroupDescription, ownersOf } from './groups.ts'
import { rewindLed } from './led-rewind.ts'
import { ownerOf, settledGroup } from './rewind-plan.ts'
import {
  RewindError,
  type RewindResult,
  type RewoundPartition,
  rewindError
} from './rewind-result.ts'

/** How a rewind is carried out. */
export interface RewindOptions extends WaitOptions {
  /** How long to wait until every owner is at its target: theirs is the time, not a request's. Default 30,000. */
  readonly timeoutMs?: number | undefined
  /** For the owners' `onRewind`, logs and `rewinds()`. As much of it as fits is kept. */
  readonly reason?: string | undefined
  /** Who asks. Default 'admin'. */
  readonly who?: string | undefined
  /** Allow going forward over records that were never consumed. Default false. */
  readonly allowSkip?: boolean | undefined
  /** Leave out what is refused, instead of refusing all. Default false. */
  readonly partial?: boolean | undefined
  /** Until when an owner may take it up, when this call has given up waiting. Default 24 hours. */
  readonly expiresMs?: number | undefined
  /** Called once the entries are in the ledger: from here on the rewind takes place, whoever dies. */
  readonly onWritten?: (() => void) | undefined
  /** Called whenever a partition's state has changed. */
  readonly onProgress?: ((result: RewindResult) => void) | undefined
}

const day = 86_400_000
/** Between two looks at the slots, growing. */
const firstLookMs = 20
const mostLookMs = 150
/** Between two looks at who is in the group. */
const describeMs = 1_000
/** An owner that read an entry just before it was cancelled has its commit there after so long. */
export const cancelGraceMs = 2_000

/**
 * Executes a plan. Resolves when every partition is at its target, whoever owns it. Rejects with
 * REWIND_REFUSED (nothing was written, or it was taken back), REWIND_SUPERSEDED, PARTIALLY_APPLIED,
 * REWIND_PENDING (the deadline passed; it still takes place), ABORTED: a `RewindError` has the result.
 */
export async function rewind(
  cluster: Cluster,
  plan: RewindPlan,
  options: RewindOptions = {}
): Promise<RewindResult> {
  const call = new RewindCall(cluster, plan, options)
  const led = await ledGroup(cluster, plan.group, options)
  return await (led === null ? call.run() : rewindLed(cluster, plan, led, options))
}

interface Part {
  readonly planned: PlannedPartition
  /** Null until the sequence is drawn. */
  entry: RewindEntry | null
  outcome: RewoundPartition
}

class RewindCall {
  readonly #cluster: Cluster
  readonly #plan: RewindPlan
  readonly #options: RewindOptions
  readonly #startedAt: number
  readonly #deadline: number
  readonly #parts: readonly Part[]
  #description: GroupDescription | null = null
  #describedAt = -Infinity
  #sequence: Sequence = ''
  /** Why everything that is still open is being taken back, and until when owners may contradict. */
  #takenBack: { readonly why: string; readonly until: number } | null = null

  /** Why the waiting ended before its end. */
  #trouble: PlayheadError | null = null

  constructor(cluster: Cluster, plan: RewindPlan, options: RewindOptions) {
    this.#cluster = cluster
    this.#plan = plan
    this.#options = options
    this.#startedAt = cluster.env.clock.monotonic()
    this.#deadline = this.#startedAt + (options.timeoutMs ?? 30_000)
    if (plan.partitions.length === 0) {
      throw new PlayheadError('INVALID_ARGUMENT', 'the plan has no partitions: nothing to rewind')
    }
    this.#parts = plan.partitions.map(planned => ({
      planned,
      entry: null,
      outcome: {
        topic: planned.topic,
        partition: planned.partition,
        owner: planned.owner,
        from: planned.committed,
        to: planned.target,
        clamped: planned.clamped,
        ms: null,
        state: 'pending',
        by: null
      }
    }))
  }

  async run(): Promise<RewindResult> {
    await this.#admit()
    await this.#write()
    this.#options.onWritten?.()
    await this.#wait()
    const { why = null } = this.#takenBack ?? {}
    const error = rewindError(this.#result(), why, this.#trouble)
    if (error) throw error
    return this.#result()
  }

  get #open(): readonly (Part & { readonly entry: RewindEntry })[] {
    return this.#parts.filter((part): part is Part & { entry: RewindEntry } => {
      return part.outcome.state === 'pending' && part.entry !== null
    })
  }

  get #waiting(): WaitOptions {
    const timeoutMs = Math.max(1, this.#deadline - this.#cluster.env.clock.monotonic())
    return { timeoutMs, signal: this.#options.signal }
  }

  #result(): RewindResult {
    const { group, ledger, kind } = this.#plan
    const ms = this.#cluster.env.clock.monotonic() - this.#startedAt
    const partitions = this.#parts.map(part => part.outcome)
    return { id: this.#sequence, group, ledger, kind, partitions, ms }
  }

  /** Who has the partitions by now, and whether that and the targets are acceptable. */
  async #admit(): Promise<void> {
    const { group } = this.#plan
    const [description] = await settledGroup(this.#cluster, group, this.#waiting)
    assert(description, 'a described group is described')
    this.#describe(description)
    const partitions = this.#parts.map(({ planned, outcome }) => ({
      ...planned,
      owner: outcome.owner
    }))
    const { allowSkip = false, partial = false } = this.#options
    const found = refusals({ ...this.#plan, partitions }, allowSkip)
    const named = new Set(found.map(keyOf))
    for (const part of this.#parts) {
      if (named.has(keyOf(part.planned))) part.outcome = { ...part.outcome, state: 'refused' }
    }
    if (found.length === 0 || (partial && found.length < this.#parts.length)) return
    const why = few(
      found.map(refusal => refusal.why),
      5,
      '; '
    )
    const message = `rewind of group '${group}' refused, nothing was written: ${why}`
    throw new RewindError('REWIND_REFUSED', message, this.#result(), { group })
  }

  #describe(description: GroupDescription): void {
    this.#description = description
    this.#describedAt = this.#cluster.env.clock.monotonic()
    const owners = ownersOf(description.members)
    for (const part of this.#parts) {
      if (part.outcome.state !== 'pending') continue
      part.outcome = { ...part.outcome, owner: ownerOf(owners.get(keyOf(part.planned))) }
    }
  }

  /** Draws the sequence, and writes all entries in one commit. */
  async #write(): Promise<void> {
    const { env } = this.#cluster
    const { group, ledger } = this.#plan
    const { expiresMs = day, who = 'admin', reason = '' } = this.#options
    const open = this.#parts.filter(part => part.outcome.state === 'pending')
    const ids = new Map(open.map(({ planned }) => [planned.topic, planned.topicId]))
    await this.#sameTopics(ids)
    const idOf = (topic: string) => ids.get(topic) ?? null
    const slots = await readSlots(this.#cluster, group, ledger, null, idOf, this.#waiting)
    const now = env.clock.now()
    const seen = [...slots.values()].flatMap(slot => slot.seen)
    const drawn = lastDrawn(this.#cluster)
    this.#sequence = nextSequence(
      now,
      [...seen, drawn.get(ledger) ?? noSequence],
      chance(env.random)
    )
    drawn.set(ledger, this.#sequence)
    for (const part of open) {
      const { topicId, target, until, resume } = part.planned
      const { commit = null, entry = null } = slots.get(keyOf(part.planned)) ?? {}
      const standsAt = effective(commit, entry, now).offset ?? 0
      part.entry = {
        sequence: this.#sequence,
        state: 'pending',
        topicId,
        created: now,
        expires: now + Math.ceil(expiresMs / 1000) * 1000,
        target,
        before: beforeOf(commit, entry, now),
        until,
        resume: resume === null ? null : Math.max(resume, standsAt),
        who,
        reason
      }
      checkEntry(part.entry)
    }
    try {
      await this.#put(this.#open.map(({ planned, entry }) => ({ ...place(planned), entry })))
    } catch (error) {
      if (isRefusal(error)) await this.#unwrite()
      throw error
    }
  }

  /** A broker refuses partitions one by one, as rights on topics differ: those that it took are taken back. */
  async #unwrite(): Promise<void> {
    const slots = await this.#read()
    const now = this.#cluster.env.clock.now()
    const written = this.#open.flatMap(({ planned, entry }) => {
      const { commit = null, entry: inLedger = null } = slots.get(keyOf(planned)) ?? {}
      if (inLedger?.sequence !== entry.sequence) return []
      return [{ ...place(planned), entry: cancelled(entry, commit, now) }]
    })
    await this.#put(written)
  }

  /** Both slots of what is still open. */
  async #read(): Promise<ReadonlyMap<string, Slots>> {
    const { group, ledger } = this.#plan
    const partitions = this.#open.map(({ planned }) => planned)
    const ids = new Map(partitions.map(({ topic, topicId }) => [topic, topicId]))
    const idOf = (topic: string) => ids.get(topic) ?? null
    return await readSlots(this.#cluster, group, ledger, partitions, idOf, this.#waiting)
  }

  async #sameTopics(ids: ReadonlyMap<string, string>): Promise<void> {
    for (const [name, planned] of ids) {
      const { topicId } = await this.#cluster.topic(name, this.#waiting)
      if (topicId === planned) continue
      const message = `topic '${name}' was deleted and created anew since the plan was made`
      throw new PlayheadError('REWIND_REFUSED', message, { topic: name })
    }
  }

  async #put(entries: readonly PartitionEntry[]): Promise<void> {
    await writeEntries(this.#cluster, this.#plan.ledger, entries, this.#waiting)
  }

  async #wait(): Promise<void> {
    const { clock } = this.#cluster.env
    let lookMs = firstLookMs
    try {
      for (;;) {
        const before = this.#open.length
        await this.#look()
        if (this.#open.length < before) this.#options.onProgress?.(this.#result())
        if (this.#open.length === 0) return
        await this.#reach()
        const leftMs = this.#deadline - clock.monotonic()
        if (leftMs <= 0) return
        const { signal } = this.#options
        await sleep(clock, Math.min(lookMs, leftMs), [this.#cluster.closing, signal])
        lookMs = Math.min(lookMs * 1.5, mostLookMs)
      }
    } catch (error) {
      // The entries are there: what cannot be seen for now is pending, not failed.
      if (!(error instanceof PlayheadError)) throw error
      if (error.code === 'ABORTED' || error.code === 'CLOSED') throw error
      this.#trouble = error
    }
  }

  /** Reads both slots of what is still open, judges, and puts right what another caller did. */
  async #look(): Promise<void> {
    const open = this.#open
    const slots = await this.#read()
    const now = this.#cluster.env.clock.now()
    const writes: PartitionEntry[] = []
    const isEmpty = this.#description?.members.length === 0
    const covered: PartitionEntry[] = []
    for (const part of open) {
      const { commit = null, entry: inLedger = null } = slots.get(keyOf(part.planned)) ?? {}
      const later = isEmpty ? coveredBy(part.entry, commit, inLedger) : null
      if (later !== null) {
        covered.push({ ...place(part.planned), entry: later })
        continue
      }
      const standing = judge(part.entry, commit, inLedger, now)
      const mine = inLedger?.sequence === part.entry.sequence ? inLedger : null
      let write = inLedger && repaired(inLedger, commit)
      if (standing.state === 'applied') {
        if (mine?.state === 'pending' || mine?.state === 'cancelled')
          write = done(part.entry, commit)
        this.#settle(part, 'applied', { from: standing.from ?? part.outcome.from })
      } else if (standing.state === 'overwritten') {
        write = part.entry = over(part.entry, commit, inLedger, now)
      } else if (standing.state === 'superseded') {
        this.#settle(part, 'superseded', { by: standing.by })
      } else if (standing.state === 'cancelled') {
        if (!this.#takenBack) this.#settle(part, 'cancelled')
        else if (this.#cluster.env.clock.monotonic() >= this.#takenBack.until) {
          this.#settle(part, 'refused')
        }
      } else if (standing.state === 'expired') this.#settle(part, 'expired')
      if (write) writes.push({ ...place(part.planned), entry: write })
    }
    await this.#put(writes)
    await this.#uncover(covered)
  }

  /**
   * Our commit for an empty group came after that of a later rewind, which was answered. The ledger still says so; but
   * if an entry from before came late now, nothing would. So it is committed again, and the next look finds us superseded.
   */
  async #uncover(covered: readonly PartitionEntry[]): Promise<void> {
    if (covered.length === 0) return
    const commits = covered.map(({ topic, partition, entry }) => {
      const mark = { sequence: entry.sequence, from: null, window: windowOf(entry, null) }
      const metadata = encodeCommit(mark, '', entry.topicId)
      return { topic, partition, offset: entry.target, metadata }
    })
    const { group } = this.#plan
    const outcome = await commitFromOutside(this.#cluster, group, commits, this.#waiting)
    if (outcome === 'live') this.#describedAt = -Infinity
  }

  #settle(
    part: Part,
    state: RewoundPartition['state'],
    more: { readonly from?: number | null; readonly by?: Sequence | null } = {}
  ): void {
    const ms = this.#cluster.env.clock.monotonic() - this.#startedAt
    part.outcome = { ...part.outcome, ...more, state, ms }
  }

  /** Commits for a group that has no members; takes the rewind back where a foreign member came in. */
  async #reach(): Promise<void> {
    const { group } = this.#plan
    const now = this.#cluster.env.clock.monotonic()
    const empty = this.#description?.members.length === 0
    if (now - this.#describedAt > describeMs) {
      const [description] = await describeGroups(this.#cluster, [group], this.#waiting)
      assert(description, 'a described group is described')
      this.#describe(description)
    } else if (!empty) return
    if (this.#description?.members.length === 0) await this.#commitForNobody()
    else await this.#refuseForeigners()
  }

  async #commitForNobody(): Promise<void> {
    if (this.#takenBack) return
    // Where the group stands by now, and not when it was planned: behind a replay it goes on from there.
    const slots = await this.#read()
    const now = this.#cluster.env.clock.now()
    const commits = this.#open.flatMap(({ planned, entry }) => {
      const { commit = null, entry: inLedger = null } = slots.get(keyOf(planned)) ?? {}
      // A later rewind may have come in since the last look.
      if (judge(entry, commit, inLedger, now).state !== 'pending') return []
      const { from, window } = effective(commit, entry, now)
      const mark = { sequence: entry.sequence, from, window }
      const metadata = encodeCommit(mark, '', entry.topicId)
      return [{ ...place(planned), offset: entry.target, metadata }]
    })
    if (commits.length === 0) return
    const { group } = this.#plan
    const outcome = await commitFromOutside(this.#cluster, group, commits, this.#waiting)
    // A member came in meanwhile: it finds the entry. Who it is shows at the next description.
    if (outcome === 'live') this.#describedAt = -Infinity
  }

  async #refuseForeigners(): Promise<void> {
    const open = this.#open
    const foreign = open.filter(({ outcome }) => outcome.owner?.rewindable === false)
    if (foreign.length === 0 || this.#takenBack) return
    const back = this.#options.partial ? foreign : open
    const why = foreign.map(({ outcome: { topic, partition, owner } }) => {
      return `${topic}:${partition} went to ${owner?.memberId} at ${owner?.host}, which does not take part in rewinds`
    })
    const { clock } = this.#cluster.env
    this.#takenBack = { why: why.join('; '), until: clock.monotonic() + cancelGraceMs }
    const now = clock.now()
    await this.#put(
      back.map(({ planned, entry }) => ({
        ...place(planned),
        entry: cancelled(entry, planned.commit, now)
      }))
    )
  }
}

/** The broker said no: nothing that it refused is written. */
function isRefusal(error: unknown): boolean {
  return error instanceof PlayheadError && error.kafkaError !== undefined
}

function place({ topic, partition }: PlannedPartition): { topic: string; partition: number } {
  return { topic, partition }
}

/**
 * By client and ledger: what was drawn last. The ledger shows it, too, unless an entry that came late covers it; and a clock
 * may be put back.
 */
const drawnBy = new WeakMap<Cluster, Map<string, Sequence>>()

function lastDrawn(cluster: Cluster): Map<string, Sequence> {
  const drawn = drawnBy.get(cluster) ?? new Map<string, Sequence>()
  drawnBy.set(cluster, drawn)
  return drawn
}

const letters = '0123456789abcdefghijklmnopqrstuvwxyz'

/** Four characters that tell two callers of one millisecond apart. */
function chance(random: { next(): number }): string {
  let text = ''
  while (text.length < 4) text += letters[Math.floor(random.next() * letters.length)] ?? '0'
  return text
}
