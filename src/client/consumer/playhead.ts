/**
 * The playhead: one object for the position in one partition, for as long as this consumer has it. Records move it
 * forward. Everything else (a seek, a rewind, a replay's end, a truncated log, an offset out of range) goes through
 * `jump`, which does at once all that a jump must do:
 *
 *   - raises the epoch, which voids whatever carries the older one: fetches and look-ups in flight, commits not yet
 *     sent, the reports of handlers that still run;
 *   - drops what is buffered;
 *   - fires the signal of the handlers that run.
 *
 * So nobody else has to remember any of it. A partition that goes away and comes back gets a new playhead.
 */
import { assert } from '../../base/assert.ts'
import { type CommitMark, noSequence } from '../../protocol/embedded/rewind-envelope.ts'
import type { TopicPartition } from '../partition.ts'
import type { StartFrom } from './options.ts'
import type { FetchedChunk } from './chunk.ts'
import type { Batch } from './record.ts'

export type PlayheadState =
  /** Where to start is being found out. `place` leads to reading, a refusal to stuck. */
  | 'locating'
  /** Fetched and delivered. */
  | 'reading'
  /** A jump is not finished: nothing is fetched or delivered. `release` leads to reading. */
  | 'held'
  /** An error that only a seek gets out of: `jump` leads to reading or locating. */
  | 'stuck'
  /** To be given up: nothing is delivered any more, what was processed can still be committed. */
  | 'revoking'
  /** Given up or lost. Final. */
  | 'gone'

/** Why a position moved other than forward. */
export type JumpReason = 'seek' | 'rewind' | 'replay' | 'redelivery' | 'truncated' | 'out of range'

/** Where to look for the start. 'committed' falls back to the consumer's `startFrom`. */
export type Start = 'committed' | StartFrom

/** A place in the log. */
export interface Place {
  readonly offset: number
  /** The leader epoch of the record before it, where known (KIP-320). */
  readonly leaderEpoch?: number
  /** The rewind that led here; kept as it is when left out. */
  readonly mark?: CommitMark
}

/** Who has to know what happens to a playhead. */
export interface PlayheadHost {
  /** Whether, where or at which position it is to be fetched may have changed. */
  fetchingChanged(playhead: Playhead): void
  /** It may have become deliverable. */
  deliverable(playhead: Playhead): void
  /** Bytes were added to, or (negative) taken or dropped from, what is buffered. */
  buffered(playhead: Playhead, bytes: number): void
  /** It must be located. */
  locate(playhead: Playhead): void
  /** Nothing is in hand, and everything before `limit` has been delivered. */
  limitReached(playhead: Playhead): void
}

export function partitionKey(topic: string, partition: number): string {
  return `${topic}/${partition}`
}

export class Playhead implements TopicPartition {
  readonly topic: string
  readonly partition: number
  readonly key: string
  /** base64url; the zero uuid where the brokers have none. */
  readonly topicId: string
  /** Counts jumps. */
  epoch = 0
  state: PlayheadState = 'locating'
  start: Start
  /** By the application. */
  paused = false
  /** The next offset for the application; -1 while it is being located, unless it sought an offset. */
  position = -1
  /** It is delivered up to here for now: the end of a bounded replay. */
  limit = Infinity
  /** The next offset to ask the broker for: `position`, or what lies behind the buffer. */
  fetchOffset = -1
  /** The epoch of the leader that wrote what is before `fetchOffset`; -1 unknown. */
  leaderEpoch = -1
  /** Behind the last record that was processed since the last jump; -1: none was. */
  processed = -1
  processedLeaderEpoch = -1
  /** The rewind last applied to this partition of the group, which every commit of it carries. */
  mark: CommitMark = { sequence: noSequence, from: null }
  highWatermark = -1
  lastStableOffset = -1
  logStart = -1
  /** The epoch of what was first handed out since offsets were last taken for a transaction; -1: nothing was. */
  transactionEpoch = -1
  /** Where it stood when they were: while it stands there nothing was handed out since. -1: what was in hand still is. */
  #takenAt = -1
  /** Reports of work that an older epoch did: dropped. */
  droppedReports = 0
  /** A handler occupies it: what is buffered has to wait (`run`). */
  busy = false
  /** Reading has to wait, until a back-off is over. */
  backedOff = false
  failures = 0
  /** Its leader knows no topic with its id: deleted, or not yet heard of. */
  topicUnknown = false
  /** A replica nearby to read from (KIP-392), and until when. */
  replica: { readonly node: number; readonly until: number } | null = null
  /** The leader's epoch at which the log was last seen not to have been cut below us; -2: never. */
  verifiedAt = -2
  /** What is fetched and not yet delivered. */
  readonly chunks: FetchedChunk[] = []
  bufferedBytes = 0
  /** The rest of a batch that the application has not taken yet: it comes before `chunks`. */
  parked: Batch<never, never> | undefined

  readonly #host: PlayheadHost
  #inHand = 0
  #waiting: (() => void)[] = []
  #controller: AbortController | undefined
  /** The epoch of the jump that holds it; null: none does. A seek meanwhile moves it, and it stays held. */
  #heldBy: number | null = null
  /** Where the application sought while it was not known yet what the group has: it goes there with the group's mark. */
  #sought: Place | Exclude<Start, 'none'> | null = null
  /** What ended the epoch before. */
  #voided: JumpReason | 'lost' = 'seek'

  constructor(host: PlayheadHost, at: TopicPartition & { topicId: string }, start: Start) {
    this.#host = host
    this.topic = at.topic
    this.partition = at.partition
    this.topicId = at.topicId
    this.key = partitionKey(at.topic, at.partition)
    this.start = start
  }

  get alive(): boolean {
    return this.state !== 'gone'
  }

  /** Whether a record may be given to the application. */
  get delivers(): boolean {
    return this.state === 'reading' && !this.paused && this.position < this.limit
  }

  /** Whether there is something to deliver, once it may be. */
  get loaded(): boolean {
    return this.parked !== undefined || this.chunks.length > 0
  }

  get fetchable(): boolean {
    if (this.fetchOffset >= this.limit) return false
    return this.state === 'reading' && !this.paused && !this.backedOff
  }

  /** Fires when what runs now works for nothing: a jump, or the partition was lost. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    return this.#controller.signal
  }

  /** The signal for work of `epoch`: fired already, when that is over. */
  signalOf(epoch: number): AbortSignal {
    return epoch === this.epoch
      ? this.signal
      : AbortSignal.abort(new JumpedError(this, this.#voided))
  }

  /** Moves to `to`, or to where looking for it leads. The only way to move other than forward. */
  jump(
    to: Place | Exclude<Start, 'none'>,
    why: JumpReason,
    then: 'reading' | 'held' = 'reading'
  ): void {
    assert(this.state !== 'gone' && this.state !== 'revoking', 'only an owned partition jumps')
    // Without the mark, what is committed from there would count as from before every rewind that there was. Nothing
    // of this epoch is fetched or delivered: so there is nothing to be void.
    if (why === 'seek' && this.#unmarked) {
      this.#sought = to
      this.limit = Infinity
      this.position = typeof to === 'object' && 'offset' in to ? to.offset : -1
      return
    }
    this.#void(why)
    // What comes again because its handler failed is behind what was processed: that stays true.
    if (why !== 'redelivery') this.processed = this.processedLeaderEpoch = -1
    else if (typeof to === 'object' && 'offset' in to && this.processed > to.offset) {
      // Said to be done for a transaction that was then aborted.
      this.processed = to.offset
      this.processedLeaderEpoch = to.leaderEpoch ?? -1
    }
    this.failures = 0
    this.#sought = null
    if (then === 'held') this.#heldBy = this.epoch
    else if (why === 'rewind' || why === 'replay') this.#heldBy = null
    // Whoever seeks, leaves the replay; what only moves inside it, doesn't.
    if (why === 'seek' || why === 'rewind' || why === 'replay') this.limit = Infinity
    this.verifiedAt = -2
    this.#goTo(to)
  }

  #goTo(to: Place | Exclude<Start, 'none'>): void {
    if (typeof to === 'object' && 'offset' in to) {
      this.position = this.fetchOffset = to.offset
      this.leaderEpoch = to.leaderEpoch ?? -1
      this.mark = to.mark ?? this.mark
      this.state = this.#heldBy === null ? 'reading' : 'held'
    } else {
      this.position = this.fetchOffset = -1
      this.leaderEpoch = -1
      this.start = to
      this.state = 'locating'
      this.#host.locate(this)
    }
    this.#host.fetchingChanged(this)
    this.#checkLimit()
  }

  /** What the group has of it is being found out, and with it the mark of its commits. */
  get #unmarked(): boolean {
    return this.state === 'locating' && this.start === 'committed'
  }

  /** The application sought before it was known what the group has. */
  get sought(): boolean {
    return this.#sought !== null
  }

  /** What the group has is known. Goes where the application sought meanwhile, if it did. */
  goWhereSought(): boolean {
    const sought = this.#sought
    if (sought === null) return false
    this.#sought = null
    this.#goTo(sought)
    return true
  }

  /** A look-up that was begun at `epoch` found where to start. False: a jump came first, and has its own. */
  place(epoch: number, at: Place, then: 'reading' | 'held' = 'reading'): boolean {
    if (epoch !== this.epoch || this.state !== 'locating') return false
    if (then === 'held') {
      this.#heldBy = epoch
      // The rewind that led here was found after that.
      this.#sought = null
    }
    this.mark = at.mark ?? this.mark
    this.failures = 0
    if (!this.goWhereSought()) this.#goTo(at)
    return true
  }

  /** What was begun with `then: 'held'` at `epoch` goes on, unless another such came meanwhile. */
  release(epoch: number): void {
    if (epoch !== this.#heldBy) return
    this.#heldBy = null
    if (this.state !== 'held') return
    this.state = 'reading'
    this.#host.fetchingChanged(this)
    this.#host.deliverable(this)
    this.#checkLimit()
  }

  /** Nothing more can be read here before a seek. */
  stick(): void {
    if (this.state === 'reading' || this.state === 'locating') this.state = 'stuck'
    this.#host.fetchingChanged(this)
  }

  pause(paused: boolean): void {
    if (this.paused === paused) return
    this.paused = paused
    this.#host.fetchingChanged(this)
    if (!paused) this.#host.deliverable(this)
  }

  backOff(backedOff: boolean): void {
    this.backedOff = backedOff
    this.#host.fetchingChanged(this)
  }

  /** From here on nothing is delivered; handlers that run may end, and be committed. */
  beginRevoke(): void {
    if (this.state === 'gone') return
    this.state = 'revoking'
    this.#dropBuffer()
    this.#host.fetchingChanged(this)
  }

  /** What was handed out of `epoch` comes again from `offset` on, unless it has jumped, or is being given up, since. */
  redeliver(epoch: number, offset: number): void {
    if (this.epoch !== epoch || this.state !== 'reading') return
    this.jump({ offset, leaderEpoch: this.processedLeaderEpoch }, 'redelivery')
  }

  /** A rewind took effect while it is being given up: what it has processed and not committed is void. */
  overtake(): void {
    this.#void('rewind')
    this.processed = this.processedLeaderEpoch = -1
  }

  /** It is being given up, and that has waited long enough: what runs should end, and is still heard. */
  hurry(): void {
    this.#controller?.abort(new JumpedError(this, 'revoked'))
  }

  /** The end. `lost`: another may have it by now, so what runs works for nothing. */
  end(lost: boolean): void {
    if (this.state === 'gone') return
    this.state = 'gone'
    if (lost) this.#void('lost')
    else this.#dropBuffer()
    this.#host.fetchingChanged(this)
  }

  /** A fetch that was begun at `epoch` brought this. */
  add(chunk: FetchedChunk): void {
    assert(chunk.epoch === this.epoch, 'what is buffered is of the present epoch')
    this.chunks.push(chunk)
    this.bufferedBytes += chunk.bytes
    this.#host.buffered(this, chunk.bytes)
    this.#host.deliverable(this)
  }

  /** So many bytes of the buffer went to the application, or were passed over. */
  consumed(bytes: number): void {
    this.bufferedBytes -= bytes
    this.#host.buffered(this, -bytes)
  }

  get inHand(): number {
    return this.#inHand
  }

  /** The application has something of it. */
  handOut(): void {
    this.#inHand += 1
    if (this.inTransaction) return
    this.transactionEpoch = this.epoch
    this.#takenAt = -1
  }

  /** Whether something was handed out since offsets were last taken for a transaction. */
  get inTransaction(): boolean {
    return this.transactionEpoch >= 0 && (this.#takenAt < 0 || this.position !== this.#takenAt)
  }

  /** Whether something was handed out for the transaction that a jump, or losing the partition, has made void. */
  get voidInTransaction(): boolean {
    return this.inTransaction && (this.transactionEpoch !== this.epoch || !this.alive)
  }

  /**
   * The offsets of a transaction are taken: what is handed out from now on belongs to the next, with what is in hand
   * unless that is `done`. (A batch may be in hand record by record, without a word of each.)
   */
  nextTransaction(done: boolean): void {
    this.transactionEpoch = this.#inHand > 0 ? this.epoch : -1
    this.#takenAt = done ? this.position : -1
  }

  /** It has given it back, processed or not. */
  handBack(): void {
    assert(this.#inHand > 0, 'what is handed back was handed out')
    this.#inHand -= 1
    if (this.#inHand > 0) return
    this.#checkLimit()
    const waiting = this.#waiting
    if (waiting.length === 0) return
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }

  /** Resolves when the application has nothing of it in hand. */
  async free(): Promise<void> {
    while (this.#inHand > 0) await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  /** There is nothing for the application before `offset`: markers, aborted records, gaps of compaction. */
  passOver(offset: number): void {
    if (offset <= this.position) return
    if (this.#inHand === 0 && this.processed === this.position) this.processed = offset
    this.position = offset
    this.#checkLimit()
  }

  /** Nothing from `until` on is delivered for now. */
  limitTo(until: number): void {
    this.limit = until
    this.#checkLimit()
  }

  #checkLimit(): void {
    if (this.position < this.limit || this.#inHand > 0 || this.state !== 'reading') return
    this.#host.limitReached(this)
  }

  /** Everything before `offset` is processed, says work of `epoch`. */
  report(epoch: number, offset: number, leaderEpoch: number): void {
    if (epoch !== this.epoch || this.state === 'gone') {
      this.droppedReports += 1
      return
    }
    this.processed = offset
    this.processedLeaderEpoch = leaderEpoch
  }

  #void(why: JumpReason | 'lost'): void {
    if (!this.inTransaction) this.transactionEpoch = -1
    this.#takenAt = -1
    this.epoch += 1
    this.#voided = why
    this.#dropBuffer()
    this.#controller?.abort(new JumpedError(this, why))
    this.#controller = undefined
  }

  #dropBuffer(): void {
    this.chunks.length = 0
    this.parked = undefined
    const bytes = this.bufferedBytes
    this.bufferedBytes = 0
    if (bytes > 0) this.#host.buffered(this, -bytes)
  }
}

/** The reason of a handler's signal: what it does is no longer wanted. */
export class JumpedError extends Error {
  /** 'JumpedError': the reason of a handler's signal when its record was overtaken. */
  override readonly name = 'JumpedError'
  /** The topic's name. */
  readonly topic: string
  /** The partition's number, from 0. */
  readonly partition: number
  /** What moved the position; 'lost': the partition is another member's now; 'revoked': it is about to be. */
  readonly why: JumpReason | 'lost' | 'revoked'

  constructor(at: TopicPartition, why: JumpReason | 'lost' | 'revoked') {
    const what =
      why === 'lost'
        ? 'was lost to another member'
        : why === 'revoked'
          ? 'is to be given up'
          : `jumped (${why})`
    super(
      `${at.topic}[${at.partition}] ${what}: this record will be delivered again, or is not wanted`
    )
    this.topic = at.topic
    this.partition = at.partition
    this.why = why
  }
}

/** For messages: `orders[3]`. */
export function nameOf(at: TopicPartition): string {
  return `${at.topic}[${at.partition}]`
}
