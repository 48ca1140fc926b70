/**
 * The parts of a consumer, made and wired together: which part tells which of what. Each knows one thing, and nothing of
 * the others but what is said here.
 */
import { assert } from '../../base/assert.ts'
import { PlayheadError } from '../../base/error.ts'
import { rewindableMark } from '../../protocol/embedded/rewind-envelope.ts'
import type { LaneName } from '../../rpc/call.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import { Assignment } from './assignment.ts'
import { Unpacker } from './chunk.ts'
import { Commits } from './commits.ts'
import { decodingOf } from './decoding.ts'
import { Delivery } from './delivery.ts'
import { unreadable } from './errors.ts'
import { Events } from './events.ts'
import { Fetcher } from './fetcher.ts'
import { Group, type GroupHost } from './group.ts'
import { LedRewinds } from './led-rewinds.ts'
import { invalid, type Settings } from './options.ts'
import type { Playhead } from './playhead.ts'
import { Positions } from './positions.ts'
import { Rewinder } from './rewind.ts'
import { stallFactsOf } from './stall.ts'
import { uuid } from './uuid.ts'
import { Vigil } from './vigil.ts'

let instances = 0

/** The consumer, as its parts see it. */
export interface PartsHost {
  /** Fires when it is closed. */
  readonly closing: AbortSignal
  /** The application asks for more. */
  asked(): void
}

export class Parts<K, V> {
  readonly cluster: Cluster
  readonly settings: Settings
  readonly events: Events
  /** Names the lanes of this consumer. */
  readonly lane: string
  readonly delivery: Delivery<K, V>
  readonly fetcher: Fetcher
  readonly positions: Positions
  readonly commits: Commits | null
  readonly group: Group | null
  readonly assignment: Assignment
  readonly vigil: Vigil
  readonly rewinder: Rewinder | null
  readonly #host: PartsHost

  constructor(cluster: Cluster, settings: Settings, host: PartsHost) {
    this.cluster = cluster
    this.settings = settings
    this.#host = host
    this.lane = `consumer-${++instances}`
    this.events = new Events(cluster.env.log, settings.group ?? 'consumer')
    this.delivery = this.#makeDelivery()
    this.fetcher = this.#makeFetcher()
    const { group } = settings
    const lane = `group:${this.lane}` as const
    this.group = group === null ? null : this.#makeGroup(group, lane)
    this.commits = group === null ? null : this.#makeCommits(group, lane)
    this.rewinder = this.#makeRewinder()
    this.positions = this.#makePositions()
    this.assignment = this.#makeAssignment()
    this.vigil = this.#makeVigil()
  }

  /** Throws CLOSED, and INVALID_ARGUMENT without a group. */
  needCommits(): Commits {
    if (this.#host.closing.aborted) throw new PlayheadError('CLOSED', 'the consumer is closed')
    if (this.commits === null) throw invalid('there is nothing to commit to without a group')
    return this.commits
  }

  /** Ends its connections. */
  endLanes(): void {
    this.cluster.endLane(`fetch:${this.lane}`)
    this.cluster.endLane(`fetch:${this.lane}+`)
    this.cluster.endLane(`group:${this.lane}`)
  }

  #makeDelivery(): Delivery<K, V> {
    const { env } = this.cluster
    const host = {
      env,
      aliveUntil: () => this.group?.aliveUntil ?? Infinity,
      asked: () => this.#host.asked(),
      expired: () => this.group?.doubted()
    }
    const decoding = decodingOf(this.settings, this.events, () => this.needCommits())
    return new Delivery(host, new Unpacker<K, V>(env.cpu, this.settings, decoding))
  }

  #makeFetcher(): Fetcher {
    const cluster = this.cluster
    return new Fetcher({
      env: cluster.env,
      rpc: cluster,
      settings: this.settings,
      lane: this.lane,
      metadata: () => cluster.metadata,
      prepare: node => cluster.prepare(node, `fetch:${this.lane}`),
      stale: why => cluster.stale(why),
      learned: (hints, endpoints) => cluster.learned(hints, endpoints),
      madeAnew: (playhead, topicId) => {
        // Where the coordinator assigns topics by id, it takes the one away and gives the other.
        if (this.group?.byId !== true) this.assignment.replace(playhead, topicId)
      },
      outOfRange: playhead => this.positions.outOfRange(playhead),
      diverged: (playhead, epoch, end) => this.positions.diverged(playhead, epoch, end),
      refused: (playhead, code) => {
        playhead.stick()
        this.#trouble(unreadable(playhead, code))
      }
    })
  }

  #makeGroup(group: string, lane: GroupHost['lane']): Group {
    const { cpu } = this.cluster.env
    return new Group(
      {
        cluster: this.cluster,
        settings: this.settings,
        events: this.events,
        group,
        lane,
        closing: this.#host.closing,
        name: this.lane,
        assign: partitions => this.assignment.assign(partitions, () => 'committed'),
        assignAt: partitions => this.#ledRewinds().assign(partitions),
        halt: partitions => this.#ledRewinds().halt(partitions),
        move: partitions => this.#ledRewinds().move(partitions),
        revoke: partitions => this.assignment.revoke(partitions),
        lose: (partitions, why) => this.assignment.lose(partitions, why),
        confirmed: () => {
          this.delivery.wake()
          this.commits?.pump()
        },
        failed: error => this.fail(error)
      },
      `${this.settings.rewind === null ? '' : rewindableMark}${uuid(cpu.randomBytes(16))}`
    )
  }

  #ledRewinds(): LedRewinds {
    const { commits } = this
    assert(commits, 'who is in a group commits to it')
    return new LedRewinds({
      clock: this.cluster.env.clock,
      settings: this.settings,
      assignment: this.assignment,
      commits,
      rewinder: this.rewinder
    })
  }

  #makeCommits(group: string, lane: LaneName): Commits {
    return new Commits({
      env: this.cluster.env,
      rpc: this.cluster,
      group,
      lane,
      identity: () => this.group?.identity,
      expelled: () => this.group?.doubted(),
      gone: ({ topic, topicId }) => {
        if (this.cluster.metadata.topics.get(topic)?.topicId !== topicId) return true
        this.cluster.stale(`the coordinator knows no topic ${topic}`)
        return false
      },
      acked: offsets => {
        if (this.events.has('committed')) this.events.emit('committed', { offsets })
      },
      failed: error => this.events.emit('error', { error })
    })
  }

  #makeRewinder(): Rewinder | null {
    const { rewind: settings } = this.settings
    const commits = this.commits
    if (settings === null || commits === null) return null
    return new Rewinder({
      cluster: this.cluster,
      settings,
      events: this.events,
      commits,
      playheads: () => this.assignment.playheads(),
      led: () => this.group?.led ?? false
    })
  }

  #makePositions(): Positions {
    return new Positions({
      cluster: this.cluster,
      settings: this.settings,
      events: this.events,
      ledger: this.rewinder,
      appeared: topic => this.assignment.madeAnew(topic) || (this.group?.appeared(topic) ?? false),
      found: (playhead, committed) => this.commits?.found(playhead, committed),
      started: playhead => this.#startFound(playhead),
      trouble: error => this.#trouble(error)
    })
  }

  /** A start by policy is committed at once: it says that the group knows this partition (see positions.ts). */
  #startFound(playhead: Playhead): void {
    const { startFrom } = this.settings
    if (this.commits === null || startFrom === 'earliest' || playhead.epoch > 0) return
    const { epoch, position: offset, leaderEpoch } = playhead
    this.commits.want(playhead, { epoch, offset, leaderEpoch })
    this.commits.pump()
  }

  #makeAssignment(): Assignment {
    return new Assignment({
      clock: this.cluster.env.clock,
      settings: this.settings,
      events: this.events,
      commits: this.commits,
      playheads: {
        fetchingChanged: playhead => this.fetcher.changed(playhead),
        deliverable: playhead => this.delivery.deliverable(playhead),
        buffered: (playhead, bytes) => this.fetcher.buffered(playhead, bytes),
        locate: playhead => {
          this.positions.locate(playhead)
          this.fetcher.expect(playhead)
        },
        limitReached: playhead => this.rewinder?.reached(playhead)
      },
      forget: playhead => this.delivery.forget(playhead),
      wake: () => this.delivery.wake(),
      report: (error, what) => this.report(error, what)
    })
  }

  #makeVigil(): Vigil {
    const [delivery, settings, assignment] = [this.delivery, this.settings, this.assignment]
    const witnesses = { settings, delivery, assignment, group: this.group, fetcher: this.fetcher }
    return new Vigil({
      clock: this.cluster.env.clock,
      settings: this.settings,
      events: this.events,
      inHandSince: () => delivery.reader?.inHandSince() ?? Infinity,
      lastAt: () => delivery.lastAt,
      stallFacts: (now, forMs) => stallFactsOf(witnesses, now, forMs),
      commit: () => {
        this.commits?.wantProcessed(this.assignment.playheads())
        this.commits?.pump()
      },
      overdue: () => this.group?.overdue(),
      caughtUp: () => this.group?.caughtUp()
    })
  }

  #trouble(error: PlayheadError): void {
    this.events.emit('error', { error })
    this.delivery.trouble(error)
  }

  /** Whoever reads from now on is told. */
  fail(error: PlayheadError): void {
    this.events.emit('error', { error })
    this.delivery.fail(error)
  }

  /** Something went wrong that nobody waits to hear of. */
  report(error: PlayheadError, what: string): void {
    this.cluster.env.log.warn(`${this.settings.group}: ${what}`, { error: error.message })
    this.events.emit('error', { error })
  }
}
