/**
 * The consumer that applications use. It wires together the parts that each know one thing: group and membership (whose
 * partitions), assignment (what is ours), positions (where they start), fetcher and sources (bytes), delivery and its
 * readers (records), commits (what was processed), vigil (what takes too long).
 *
 * Nothing happens before the first record is asked for.
 */
import { onAbort } from '../../base/abort.ts'
import { PlayheadError } from '../../base/error.ts'
import { noSequence } from '../../protocol/embedded/rewind-envelope.ts'
import type { Cluster, WaitOptions } from '../../rpc/cluster.ts'
import { type RewindOptions, rewind } from '../admin/rewind.ts'
import { planRewind } from '../admin/rewind-plan.ts'
import type { RewindResult } from '../admin/rewind-result.ts'
import type { TransactionOffsets, TransactionOutcome } from '../transaction-offsets.ts'
import { askCommitted, askEnds, type CommittedOffset, type LogEnds } from './asks.ts'
import { type PartitionLag, publicOf } from './assignment.ts'
import type { ConsumerEventName, ConsumerEvents } from './events.ts'
import type { TopicPartition } from '../partition.ts'
import { manualAssignment } from './manual.ts'
import {
  type ConsumerOptions,
  type GroupProtocol,
  invalid,
  settingsOf,
  type SeekTarget,
  placeOf
} from './options.ts'
import { Parts } from './parts.ts'
import { BatchReader, type PollOptions, PollReader, RecordReader } from './readers.ts'
import type { Playhead } from './playhead.ts'
import { type BatchLimits, type ConsumerBatch, type ConsumerRecord, originOf } from './record.ts'
import type { LetterSender } from './retries.ts'
import { type Handler, Runner, type RunOptions } from './run.ts'

/** How long closing may take. */
export interface CloseOptions {
  /** For handlers of `run` to end, commits to be acknowledged and the group to be left, all together. Default 30,000. */
  readonly timeoutMs?: number
}

/**
 * Reads records, in a group or by itself. It joins when its first record is asked for; one reader at a time. Close
 * it, or declare it with `await using`.
 */
export class Consumer<K = Buffer, V = Buffer> implements AsyncIterable<ConsumerRecord<K, V>> {
  readonly #parts: Parts<K, V>
  readonly #poller: PollReader<K, V>
  readonly #sender: () => LetterSender
  readonly #closing = new AbortController()
  #runner: Runner<K, V> | null = null
  #unwatch: (() => void) | null = null
  #deafen: (() => void) | null = null
  #started = false
  #closed: Promise<void> | null = null

  /** Throws INVALID_ARGUMENT. Made by `kafka.consumer(options)`. */
  constructor(
    cluster: Cluster,
    options: ConsumerOptions<K, V>,
    sender: () => LetterSender = noSender
  ) {
    this.#sender = sender
    const settings = settingsOf(options as ConsumerOptions<never, never>)
    const host = { closing: this.#closing.signal, asked: () => this.#asked() }
    this.#parts = new Parts<K, V>(cluster, settings, host)
    this.#poller = new PollReader(this.#parts.delivery)
  }

  // Reading

  /** Each record; processed when the next is asked for. Ends when the consumer is closed. */
  [Symbol.asyncIterator](): AsyncIterableIterator<ConsumerRecord<K, V>, undefined> {
    return new RecordReader(this.#parts.delivery)
  }

  /**
   * Batches of records, the fast way: a batch is processed when the next is asked for. As large as they come, about 1 MiB,
   * unless they are given limits: so many records, so many bytes.
   */
  batches(
    limits: Partial<BatchLimits> = {}
  ): AsyncIterableIterator<ConsumerBatch<K, V>, undefined> {
    return new BatchReader(this.#parts.delivery, limits)
  }

  /** Calls `handler` for each record until the consumer is closed, `signal` fires, or a handler rejects. */
  async run(handler: Handler<K, V>, options: RunOptions<K, V> = {}): Promise<void> {
    const { delivery, settings } = this.#parts
    const world = { group: settings.group, sender: this.#sender }
    this.#runner = new Runner(delivery, handler, options, world)
    await this.#runner.run(options.signal)
  }

  /** Up to `maxRecords` of what is there; waits up to `timeoutMs` for the first. Processed at the next poll. */
  async poll(options: PollOptions = {}): Promise<ConsumerRecord<K, V>[]> {
    return await this.#poller.poll(options)
  }

  // Committing

  /**
   * Commits what was processed. With `commit: 'manual'` that includes the record, batch or poll in hand: to call it says
   * that they are done. Rejects when a partition was lost meanwhile (STALE_GENERATION), when the coordinator refuses, and
   * with TIMED_OUT when the outcome is unknown.
   */
  async commit(): Promise<void> {
    const commits = this.#parts.needCommits()
    if (!this.#parts.settings.autoCommit) this.#parts.delivery.reader?.reportInHand()
    commits.wantProcessed(this.#parts.assignment.playheads())
    await commits.settle(this.#parts.assignment.playheads())
  }

  /**
   * What was processed, for `tx.commitOffsets(consumer)`: with what is in hand, which to call it says is done. Needs
   * `commit: 'manual'`. Throws TRANSACTION_ABORTED when records that were handed out since the last call come again.
   */
  async transactionOffsets(): Promise<TransactionOffsets> {
    this.#checkOpen()
    const { group, autoCommit } = this.#parts.settings
    if (group === null || autoCommit) {
      throw invalid(`offsets go into a transaction with a group and commit: 'manual'`)
    }
    const done = this.#parts.delivery.reader?.reportInHand() ?? true
    this.#parts.rewinder?.transactional()
    const { assignment, commits } = this.#parts
    const taken = assignment.transactionOffsets(group, this.#parts.group?.identity, done)
    commits?.took(taken)
    // A commit of ours that is still on its way (it acknowledges a rewind, or says where the group begins) goes by
    // another connection, and would undo the transaction's if it came after: also one that a jump has made void since.
    await commits?.settle(taken.playheads)
    for (const playhead of taken.playheads) await commits?.landed(playhead)
    assignment.checkTaken(taken)
    return taken.offsets
  }

  /** Called by the transaction that took `offsets`: what it committed is the group's from here on. */
  transactionEnded(offsets: TransactionOffsets, outcome: TransactionOutcome): void {
    this.#parts.commits?.transactionEnded(offsets, outcome)
  }

  // Positions

  /** Continues at `offset`, or where a moment is. What is buffered or in flight from elsewhere is dropped. */
  seek(to: SeekTarget | readonly SeekTarget[]): void {
    this.#checkOpen()
    const targets = 'topic' in to ? [to] : to
    const moves = targets.map(tp => [this.#parts.assignment.need(tp), placeOf(tp)] as const)
    for (const [playhead, place] of moves) playhead.jump(place, 'seek')
  }

  /**
   * These come again, and what was handed out after them of the same partitions: for after a transaction that was
   * aborted. Those whose partition was rewound, sought or lost since come again anyway, or are not wanted.
   */
  redeliver(records: readonly ConsumerRecord<K, V>[]): void {
    this.#checkOpen()
    const first = new Map<Playhead, number>()
    for (const record of records) {
      const { playhead, epoch } = originOf(record)
      if (playhead.epoch !== epoch || playhead.state !== 'reading') continue
      first.set(playhead, Math.min(first.get(playhead) ?? Infinity, record.offset))
    }
    for (const [playhead, offset] of first) playhead.jump({ offset }, 'redelivery')
    this.#parts.assignment.abandonTransaction()
  }

  /** Delivers nothing of these until `resume`. What is in hand may be finished. Default: all. */
  pause(partitions: readonly TopicPartition[] = this.assignment): void {
    for (const playhead of partitions.map(tp => this.#parts.assignment.need(tp)))
      playhead.pause(true)
  }

  /** Delivers paused partitions again; default: all of them. */
  resume(partitions: readonly TopicPartition[] = this.assignment): void {
    for (const playhead of partitions.map(tp => this.#parts.assignment.need(tp)))
      playhead.pause(false)
  }

  /** The partitions that this consumer has now. */
  get assignment(): readonly TopicPartition[] {
    return publicOf(this.#parts.assignment.kept())
  }

  /** Those of `assignment` that are paused. */
  get paused(): readonly TopicPartition[] {
    return publicOf(this.#parts.assignment.kept().filter(playhead => playhead.paused))
  }

  /** The offset of the next record of a partition; undefined: not ours, or not known yet. */
  position(tp: TopicPartition): number | undefined {
    const position = this.#parts.assignment.get(tp)?.position ?? -1
    return position < 0 ? undefined : position
  }

  /** How far behind the end of its log each partition is, as of its last fetch. */
  lag(): readonly PartitionLag[] {
    return this.#parts.assignment.lag()
  }

  /** What the group has committed for any partitions; default: for those that this consumer has. */
  async committed(
    partitions: readonly TopicPartition[] = this.assignment,
    options: WaitOptions = {}
  ): Promise<readonly CommittedOffset[]> {
    this.#checkOpen()
    const { group } = this.#parts.settings
    if (group === null) throw invalid('nothing is committed without a group')
    return await askCommitted(this.#parts.cluster, group, partitions, options)
  }

  /** Where the logs of any partitions begin and end now; default: of those that this consumer has. */
  async ends(
    partitions: readonly TopicPartition[] = this.assignment,
    options: WaitOptions = {}
  ): Promise<readonly LogEnds[]> {
    this.#checkOpen()
    return await askEnds(
      this.#parts.cluster,
      this.#parts.settings.readCommitted,
      partitions,
      options
    )
  }

  // Rewinding

  /**
   * Rewinds the whole group to these offsets, whoever owns the partitions, also those of this consumer. Resolves when every
   * owner has taken it up. Rejects as `admin.rewind` does: REWIND_REFUSED, REWIND_PENDING, … Skipping forward is allowed.
   */
  async rewind(
    to: readonly (TopicPartition & { readonly offset: number })[],
    options: Omit<RewindOptions, 'allowSkip' | 'who'> = {}
  ): Promise<RewindResult> {
    this.#checkOpen()
    const { group, rewind: settings } = this.#parts.settings
    if (group === null) throw invalid('there is nothing to rewind without a group')
    const { ledger } = settings ?? {}
    const { cluster } = this.#parts
    const plan = await planRewind(cluster, group, cluster.within({ ...options, ledger, to }))
    const who = this.#parts.group?.memberId ?? ''
    const onWritten = () => this.#parts.rewinder?.checkNow()
    const call = () => rewind(cluster, plan, { ...options, allowSkip: true, who, onWritten })
    return await (this.#parts.rewinder?.during(call) ?? call())
  }

  /** The last rewind that took effect on a partition of this consumer; undefined: none, or not its. */
  rewindOf(tp: TopicPartition): string | undefined {
    const sequence = this.#parts.assignment.get(tp)?.mark.sequence ?? noSequence
    return sequence === noSequence ? undefined : sequence
  }

  // Life

  /** `close` was called. */
  get closed(): boolean {
    return this.#closed !== null
  }

  /** The member's id in its group; null without a group. Of a classic group: empty until the coordinator gave one. */
  get memberId(): string | null {
    return this.#parts.group?.memberId ?? null
  }

  /**
   * How its group shares out partitions: of `protocol: 'auto'`, what was chosen by what the brokers have and what the
   * group already is. Null: not chosen yet, or no group.
   */
  get protocol(): GroupProtocol | null {
    return this.#parts.group?.protocol ?? null
  }

  /** Listens to an event; returns what ends it. */
  on<N extends ConsumerEventName>(
    name: N,
    listener: (event: ConsumerEvents[N]) => void
  ): () => void {
    return this.#parts.events.on(name, listener)
  }

  /**
   * Ends: iterators finish, handlers of `run` are waited for, what was processed is committed (unless 'manual'), the group
   * is left. Always resolves, within `timeoutMs`. Not to be awaited inside a handler of `run`, which it waits for.
   */
  close(options: CloseOptions = {}): Promise<void> {
    this.#closed ??= this.#close(options.timeoutMs ?? 30_000)
    return this.#closed
  }

  /** The same as `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(timeoutMs: number): Promise<void> {
    const { clock } = this.#parts.cluster.env
    const deadline = clock.monotonic() + timeoutMs
    const commits = this.#parts.commits
    this.#closing.abort(new PlayheadError('CLOSED', 'the consumer was closed'))
    this.#parts.delivery.close()
    this.#parts.vigil.close()
    this.#parts.rewinder?.close()
    await this.#runner?.endBy(deadline)
    for (const playhead of this.#parts.assignment.playheads()) playhead.beginRevoke()
    this.#parts.fetcher.close()
    this.#parts.positions.close()
    if (commits !== null) {
      if (this.#parts.settings.autoCommit) commits.wantProcessed(this.#parts.assignment.playheads())
      const leftMs = Math.max(1, (deadline - clock.monotonic()) / 2)
      await commits.settle(this.#parts.assignment.playheads(), leftMs).catch((error: unknown) => {
        if (!(error instanceof PlayheadError)) throw error
        this.#parts.report(error, 'the last commit failed')
      })
    }
    this.#parts.assignment.endAll()
    commits?.close()
    await this.#parts.group?.close(deadline)
    this.#unwatch?.()
    this.#deafen?.()
    const lanes = [
      `fetch:${this.#parts.lane}`,
      `fetch:${this.#parts.lane}+`,
      `group:${this.#parts.lane}`
    ] as const
    for (const lane of lanes) this.#parts.cluster.endLane(lane)
  }

  // Start

  /** The application asks for more. */
  #asked(): void {
    if (!this.#started && this.#closed === null) this.#start()
    this.#parts.vigil.asked()
  }

  #start(): void {
    this.#started = true
    this.#unwatch = this.#parts.cluster.watch(() =>
      this.#parts.fetcher.reroute([...this.#parts.assignment.playheads()])
    )
    this.#deafen = onAbort(this.#parts.cluster.closing, this.#orphaned)
    this.#parts.vigil.start()
    this.#parts.rewinder?.start()
    if (this.#parts.group !== null) return this.#parts.group.start()
    this.#startAssigned().catch((error: unknown) => {
      if (!(error instanceof PlayheadError)) throw error
      if (this.#closed === null) this.#parts.fail(error)
    })
  }

  /** The client was closed under us: whoever reads is told. */
  readonly #orphaned = (): void => {
    this.#parts.fail(this.#parts.cluster.closing.reason as PlayheadError)
    void this.close()
  }

  async #startAssigned(): Promise<void> {
    const { partitions, start } = await manualAssignment(
      this.#parts.cluster,
      this.#parts.settings.assign,
      this.#closing.signal,
      error => this.#parts.events.emit('error', { error })
    )
    if (this.#closed === null) this.#parts.assignment.assign(partitions, start)
  }

  #checkOpen(): void {
    if (this.#closed !== null) throw new PlayheadError('CLOSED', 'the consumer is closed')
  }
}

function noSender(): never {
  throw invalid('this consumer can send no dead letters to a topic: give a function')
}
