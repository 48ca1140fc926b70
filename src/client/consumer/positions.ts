/**
 * Where each partition starts. First that applies: what the group has committed (or, with a ledger of rewinds, what that
 * makes of it); the beginning, for a partition that appeared after the group did; `startFrom`.
 *
 * Nothing but an answer decides: while the coordinator or a leader cannot say, the question is asked again, and no
 * policy takes its place. A look-up carries the epoch of its playhead, so that one that comes late undoes no jump.
 *
 * Kafka doesn't say when a group began. A partition counts as newer than the group when the group has a commit for
 * another partition of its topic, or when this member saw the topic appear. For the first to be true even before
 * anything was processed, a start that came from `startFrom` is committed at once (unless that is 'earliest', which
 * finds the same again). See docs/decisions/consumer-new-partitions.md.
 */
import type { Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { noSequence, parseCommit } from '../../protocol/embedded/rewind-envelope.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import { backoffMs } from '../../rpc/retry.ts'
import { timestampOf } from '../time.ts'
import type { Committed } from './commits.ts'
import type { Events } from './events.ts'
import {
  committedOffsets,
  earliestTimestamp,
  type GroupOffset,
  latestTimestamp,
  lookUpOffsets
} from './offsets.ts'
import type { Settings } from './options.ts'
import { nameOf, partitionKey, type Place, type Playhead } from './playhead.ts'

type GroupOffsets = ReadonlyMap<string, GroupOffset>

/** Where a partition starts, and whether it is held there: a rewind that led to it is still to be announced. */
export interface StartPlace extends Place {
  readonly state: 'reading' | 'held'
}

/** What the ledger of rewinds has to say when partitions are assigned. */
export interface StartSeam {
  /** What the ledger holds of `playheads`, by partition key. Rejects when it cannot be known now: it is asked again. */
  entries(playheads: readonly Playhead[]): Promise<GroupOffsets>
  /**
   * The effective offset of each of `playheads`, given what the group has committed and what the ledger holds, by
   * partition key; those that have none are left out.
   */
  startPositions(
    playheads: readonly Playhead[],
    committed: GroupOffsets,
    entries: GroupOffsets
  ): ReadonlyMap<string, StartPlace>
  /** These start where `startPositions` said, unless the application sought something else before. */
  placed(playheads: ReadonlyMap<Playhead, StartPlace>): void
}

export interface PositionsHost {
  readonly cluster: Cluster
  readonly settings: Settings
  readonly events: Events
  readonly ledger: StartSeam | null
  /** This member saw the topic come into being. */
  readonly appeared: (topic: string) => boolean
  /** The group has this for it. */
  found(playhead: Playhead, committed: Committed): void
  /** A start that `startFrom` led to: to be committed before anything is processed. */
  started(playhead: Playhead): void
  /** Iterating tells the application. */
  trouble(error: PlayheadError): void
}

/** A playhead, and its epoch when the look-up began. */
interface Search {
  readonly playhead: Playhead
  readonly epoch: number
}

const backoff = { firstMs: 50, mostMs: 2_000 }

export class Positions {
  readonly #host: PositionsHost
  readonly #pending = new Set<Playhead>()
  /** Checks of positions that a broker said are outside the log. */
  readonly #checking = new Set<Playhead>()
  readonly #timers = new Set<Timer>()
  #flush: Timer | null = null
  readonly #closing = new AbortController()
  #closed = false

  constructor(host: PositionsHost) {
    this.#host = host
  }

  get #signal(): AbortSignal {
    return this.#closing.signal
  }

  /** `playhead` is in state locating: finds where `start` is. Those of one turn are asked for together. */
  locate(playhead: Playhead): void {
    if (this.#closed) return
    this.#pending.add(playhead)
    this.#flush ??= this.#host.cluster.env.clock.soon(() => {
      this.#flush = null
      const searches: Search[] = []
      for (const one of this.#pending) {
        if (one.state === 'locating') searches.push({ playhead: one, epoch: one.epoch })
      }
      this.#pending.clear()
      const committed = searches.filter(s => s.playhead.start === 'committed')
      const others = searches.filter(s => s.playhead.start !== 'committed')
      if (committed.length > 0) this.#run(committed, this.#committed(committed))
      if (others.length > 0) this.#run(others, this.#lookUp(others))
    })
  }

  close(): void {
    this.#closed = true
    this.#closing.abort()
    this.#flush?.cancel()
    for (const timer of this.#timers) timer.cancel()
    this.#pending.clear()
  }

  #run(searches: readonly Search[], work: Promise<void>): void {
    work.catch((error: unknown) => {
      if (!(error instanceof PlayheadError)) throw error
      if (error.code === 'CLOSED' || this.#closed) return
      if (error.code === 'AUTHORIZATION_FAILED') return this.#giveUp(searches, error)
      this.#again(searches)
    })
  }

  #giveUp(searches: readonly Search[], error: PlayheadError): void {
    for (const { playhead, epoch } of searches) if (isOpen({ playhead, epoch })) playhead.stick()
    this.#host.trouble(error)
  }

  /** Later, those that are still to be found. */
  #again(searches: readonly Search[]): void {
    const open = searches.filter(isOpen)
    if (open.length === 0) return
    let failures = 1
    for (const { playhead } of open) failures = Math.max(failures, ++playhead.failures)
    this.#after(backoffMs(this.#host.cluster.env.random, backoff, failures), () => {
      for (const search of open) if (isOpen(search)) this.locate(search.playhead)
    })
  }

  #after(ms: number, fire: () => void): void {
    if (this.#closed) return
    const timer = this.#host.cluster.env.clock.after(ms, () => {
      this.#timers.delete(timer)
      fire()
    })
    this.#timers.add(timer)
  }

  async #committed(searches: readonly Search[]): Promise<void> {
    const { cluster, settings, ledger } = this.#host
    const group = settings.group ?? ''
    const playheads = searches.map(s => s.playhead)
    // Both at once. Whoever had these has let go of them, and what it could still do to either was done before.
    const [{ found, unreadable }, entries] = await Promise.all([
      committedOffsets(cluster, group, playheads, this.#signal),
      ledger?.entries(playheads)
    ])
    for (const search of searches) {
      const error = unreadable.get(search.playhead.key)
      if (error?.code === 'AUTHORIZATION_FAILED') this.#giveUp([search], error)
    }
    const readable = searches.filter(s => !unreadable.has(s.playhead.key))
    const ours = readable.map(s => s.playhead)
    const places =
      ledger === null || entries === undefined
        ? placesOf(found)
        : ledger.startPositions(ours, found, entries)
    const without: Search[] = []
    const placed = new Map<Playhead, StartPlace>()
    for (const search of readable) {
      const { playhead, epoch } = search
      const place = places.get(playhead.key)
      if (place === undefined) without.push(search)
      else if (playhead.place(epoch, place, place.state)) {
        const committed = found.get(playhead.key)
        if (committed !== undefined) this.#host.found(playhead, committedOf(committed))
        placed.set(playhead, place)
      }
    }
    ledger?.placed(placed)
    this.#again(searches.filter(s => unreadable.has(s.playhead.key)))
    if (without.length > 0) await this.#uncommitted(without)
  }

  /** Nothing is committed: the beginning for what is newer than the group, `startFrom` for the rest. */
  async #uncommitted(searches: readonly Search[]): Promise<void> {
    const { settings, appeared } = this.#host
    const { startFrom } = settings
    const older = startFrom === 'earliest' ? new Set<string>() : await this.#topicsKnown(searches)
    for (const search of searches) {
      if (!isOpen(search)) continue
      const { playhead } = search
      if (playhead.goWhereSought()) continue
      const isNew = appeared(playhead.topic) || older.has(playhead.topic)
      playhead.start = isNew ? 'earliest' : startFrom
      this.locate(playhead)
    }
  }

  /** Those topics of `searches` of which, or of a former one of the name, the group has a commit for some partition. */
  async #topicsKnown(searches: readonly Search[]): Promise<ReadonlySet<string>> {
    const { cluster, settings } = this.#host
    const topics = new Map(searches.map(({ playhead }) => [playhead.topic, playhead.topicId]))
    const all = [...topics].flatMap(([topic, topicId]) => {
      const { partitions = [] } = cluster.metadata.topics.get(topic) ?? {}
      return partitions.map(({ partition }) => ({ topic, topicId, partition }))
    })
    const group = settings.group ?? ''
    const { found, unreadable, former } = await committedOffsets(cluster, group, all, this.#signal)
    const known = new Set<string>()
    for (const { topic, partition } of all) {
      const key = partitionKey(topic, partition)
      const error = unreadable.get(key)
      if (error !== undefined) throw error
      if (found.has(key) || former.has(key)) known.add(topic)
    }
    return known
  }

  async #lookUp(searches: readonly Search[]): Promise<void> {
    const { cluster, settings } = this.#host
    const now = cluster.env.clock.now()
    const wanted: (Search & { timestamp: number })[] = []
    for (const search of searches) {
      const { start } = search.playhead
      if (start === 'none') this.#nothingCommitted(search)
      else if (start !== 'committed')
        wanted.push({ ...search, timestamp: timestampFor(start, now) })
    }
    const answers = await lookUpOffsets(
      cluster,
      settings.readCommitted,
      wanted.map(({ playhead: { topic, partition }, timestamp }) => ({
        topic,
        partition,
        timestamp
      })),
      this.#signal
    )
    this.#again(wanted.filter(search => !this.#lookedUp(search, answers.get(search.playhead.key))))
  }

  /** False: it has to be asked again. */
  #lookedUp(search: Search, answer: number | PlayheadError | undefined): boolean {
    const { playhead, epoch } = search
    if (!isOpen(search)) return true
    if (typeof answer === 'number') {
      if (answer >= 0) {
        if (playhead.place(epoch, { offset: answer })) this.#host.started(playhead)
        return true
      }
      // No record is that young: the next one that is written will be.
      playhead.start = 'latest'
      this.locate(playhead)
      return true
    }
    const unknown = answer?.code === 'UNKNOWN_PARTITION'
    // The group gives out a partition as soon as there is one; brokers and we may hear of it later.
    if (unknown) this.#host.cluster.stale(`${nameOf(playhead)} is not known yet`)
    const inGroup = this.#host.settings.group !== null
    const final = answer?.code === 'AUTHORIZATION_FAILED' || (unknown && !inGroup)
    if (answer === undefined || !final) return false
    this.#giveUp([search], answer)
    return true
  }

  #nothingCommitted(search: Search): void {
    if (!isOpen(search)) return
    const { playhead } = search
    const { group } = this.#host.settings
    const { topic, partition } = playhead
    playhead.stick()
    this.#host.trouble(
      new PlayheadError(
        'OFFSET_OUT_OF_RANGE',
        `${nameOf(playhead)}: group '${group}' has nothing committed and startFrom is 'none': seek() says where to start`,
        { topic, partition, group: group ?? undefined }
      )
    )
  }

  /**
   * A broker says that the position is outside its log. It may be a replica that lags, so both ends are looked up. Below
   * the log: its start, as nothing that is still there may be skipped. Beyond it: its end, as the log was cut.
   */
  outOfRange(playhead: Playhead): void {
    if (this.#checking.has(playhead) || this.#closed) return
    this.#checking.add(playhead)
    const { epoch } = playhead
    playhead.backOff(true)
    const done = (): void => {
      this.#checking.delete(playhead)
      playhead.backOff(false)
    }
    this.#ends(playhead).then(
      ends => {
        if (playhead.epoch !== epoch || playhead.state !== 'reading') return done()
        const { fetchOffset } = playhead
        if (ends === undefined) return this.#after(500, done)
        const [start, end] = ends
        if (fetchOffset >= start && fetchOffset <= end) {
          // The log has it: what it cannot say is where the epoch of our last record ended.
          playhead.leaderEpoch = -1
          return this.#after(100, done)
        }
        this.#moveInto(playhead, start, end)
        done()
      },
      () => this.#after(500, done)
    )
  }

  #moveInto(playhead: Playhead, start: number, end: number): void {
    const { settings, events } = this.#host
    const { topic, partition, position: from } = playhead
    // Where a rewind led is no matter of the reset policy: retention may be faster than the rewind.
    const rewound = playhead.mark.sequence !== noSequence
    if (settings.startFrom === 'none' && !rewound) {
      const message = `${nameOf(playhead)}: offset ${from} is outside the log (${start} to ${end}) and startFrom is 'none'`
      playhead.stick()
      this.#host.trouble(new PlayheadError('OFFSET_OUT_OF_RANGE', message, { topic, partition }))
      return
    }
    const to = from < start ? start : end
    playhead.jump({ offset: to }, 'out of range')
    events.emit('moved', { topic, partition, from, to, why: 'out of range' })
  }

  async #ends(playhead: Playhead): Promise<readonly [number, number] | undefined> {
    const { cluster } = this.#host
    const { topic, partition, key } = playhead
    const ends: number[] = []
    for (const timestamp of [earliestTimestamp, latestTimestamp]) {
      const asked = [{ topic, partition, timestamp }]
      const answer = (await lookUpOffsets(cluster, false, asked, this.#signal)).get(key)
      if (typeof answer !== 'number') return undefined
      ends.push(answer)
    }
    const [start = -1, end = -1] = ends
    return [start, end]
  }

  /** The leader's log is another than what was read (KIP-320): what was read last ends at `endOffset` there. */
  diverged(playhead: Playhead, epoch: number, endOffset: number): void {
    const { settings, events } = this.#host
    const { topic, partition, position: from } = playhead
    if (endOffset < 0) return this.outOfRange(playhead)
    if (settings.startFrom === 'none' && endOffset < from) {
      const message = `${nameOf(playhead)}: the log was cut at ${endOffset}, below position ${from}: records that were read are lost`
      playhead.stick()
      this.#host.trouble(new PlayheadError('LOG_TRUNCATED', message, { topic, partition }))
      return
    }
    const to = Math.min(from, endOffset)
    playhead.jump({ offset: to, leaderEpoch: epoch }, 'truncated')
    if (to < from) events.emit('moved', { topic, partition, from, to, why: 'truncated' })
  }
}

function isOpen({ playhead, epoch }: Search): boolean {
  return playhead.epoch === epoch && playhead.state === 'locating'
}

function timestampFor(
  start: Exclude<Playhead['start'], 'none' | 'committed'>,
  now: number
): number {
  if (start === 'earliest') return earliestTimestamp
  if (start === 'latest') return latestTimestamp
  return timestampOf(start, now)
}

function committedOf({ offset, leaderEpoch, metadata }: GroupOffset): Committed {
  const { mark, application } = parseCommit(metadata)
  return {
    offset,
    leaderEpoch,
    mark: mark ?? { sequence: noSequence, from: null },
    metadata: application
  }
}

function placesOf(found: ReadonlyMap<string, GroupOffset>): ReadonlyMap<string, StartPlace> {
  const places = new Map<string, StartPlace>()
  for (const [key, committed] of found) {
    const { offset, leaderEpoch, mark } = committedOf(committed)
    places.set(key, { offset, leaderEpoch, mark, state: 'reading' })
  }
  return places
}
