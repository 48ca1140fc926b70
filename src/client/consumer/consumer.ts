/**
 * The consumer that applications use. It wires together the parts that each know one thing: group and membership (whose
 * partitions), assignment (what is ours), positions (where they start), fetcher and sources (bytes), delivery and its
 * readers (records), commits (what was processed), vigil (what takes too long).
 *
 * Nothing happens before the first record is asked for.
 */
import { PlayheadError } from '../../base/error.ts'
import { noSequence, rewindableMark } from '../../protocol/embedded/rewind-envelope.ts'
import type { LaneName } from '../../rpc/call.ts'
import type { Cluster, WaitOptions } from '../../rpc/cluster.ts'
import { type RewindOptions, rewind } from '../admin/rewind.ts'
import { planRewind } from '../admin/rewind-plan.ts'
import type { RewindResult } from '../admin/rewind-result.ts'
import type { TransactionOffsets } from '../transaction-offsets.ts'
import { askCommitted, askEnds, type CommittedOffset, type LogEnds } from './asks.ts'
import { Assignment, type PartitionLag, publicOf } from './assignment.ts'
import { Unpacker } from './chunk.ts'
import { Commits } from './commits.ts'
import { decodingOf } from './decoding.ts'
import { Delivery } from './delivery.ts'
import { unreadable } from './errors.ts'
import { type ConsumerEventName, type ConsumerEvents, Events } from './events.ts'
import type { TopicPartition } from '../partition.ts'
import { Fetcher } from './fetcher.ts'
import { Group, type GroupHost } from './group.ts'
import { LedRewinds } from './led-rewinds.ts'
import { manualAssignment } from './manual.ts'
import {
  type ConsumerOptions,
  type GroupProtocol,
  invalid,
  type Settings,
  settingsOf,
  type SeekTarget,
  startOf
} from './options.ts'
import type { Playhead } from './playhead.ts'
import { Positions } from './positions.ts'
import { Rewinder } from './rewind.ts'
import { BatchReader, type PollOptions, PollReader, RecordReader } from './readers.ts'
import type { ConsumerBatch, ConsumerRecord } from './record.ts'
import { type Handler, Runner, type RunOptions } from './run.ts'
import { stallFactsOf } from './stall.ts'
import { uuid } from './uuid.ts'
import { Vigil } from './vigil.ts'

/** How long closing may take. */
export interface CloseOptions {
  /** For handlers of `run` to end, commits to be acknowledged and the group to be left, all together. Default 30,000. */
  readonly timeoutMs?: number
}

let instances = 0

/**
 * Reads records, in a group or by itself. It joins when its first record is asked for; one reader at a time. Close
 * it, or declare it with `await using`.
 */
export class Consumer<K = Buffer, V = Buffer> implements AsyncIterable<ConsumerRecord<K, V>> {
  readonly #cluster: Cluster
  readonly #settings: Settings
  readonly #events: Events
  readonly #lane: string
  readonly #delivery: Delivery<K, V>
  readonly #poller: PollReader<K, V>
  readonly #fetcher: Fetcher
  readonly #positions: Positions
  readonly #commits: Commits | null
  readonly #group: Group | null
  readonly #assignment: Assignment
  readonly #vigil: Vigil
  readonly #rewinder: Rewinder | null
  readonly #closing = new AbortController()
  #runner: Runner<K, V> | null = null
  #unwatch: (() => void) | null = null
  #started = false
  #closed: Promise<void> | null = null

  /** Throws INVALID_ARGUMENT. Made by `kafka.consumer(options)`. */
  constructor(cluster: Cluster, options: ConsumerOptions<K, V>) {
    const settings = settingsOf(options as ConsumerOptions<never, never>)
    this.#cluster = cluster
    this.#settings = settings
    this.#lane = `consumer-${++instances}`
    this.#events = new Events(cluster.env.log, settings.group ?? 'consumer')
    this.#delivery = this.#makeDelivery()
    this.#poller = new PollReader(this.#delivery)
    this.#fetcher = this.#makeFetcher()
    const { group } = settings
    const lane = `group:${this.#lane}` as const
    this.#group = group === null ? null : this.#makeGroup(group, lane)
    this.#commits = group === null ? null : this.#makeCommits(group, lane)
    this.#rewinder = this.#makeRewinder()
    this.#positions = this.#makePositions()
    this.#assignment = this.#makeAssignment()
    this.#vigil = this.#makeVigil()
  }

  // Reading

  /** Each record; processed when the next is asked for. Ends when the consumer is closed. */
  [Symbol.asyncIterator](): AsyncIterableIterator<ConsumerRecord<K, V>, undefined> {
    return new RecordReader(this.#delivery)
  }

  /** Batches of records, the fast way: a batch is processed when the next is asked for. */
  batches(): AsyncIterableIterator<ConsumerBatch<K, V>, undefined> {
    return new BatchReader(this.#delivery)
  }

  /** Calls `handler` for each record until the consumer is closed, `signal` fires, or a handler rejects. */
  async run(handler: Handler<K, V>, options: RunOptions = {}): Promise<void> {
    this.#runner = new Runner(this.#delivery, handler, options)
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
    const commits = this.#needCommits()
    if (!this.#settings.autoCommit) this.#delivery.reader?.reportInHand()
    commits.wantProcessed(this.#assignment.playheads())
    await commits.settle(this.#assignment.playheads())
  }

  /**
   * What was processed, for `tx.commitOffsets(consumer)`: with what is in hand, which to call it says is done. Needs
   * `commit: 'manual'`. Throws TRANSACTION_ABORTED when records that were handed out since the last call come again.
   */
  transactionOffsets(): TransactionOffsets {
    this.#checkOpen()
    const { group, autoCommit } = this.#settings
    if (group === null || autoCommit) {
      throw invalid(`offsets go into a transaction with a group and commit: 'manual'`)
    }
    const done = this.#delivery.reader?.reportInHand() ?? true
    this.#rewinder?.transactional()
    return this.#assignment.transactionOffsets(group, this.#group?.identity, done)
  }

  // Positions

  /** Continues at `offset`, or where a moment is. What is buffered or in flight from elsewhere is dropped. */
  seek(to: SeekTarget | readonly SeekTarget[]): void {
    this.#checkOpen()
    const targets = 'topic' in to ? [to] : to
    const moves = targets.map(tp => [this.#assignment.need(tp), startOf(tp.offset)] as const)
    for (const [playhead, start] of moves) {
      playhead.jump(typeof start === 'number' ? { offset: start } : start, 'seek')
    }
  }

  /** Delivers nothing of these until `resume`. What is in hand may be finished. Default: all. */
  pause(partitions: readonly TopicPartition[] = this.assignment): void {
    for (const playhead of partitions.map(tp => this.#assignment.need(tp))) playhead.pause(true)
  }

  /** Delivers paused partitions again; default: all of them. */
  resume(partitions: readonly TopicPartition[] = this.assignment): void {
    for (const playhead of partitions.map(tp => this.#assignment.need(tp))) playhead.pause(false)
  }

  /** The partitions that this consumer has now. */
  get assignment(): readonly TopicPartition[] {
    return publicOf(this.#assignment.kept())
  }

  /** Those of `assignment` that are paused. */
  get paused(): readonly TopicPartition[] {
    return publicOf(this.#assignment.kept().filter(playhead => playhead.paused))
  }

  /** The offset of the next record of a partition; undefined: not ours, or not known yet. */
  position(tp: TopicPartition): number | undefined {
    const position = this.#assignment.get(tp)?.position ?? -1
    return position < 0 ? undefined : position
  }

  /** How far behind the end of its log each partition is, as of its last fetch. */
  lag(): readonly PartitionLag[] {
    return this.#assignment.lag()
  }

  /** What the group has committed for any partitions; default: for those that this consumer has. */
  async committed(
    partitions: readonly TopicPartition[] = this.assignment,
    options: WaitOptions = {}
  ): Promise<readonly CommittedOffset[]> {
    this.#checkOpen()
    const { group } = this.#settings
    if (group === null) throw invalid('nothing is committed without a group')
    return await askCommitted(this.#cluster, group, partitions, options)
  }

  /** Where the logs of any partitions begin and end now; default: of those that this consumer has. */
  async ends(
    partitions: readonly TopicPartition[] = this.assignment,
    options: WaitOptions = {}
  ): Promise<readonly LogEnds[]> {
    this.#checkOpen()
    return await askEnds(this.#cluster, this.#settings.readCommitted, partitions, options)
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
    const { group, rewind: settings } = this.#settings
    if (group === null) throw invalid('there is nothing to rewind without a group')
    const { ledger } = settings ?? {}
    const plan = await planRewind(this.#cluster, group, { ...options, ledger, to })
    const who = this.#group?.memberId ?? ''
    const onWritten = () => this.#rewinder?.checkNow()
    const call = () => rewind(this.#cluster, plan, { ...options, allowSkip: true, who, onWritten })
    return await (this.#rewinder?.during(call) ?? call())
  }

  /** The last rewind that took effect on a partition of this consumer; undefined: none, or not its. */
  rewindOf(tp: TopicPartition): string | undefined {
    const sequence = this.#assignment.get(tp)?.mark.sequence ?? noSequence
    return sequence === noSequence ? undefined : sequence
  }

  // Life

  /** The member's id in its group; null without a group. Of a classic group: empty until the coordinator gave one. */
  get memberId(): string | null {
    return this.#group?.memberId ?? null
  }

  /**
   * How its group shares out partitions: of `protocol: 'auto'`, what was chosen by what the brokers have and what the
   * group already is. Null: not chosen yet, or no group.
   */
  get protocol(): GroupProtocol | null {
    return this.#group?.protocol ?? null
  }

  /** Listens to an event; returns what ends it. */
  on<N extends ConsumerEventName>(
    name: N,
    listener: (event: ConsumerEvents[N]) => void
  ): () => void {
    return this.#events.on(name, listener)
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
    const { clock } = this.#cluster.env
    const deadline = clock.monotonic() + timeoutMs
    const commits = this.#commits
    this.#closing.abort(new PlayheadError('CLOSED', 'the consumer was closed'))
    this.#delivery.close()
    this.#vigil.close()
    this.#rewinder?.close()
    await this.#runner?.endBy(deadline)
    for (const playhead of this.#assignment.playheads()) playhead.beginRevoke()
    this.#fetcher.close()
    this.#positions.close()
    if (commits !== null) {
      if (this.#settings.autoCommit) commits.wantProcessed(this.#assignment.playheads())
      const leftMs = Math.max(1, (deadline - clock.monotonic()) / 2)
      await commits.settle(this.#assignment.playheads(), leftMs).catch((error: unknown) => {
        if (!(error instanceof PlayheadError)) throw error
        this.#report(error, 'the last commit failed')
      })
    }
    this.#assignment.endAll()
    commits?.close()
    await this.#group?.close(deadline)
    this.#unwatch?.()
    this.#cluster.closing.removeEventListener('abort', this.#orphaned)
    const lanes = [`fetch:${this.#lane}`, `fetch:${this.#lane}+`, `group:${this.#lane}`] as const
    for (const lane of lanes) this.#cluster.endLane(lane)
  }

  // Start

  /** The application asks for more. */
  #asked(): void {
    if (!this.#started && this.#closed === null) this.#start()
    this.#vigil.asked()
  }

  #start(): void {
    this.#started = true
    this.#unwatch = this.#cluster.watch(() =>
      this.#fetcher.reroute([...this.#assignment.playheads()])
    )
    this.#cluster.closing.addEventListener('abort', this.#orphaned)
    this.#vigil.start()
    this.#rewinder?.start()
    if (this.#group !== null) return this.#group.start()
    this.#startAssigned().catch((error: unknown) => {
      if (!(error instanceof PlayheadError)) throw error
      if (this.#closed === null) this.#fail(error)
    })
  }

  /** The client was closed under us: whoever reads is told. */
  readonly #orphaned = (): void => {
    this.#fail(this.#cluster.closing.reason as PlayheadError)
    void this.close()
  }

  async #startAssigned(): Promise<void> {
    const { partitions, start } = await manualAssignment(
      this.#cluster,
      this.#settings.assign,
      this.#closing.signal,
      error => this.#events.emit('error', { error })
    )
    if (this.#closed === null) this.#assignment.assign(partitions, start)
  }

  // Wiring

  #makeDelivery(): Delivery<K, V> {
    const { env } = this.#cluster
    const host = {
      env,
      aliveUntil: () => this.#group?.aliveUntil ?? Infinity,
      asked: () => this.#asked(),
      expired: () => this.#group?.doubted()
    }
    const decoding = decodingOf(this.#settings, this.#events, () => this.#needCommits())
    return new Delivery(host, new Unpacker<K, V>(env.cpu, this.#settings, decoding))
  }

  #makeFetcher(): Fetcher {
    const cluster = this.#cluster
    return new Fetcher({
      env: cluster.env,
      rpc: cluster,
      settings: this.#settings,
      lane: this.#lane,
      metadata: () => cluster.metadata,
      stale: why => cluster.stale(why),
      learned: (hints, endpoints) => cluster.learned(hints, endpoints),
      madeAnew: (playhead, topicId) => {
        // Where the coordinator assigns topics by id, it takes the one away and gives the other.
        if (this.#group?.byId !== true) this.#assignment.replace(playhead, topicId)
      },
      outOfRange: playhead => this.#positions.outOfRange(playhead),
      diverged: (playhead, epoch, end) => this.#positions.diverged(playhead, epoch, end),
      refused: (playhead, code) => {
        playhead.stick()
        this.#trouble(unreadable(playhead, code))
      }
    })
  }

  #makeGroup(group: string, lane: GroupHost['lane']): Group {
    const { cpu } = this.#cluster.env
    return new Group(
      {
        cluster: this.#cluster,
        settings: this.#settings,
        events: this.#events,
        group,
        lane,
        closing: this.#closing.signal,
        name: this.#lane,
        assign: partitions => this.#assignment.assign(partitions, () => 'committed'),
        assignAt: partitions => this.#ledRewinds().assign(partitions),
        halt: partitions => this.#ledRewinds().halt(partitions),
        move: partitions => this.#ledRewinds().move(partitions),
        revoke: partitions => this.#assignment.revoke(partitions),
        lose: (partitions, why) => this.#assignment.lose(partitions, why),
        confirmed: () => {
          this.#delivery.wake()
          this.#commits?.pump()
        },
        failed: error => this.#fail(error)
      },
      `${this.#settings.rewind === null ? '' : rewindableMark}${uuid(cpu.randomBytes(16))}`
    )
  }

  #ledRewinds(): LedRewinds {
    return new LedRewinds({
      clock: this.#cluster.env.clock,
      settings: this.#settings,
      assignment: this.#assignment,
      commits: this.#needCommits(),
      rewinder: this.#rewinder
    })
  }

  #makeCommits(group: string, lane: LaneName): Commits {
    return new Commits({
      env: this.#cluster.env,
      rpc: this.#cluster,
      group,
      lane,
      identity: () => this.#group?.identity,
      expelled: () => this.#group?.doubted(),
      gone: ({ topic, topicId }) => {
        if (this.#cluster.metadata.topics.get(topic)?.topicId !== topicId) return true
        this.#cluster.stale(`the coordinator knows no topic ${topic}`)
        return false
      },
      failed: error => this.#events.emit('error', { error })
    })
  }

  #makeRewinder(): Rewinder | null {
    const { rewind: settings } = this.#settings
    const commits = this.#commits
    if (settings === null || commits === null) return null
    return new Rewinder({
      cluster: this.#cluster,
      settings,
      events: this.#events,
      commits,
      playheads: () => this.#assignment.playheads(),
      led: () => this.#group?.led ?? false
    })
  }

  #makePositions(): Positions {
    return new Positions({
      cluster: this.#cluster,
      settings: this.#settings,
      events: this.#events,
      ledger: this.#rewinder,
      appeared: topic =>
        this.#assignment.madeAnew(topic) || (this.#group?.appeared(topic) ?? false),
      found: (playhead, committed) => this.#commits?.found(playhead, committed),
      started: playhead => this.#startFound(playhead),
      trouble: error => this.#trouble(error)
    })
  }

  /** A start by policy is committed at once: it says that the group knows this partition (see positions.ts). */
  #startFound(playhead: Playhead): void {
    const { startFrom } = this.#settings
    if (this.#commits === null || startFrom === 'earliest' || playhead.epoch > 0) return
    const { epoch, position: offset, leaderEpoch } = playhead
    this.#commits.want(playhead, { epoch, offset, leaderEpoch })
    this.#commits.pump()
  }

  #makeAssignment(): Assignment {
    return new Assignment({
      settings: this.#settings,
      events: this.#events,
      commits: this.#commits,
      playheads: {
        fetchingChanged: playhead => this.#fetcher.changed(playhead),
        deliverable: playhead => this.#delivery.deliverable(playhead),
        buffered: (playhead, bytes) => this.#fetcher.buffered(playhead, bytes),
        locate: playhead => this.#positions.locate(playhead),
        limitReached: playhead => this.#rewinder?.reached(playhead)
      },
      forget: playhead => this.#delivery.forget(playhead),
      wake: () => this.#delivery.wake(),
      report: (error, what) => this.#report(error, what)
    })
  }

  #makeVigil(): Vigil {
    const [delivery, settings, assignment] = [this.#delivery, this.#settings, this.#assignment]
    const witnesses = { settings, delivery, assignment, group: this.#group, fetcher: this.#fetcher }
    return new Vigil({
      clock: this.#cluster.env.clock,
      settings: this.#settings,
      events: this.#events,
      inHandSince: () => delivery.reader?.inHandSince() ?? Infinity,
      lastAt: () => delivery.lastAt,
      stallFacts: (now, forMs) => stallFactsOf(witnesses, now, forMs),
      commit: () => {
        this.#commits?.wantProcessed(this.#assignment.playheads())
        this.#commits?.pump()
      },
      overdue: () => this.#group?.overdue(),
      caughtUp: () => this.#group?.caughtUp()
    })
  }

  #trouble(error: PlayheadError): void {
    this.#events.emit('error', { error })
    this.#delivery.trouble(error)
  }

  #fail(error: PlayheadError): void {
    this.#events.emit('error', { error })
    this.#delivery.fail(error)
  }

  #report(error: PlayheadError, what: string): void {
    this.#cluster.env.log.warn(`${this.#settings.group}: ${what}`, { error: error.message })
    this.#events.emit('error', { error })
  }

  #needCommits(): Commits {
    this.#checkOpen()
    if (this.#commits === null) throw invalid('there is nothing to commit to without a group')
    return this.#commits
  }

  #checkOpen(): void {
    if (this.#closed !== null) throw new PlayheadError('CLOSED', 'the consumer is closed')
  }
}
