/**
 * The owner's half of a live rewind (live-rewind.md). It reads the group's ledger: before a partition's first fetch,
 * for where to start, and then every `rewindCheckMs`, beside the heartbeats and never in a handler's way. On a new
 * entry its partitions jump, in one step, and are held while, one after the other,
 *
 *   - what runs on older records ends (its signal has fired), up to `rewindHandlerWaitMs`;
 *   - a commit on its way lands, and a transaction that already has offsets of them ends;
 *   - `onRewind` is awaited, up to `onRewindTimeoutMs`;
 *   - the target is committed with the new sequence: that is the acknowledgement its caller waits for. (In a group that
 *     a controller leads it was acknowledged by registering, and is not waited for.)
 *
 * Then they are delivered from the target. Partitions that are not in the entry notice nothing.
 *
 * The check doesn't back off while there are no rewinds: it is one small request a second, and backing off would break
 * the promise that a quiet group is rewound within `rewindCheckMs` (docs/decisions/0010-rewind-check.md).
 */
import type { Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { few } from '../../base/printable.ts'
import { effective, isNews, readCommit, readEntry, windowOf } from '../../group/ledger/position.ts'
import {
  endOf,
  noSequence,
  type ReplayWindow,
  type RewindEntry,
  type Sequence
} from '../../protocol/embedded/rewind-envelope.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import { fetchOffsets } from '../../rpc/groups.ts'
import { sleep } from '../../rpc/retry.ts'
import type { Commits } from './commits.ts'
import { Doubts } from './doubts.ts'
import type { Events } from './events.ts'
import { type GroupOffset, committedOffsets } from './offsets.ts'
import { nameOf, partitionKey, type Playhead } from './playhead.ts'
import type { StartPlace, StartSeam } from './positions.ts'
import { bySequence, Herald, isCurrent, type Move, type OnRewind } from './rewound.ts'

export interface RewinderSettings {
  readonly group: string
  readonly ledger: string
  readonly rewindCheckMs: number
  readonly rewindHandlerWaitMs: number
  readonly onRewindTimeoutMs: number
  readonly onRewind: OnRewind | null
}

export interface RewinderHost {
  readonly cluster: Cluster
  readonly settings: RewinderSettings
  readonly events: Events
  readonly commits: Commits
  playheads(): Iterable<Playhead>
  /** A controller leads the group and says what is rewound: there is no ledger. */
  led(): boolean
}

/** For the acknowledgement, before delivery goes on without it. It is still committed. */
const acknowledgeMs = 5_000
const checkTimeoutMs = 10_000
/** So many entries of others in the ledger cost more to read than our partitions to name. */
const crowdedAt = 100
/** For open transactions with offsets of rewound partitions to end: Kafka's default `transaction.timeout.ms`. */
const transactionWaitMs = 60_000
const stableLookMs = 50

export class Rewinder implements StartSeam {
  readonly #host: RewinderHost
  /** Partitions whose start or jump is not finished: the next waits for the one before. */
  readonly #turns = new Map<Playhead, Promise<void>>()
  /** Starts from an entry that are found and not yet taken. */
  readonly #starts = new Map<Playhead, Move>()
  readonly #doubts: Doubts
  readonly #herald: Herald
  readonly #closing = new AbortController()
  #timer: Timer | null = null
  #checking = false
  /** Look again as soon as the check under way is over. */
  #again = false
  /** Calls of `consumer.rewind` under way: they may come from inside a handler, which must not be waited for. */
  #ownCalls = 0
  /** It was said that the ledger may not be read. */
  #forbidden = false
  /** The ledger is mostly about partitions that are not ours: only ours are asked for. */
  #crowded = false
  /** Offsets of this consumer go into transactions. */
  #transactional = false

  constructor(host: RewinderHost) {
    this.#host = host
    this.#doubts = new Doubts(host.cluster, host.settings.group, host.commits)
    this.#herald = new Herald(host, this.#closing.signal)
  }

  start(): void {
    // Members that start together don't ask together.
    const { random } = this.#host.cluster.env
    this.#arm(this.#host.settings.rewindCheckMs * (0.5 + random.next() / 2))
  }

  close(): void {
    this.#timer?.cancel()
    this.#closing.abort(new PlayheadError('CLOSED', 'the consumer was closed'))
    this.#doubts.close()
  }

  /** Looks now instead of at the next tick. */
  checkNow(): void {
    if (this.#checking) this.#again = true
    else this.#arm(0)
  }

  /** While `call` runs, handlers are not waited for: one of them may be what waits for `call`. */
  async during<T>(call: () => Promise<T>): Promise<T> {
    this.#ownCalls += 1
    try {
      return await call()
    } finally {
      this.#ownCalls -= 1
    }
  }

  /** From now on, offsets of this consumer may be in a transaction that is still open. */
  transactional(): void {
    this.#transactional = true
  }

  // Led by a controller

  /** The controller has recorded these: they take effect here, as entries of a ledger would. */
  take(entries: ReadonlyMap<Playhead, RewindEntry>): void {
    this.#finishEach([...entries].map(([playhead, entry]) => this.#jump(playhead, entry)))
  }

  /** Is held, and goes on once the rewinds of it that are under way have ended. */
  releaseInTurn(playhead: Playhead): void {
    const { epoch } = playhead
    const turn = this.#turns.get(playhead)
    if (turn === undefined) playhead.release(epoch)
    else void turn.then(() => playhead.release(epoch))
  }

  /** A partition in the middle of a bounded replay, which another began. */
  bound(playhead: Playhead, window: ReplayWindow): void {
    playhead.mark = { ...playhead.mark, window }
    playhead.limitTo(window.until)
  }

  // Starting

  startPositions(
    playheads: readonly Playhead[],
    committed: ReadonlyMap<string, GroupOffset>,
    found: ReadonlyMap<string, GroupOffset>
  ): ReadonlyMap<string, StartPlace> {
    const { cluster } = this.#host
    const now = cluster.env.clock.now()
    const places = new Map<string, StartPlace>()
    for (const playhead of playheads) {
      const { key, epoch, topicId } = playhead
      const inGroup = committed.get(key)
      const inLedger = found.get(key)
      const commit = inGroup ? readCommit(inGroup.offset, inGroup.metadata) : null
      const entry = inLedger ? readEntry(inLedger.offset, inLedger.metadata, topicId) : null
      const at = effective(commit, entry, now)
      const { sequence, window } = at
      const mark = { sequence, from: at.from, window }
      // Whoever seeks, leaves a replay; unless it is only now found that there is to be one.
      if (window && (at.entry || !playhead.sought)) playhead.limitTo(window.until)
      if (at.offset === null) {
        playhead.mark = mark
        continue
      }
      const leaderEpoch = at.because === 'commit' ? (inGroup?.leaderEpoch ?? -1) : -1
      const state = at.entry ? 'held' : 'reading'
      places.set(key, { offset: at.offset, leaderEpoch, mark, state })
      if (at.because === 'external') this.#sayExternal(playhead, at.offset)
      this.#starts.delete(playhead)
      const { entry: its, from } = at
      const before = commit?.sequence ?? noSequence
      if (its) this.#starts.set(playhead, { playhead, epoch, entry: its, from, before })
    }
    return places
  }

  /** What the ledger holds of `playheads`. Without the right to read it, a consumer consumes, but isn't rewound. */
  async entries(playheads: readonly Playhead[]): Promise<ReadonlyMap<string, GroupOffset>> {
    const { cluster, settings } = this.#host
    try {
      const { found, unreadable } = await committedOffsets(cluster, settings.ledger, playheads)
      if (unreadable.size === 0) return found
      const message = `the ledger '${settings.ledger}' cannot be read at present`
      throw new PlayheadError('BROKER_ERROR', message, { retriable: true })
    } catch (error) {
      if (!(error instanceof PlayheadError) || error.code !== 'AUTHORIZATION_FAILED') throw error
      this.#sayForbidden(error)
      return new Map()
    }
  }

  #sayForbidden(cause: PlayheadError): void {
    if (this.#forbidden) return
    this.#forbidden = true
    const { group, ledger } = this.#host.settings
    const message = `group '${group}' cannot be rewound here: its member needs the right to read group '${ledger}'`
    const error = new PlayheadError('AUTHORIZATION_FAILED', message, { group, cause })
    this.#host.events.emit('error', { error })
  }

  /** They start where `startPositions` said. What came from an entry is from here on as if it had jumped there. */
  placed(playheads: ReadonlyMap<Playhead, StartPlace>): void {
    const moves: Move[] = []
    for (const [playhead, { offset, mark }] of playheads) {
      const move = this.#starts.get(playhead)
      this.#starts.delete(playhead)
      if (move) moves.push(move)
      // Who is behind a replay has gone on to where that ends, and commits this.
      else if (playhead.mark.sequence === mark?.sequence) this.#keepMark(playhead, offset)
    }
    this.#finishEach(moves)
  }

  /** What is committed says less than the ledger: of a replay whose time is over, for one. */
  #keepMark(playhead: Playhead, offset: number): void {
    const { commits } = this.#host
    if (commits.slot(playhead).acked?.mark.sequence === playhead.mark.sequence) return
    const { epoch } = playhead
    commits.want(playhead, { epoch, offset, leaderEpoch: -1 })
    commits.pump()
  }

  #sayExternal(playhead: Playhead, offset: number): void {
    const { cluster, settings } = this.#host
    const where = nameOf(playhead)
    cluster.env.log.info(`group '${settings.group}': ${where} was reset by another tool`, {
      offset
    })
  }

  // Checking

  #arm(ms: number): void {
    if (this.#closing.signal.aborted) return
    this.#timer?.cancel()
    this.#timer = this.#host.cluster.env.clock.after(ms, () => {
      this.#timer = null
      const { clock } = this.#host.cluster.env
      const startedAt = clock.monotonic()
      this.#checking = true
      this.#check()
        .catch((error: unknown) => this.#checkFailed(error))
        .finally(() => {
          this.#checking = false
          const spentMs = clock.monotonic() - startedAt
          this.#arm(this.#again ? 0 : Math.max(0, this.#host.settings.rewindCheckMs - spentMs))
          this.#again = false
        })
    })
  }

  #checkFailed(error: unknown): void {
    if (!(error instanceof PlayheadError)) throw error
    if (error.code === 'CLOSED') return
    // Nothing is lost: the entry is still there at the next check.
    const { cluster, settings } = this.#host
    cluster.env.log.debug(`the ledger or the group '${settings.group}' could not be read`, {
      error: error.message
    })
    if (error.code === 'AUTHORIZATION_FAILED') this.#sayForbidden(error)
  }

  async #check(): Promise<void> {
    const playheads = new Map<string, Playhead>()
    for (const playhead of this.#host.playheads()) {
      if (canJump(playhead)) playheads.set(playhead.key, playhead)
    }
    if (playheads.size === 0) return
    // The group's coordinator may be another broker, which hangs: that must not keep the ledger from being read.
    this.#doubts.look().catch((error: unknown) => this.#checkFailed(error))
    if (!this.#host.led()) await this.#lookForNews(playheads)
  }

  async #lookForNews(playheads: ReadonlyMap<string, Playhead>): Promise<void> {
    const { cluster, settings } = this.#host
    const partitions = this.#crowded ? [...playheads.values()] : null
    const query = [{ group: settings.ledger, partitions }]
    const [ledger] = await fetchOffsets(cluster, query, this.#waiting)
    if (ledger?.error) throw ledger.error
    this.#crowded ||= (ledger?.value.length ?? 0) > crowdedAt + playheads.size
    const now = cluster.env.clock.now()
    const moves: Move[] = []
    for (const { topic, partition, offset, metadata } of ledger?.value ?? []) {
      const playhead = playheads.get(partitionKey(topic, partition))
      if (playhead === undefined || !canJump(playhead)) continue
      const entry = readEntry(offset, metadata, playhead.topicId)
      if (!entry || !isNews(entry, playhead.mark.sequence, now)) continue
      moves.push(this.#jump(playhead, entry))
    }
    this.#finishEach(moves)
  }

  get #waiting(): { readonly timeoutMs: number; readonly signal: AbortSignal } {
    return { timeoutMs: checkTimeoutMs, signal: this.#closing.signal }
  }

  // Jumping

  #jump(playhead: Playhead, entry: RewindEntry): Move {
    const { sequence, target } = entry
    const from = this.#standsAt(playhead)
    // What a transaction holds is the group's once that has ended; and a controller has said where the group is.
    const isOurs = !this.#transactional && !this.#host.led()
    const window = windowOf(entry, isOurs ? from : null)
    const before = playhead.mark.sequence
    playhead.jump({ offset: target, mark: { sequence, from } }, 'rewind', 'held')
    if (window) this.bound(playhead, window)
    return { playhead, epoch: playhead.epoch, entry, from, before }
  }

  /** Everything before it is processed, or passed over by a rewind; null: nothing is known to be. */
  #standsAt(playhead: Playhead): number | null {
    const { processed, position, mark } = playhead
    if (processed >= 0) return processed
    const told = this.#host.commits.told(playhead)
    // From before a rewind that is being carried out: its target is where the group stands.
    const counts = told !== null && told.mark.sequence >= mark.sequence
    const offset = counts ? told.offset : position
    return offset < 0 ? null : offset
  }

  /** Each rewind by itself: none waits for the `onRewind` of another. */
  #finishEach(moves: readonly Move[]): void {
    for (const same of bySequence(moves)) this.#finish(same)
  }

  /** Takes moves of one rewind from the jump to delivery. A second rewind of a partition waits for its first. */
  #finish(moves: readonly Move[]): void {
    const before = moves.map(({ playhead }) => this.#turns.get(playhead))
    const work = Promise.all(before)
      .then(() => this.#settle(moves))
      .catch((error: unknown) => {
        if (!(error instanceof PlayheadError)) throw error
        if (error.code === 'CLOSED') return
        this.#host.events.emit('error', { error })
        // It has jumped, and its next commits say so: what failed must not hold it for ever.
        for (const { playhead, epoch } of moves) playhead.release(epoch)
      })
      .finally(() => {
        for (const { playhead } of moves) {
          if (this.#turns.get(playhead) === work) this.#turns.delete(playhead)
        }
      })
    for (const { playhead } of moves) this.#turns.set(playhead, work)
  }

  async #settle(moves: readonly Move[]): Promise<void> {
    const { commits } = this.#host
    await this.#handlersEnd(moves)
    for (const { playhead } of moves) await commits.landed(playhead)
    for (const move of moves) {
      const { playhead } = move
      for (const at of [commits.told(playhead), commits.acknowledged(playhead)]) {
        if (at !== null) this.#resumeAtLeast(move, at.offset, at.mark.sequence)
      }
    }
    await this.#transactionsEnd(moves)
    await this.#herald.announce(moves)
    const current = moves.filter(isCurrent)
    for (const { playhead, entry } of current) {
      // A seek meanwhile has moved the position; the rewind has still taken effect, and its caller is told so.
      const { epoch } = playhead
      commits.want(playhead, { epoch, offset: entry.target, leaderEpoch: -1 })
    }
    if (this.#host.led()) {
      // The controller has recorded the target, and takes no commit from before it: nobody waits for ours.
      commits.pump()
      this.#herald.say(current)
    } else await this.#acknowledge(current)
    for (const { playhead, epoch } of current) playhead.release(epoch)
  }

  async #acknowledge(moves: readonly Move[]): Promise<void> {
    const playheads = moves.map(({ playhead }) => playhead)
    try {
      await this.#host.commits.settle(playheads, acknowledgeMs)
      this.#herald.say(moves)
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
      // Lost: its next owner finds the entry, and the others are still to be acknowledged. Not answered: it is committed
      // again until it is.
      if (error.code === 'STALE_GENERATION') {
        const left = moves.filter(isCurrent)
        if (left.length < moves.length) await this.#acknowledge(left)
        return
      }
      if (error.code === 'CLOSED') return
      this.#host.events.emit('error', { error })
      this.#herald.say(moves.filter(isCurrent))
    }
  }

  async #handlersEnd(moves: readonly Move[]): Promise<void> {
    if (this.#ownCalls > 0) return
    const { rewindHandlerWaitMs } = this.#host.settings
    const free = Promise.all(moves.map(({ playhead }) => playhead.free()))
    if ((await this.#herald.within(rewindHandlerWaitMs, free)) || this.#ownCalls > 0) return
    const names = moves.filter(m => m.playhead.inHand > 0).map(m => nameOf(m.playhead))
    const message =
      `${few(names)}: a handler runs on, ${rewindHandlerWaitMs} ms after its signal fired for a rewind: ` +
      'it runs beside the records from the target on; what it says is processed is not committed'
    this.#host.events.emit('error', { error: new PlayheadError('PROCESSING_TIMEOUT', message) })
  }

  /**
   * Offsets that were sent into a transaction become the group's when it is committed, whenever that is: after the
   * acknowledgement they would take its place. So it comes after them. (Offsets that weren't sent yet never will
   * be: `transactionOffsets` throws, and the transaction is aborted.)
   */
  async #transactionsEnd(moves: readonly Move[]): Promise<void> {
    if (!this.#transactional) return
    const { cluster, settings } = this.#host
    const { clock } = cluster.env
    const deadline = clock.monotonic() + transactionWaitMs
    const current = moves.filter(isCurrent)
    const playheads = current.map(({ playhead }) => playhead)
    // While our own `rewind()` runs, the open transaction may be that which waits for it.
    while (this.#ownCalls === 0 && clock.monotonic() < deadline) {
      const committed = await this.#stable(playheads)
      if (committed !== null) {
        for (const move of current) {
          const inGroup = committed.get(move.playhead.key)
          const commit = inGroup ? readCommit(inGroup.offset, inGroup.metadata) : null
          if (commit?.sequence) this.#resumeAtLeast(move, commit.offset, commit.sequence)
        }
        return
      }
      await sleep(clock, stableLookMs, [this.#closing.signal])
    }
    this.#doubts.add(playheads)
    if (this.#ownCalls > 0) return
    const message = `group '${settings.group}': a transaction with offsets from before a rewind is open for ${transactionWaitMs} ms`
    this.#host.events.emit('error', { error: new PlayheadError('TIMED_OUT', message) })
  }

  /** What the group has committed; null while a transaction is open, or nobody answers. */
  async #stable(playheads: readonly Playhead[]): Promise<ReadonlyMap<string, GroupOffset> | null> {
    const { cluster, settings } = this.#host
    const { signal } = this.#closing
    try {
      const { found, unreadable } = await committedOffsets(
        cluster,
        settings.group,
        playheads,
        signal
      )
      return unreadable.size === 0 ? found : null
    } catch (error) {
      // Whatever keeps it from being known may pass: who holds the partitions gives it its time.
      if (error instanceof PlayheadError && error.code !== 'CLOSED') return null
      throw error
    }
  }

  // Bounded replay

  /** A seek back that is not committed moves the owner, not the group: behind the replay it goes on where that is. */
  #resumeAtLeast({ playhead, entry, before }: Move, offset: number, sequence: Sequence): void {
    const { mark } = playhead
    const { window } = mark
    if (!window || mark.sequence !== entry.sequence) return
    if (sequence >= entry.sequence || sequence < before) return
    const resume = Math.max(window.resume, offset)
    playhead.mark = { ...mark, window: { ...window, resume } }
  }

  /** Everything up to the limit is processed: the replay is over. */
  reached(playhead: Playhead): void {
    const { sequence, from, window } = playhead.mark
    if (!window || !canJump(playhead)) return
    const mark = { sequence: endOf(sequence), from }
    playhead.jump({ offset: window.resume, mark }, 'replay')
    const { epoch } = playhead
    this.#host.commits.want(playhead, { epoch, offset: window.resume, leaderEpoch: -1 })
    this.#host.commits.pump()
  }
}

/** Those that are being located for the group's offset read the ledger themselves. */
function canJump(playhead: Playhead): boolean {
  const { state, start } = playhead
  if (state === 'locating') return start !== 'committed'
  return state === 'reading' || state === 'held' || state === 'stuck'
}
