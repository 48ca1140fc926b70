/**
 * One source per broker: the inbox of the partitions that are read from it. It keeps one fetch in flight, and asks again
 * as soon as what the answer before has brought is half consumed: so the next answer travels while the application works,
 * and no more than that is held. `pump` is the only place that decides; events change state and call it.
 *
 * A fetch that waits at the broker for records must not hold up a partition that has just become readable (assigned,
 * resumed, jumped). Then a second one goes out on a connection beside the first, whose answer is ignored.
 */
import type { Env, Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { Fetch } from '../../protocol/api/fetch.ts'
import { KafkaError, kafkaErrorName } from '../../protocol/errors.ts'
import type { RequestOf, ResponseOf } from '../../protocol/schema.ts'
import type { Answer, LaneName, Rpc } from '../../rpc/call.ts'
import type { LeaderEndpoint, LeaderHint } from '../../rpc/metadata.ts'
import { backoffMs } from '../../rpc/retry.ts'
import { chunkOf } from './chunk.ts'
import type { Settings } from './options.ts'
import type { Playhead } from './playhead.ts'
import { FetchSession, type SessionEntry, type SessionRequest, zeroTopicId } from './session.ts'

type FetchResponse = ResponseOf<typeof Fetch>
type FetchedPartition = FetchResponse['responses'][number]['partitions'][number]

/** What a source asks of the rest of the consumer. */
export interface SourceHost {
  readonly env: Env
  readonly rpc: Rpc
  readonly settings: Settings
  /** Names the lanes of this consumer. */
  readonly lane: string
  /** Bytes fetched and not yet delivered, of all sources. */
  bufferedBytes(): number
  leaderEpoch(playhead: Playhead): number
  /** The metadata may be old: it says so. */
  stale(why: string): void
  /** A broker that leads some partitions no more said who does (KIP-951). */
  learned(hints: readonly LeaderHint[], endpoints: readonly LeaderEndpoint[]): void
  /** Another broker may be the one to read `playhead` from. */
  reroute(playhead: Playhead): void
  /** The broker knows no topic with its id: it was deleted, and may have been made anew. */
  unknown(playhead: Playhead): void
  outOfRange(playhead: Playhead): void
  /** The log differs from what was read: the epoch of the last record ends at `endOffset` (KIP-595). */
  diverged(playhead: Playhead, epoch: number, endOffset: number): void
  refused(playhead: Playhead, code: number): void
}

interface Flight {
  readonly lane: number
  readonly sentAt: number
  cancel(): void
}

const backoff = { firstMs: 50, mostMs: 1_000 }
/** A fetch that was answered within this would only be disturbed by a second. */
const supersedeAfterMs = 3
/** For so long after a fetch was given up, fetches wait at most so long. */
const restlessMs = 10_000
const restlessWaitMs = 250
/** How long a replica nearby is read from before the leader is asked again (KIP-392). */
const replicaMs = 300_000

export class Source {
  readonly node: number
  /** Of the answers that are not yet delivered. */
  bufferedBytes = 0
  readonly #host: SourceHost
  readonly #members = new Set<Playhead>()
  readonly #changed = new Set<Playhead>()
  readonly #session: FetchSession
  readonly #laneBusy = [false, false]
  #live: Flight | null = null
  readonly #flights = new Set<Flight>()
  readonly #timers = new Set<Timer>()
  readonly #backOffs = new Map<Playhead, Timer>()
  #supersedeTimer: Timer | null = null
  #supersededAt = -Infinity
  #resting = false
  #failures = 0
  #closed = false

  constructor(node: number, host: SourceHost) {
    this.node = node
    this.#host = host
    this.#session = new FetchSession(host.settings.partitionMaxBytes)
  }

  /** When the fetch in flight was sent; undefined: there is none. */
  get waitingSince(): number | undefined {
    return this.#live?.sentAt
  }

  get empty(): boolean {
    return this.#members.size === 0
  }

  add(playhead: Playhead): void {
    this.#members.add(playhead)
    this.bufferedBytes += playhead.bufferedBytes
    this.changed(playhead)
  }

  remove(playhead: Playhead): void {
    if (!this.#members.delete(playhead)) return
    this.bufferedBytes -= playhead.bufferedBytes
    this.#endBackOff(playhead)
    this.changed(playhead)
  }

  /** Whether or where `playhead` is to be fetched may have changed. */
  changed(playhead: Playhead): void {
    this.#changed.add(playhead)
    this.pump()
  }

  /** Bytes came to, or (negative) left the buffer. */
  buffered(playhead: Playhead, bytes: number): void {
    this.bufferedBytes += bytes
    if (bytes > 0) return
    if (!this.#session.has(playhead) && playhead.fetchable) this.#changed.add(playhead)
    this.pump()
  }

  close(): void {
    this.#closed = true
    for (const flight of this.#flights) flight.cancel()
    for (const timer of this.#timers) timer.cancel()
    for (const playhead of this.#backOffs.keys()) this.#endBackOff(playhead)
    this.#supersedeTimer?.cancel()
    this.#members.clear()
    this.#changed.clear()
  }

  pump(): void {
    if (this.#closed || this.#resting) return
    if (this.#live !== null && !this.#supersede()) return
    if (!this.#roomy()) return
    const lane = this.#laneBusy.indexOf(false)
    if (lane < 0) return
    const full = this.#session.full
    const request = this.#session.request(full ? this.#members : this.#changed, p => this.#wants(p))
    this.#changed.clear()
    if (this.#session.size === 0 && (full || request.forgottenTopicsData.length === 0)) {
      this.#session.reset()
      return
    }
    this.#send(lane, request)
  }

  /** Whether the fetch in flight is to be given up for one that reads more. */
  #supersede(): boolean {
    const { clock } = this.#host.env
    if (this.#live === null || !this.#laneBusy.includes(false)) return false
    let needed = false
    for (const playhead of this.#changed) {
      if (this.#wants(playhead) === undefined || this.#session.isCurrent(playhead)) continue
      needed = true
      break
    }
    if (!needed || !this.#roomy()) return false
    const waitMs = this.#live.sentAt + supersedeAfterMs - clock.monotonic()
    if (waitMs > 0) {
      this.#supersedeTimer ??= clock.after(waitMs, () => {
        this.#supersedeTimer = null
        this.pump()
      })
      return false
    }
    this.#live = null
    this.#supersededAt = clock.monotonic()
    this.#session.superseded()
    return true
  }

  /** Whether another answer may come. */
  #roomy(): boolean {
    const { settings } = this.#host
    const bufferedBytes = this.#host.bufferedBytes()
    const half = settings.fetchMaxBytes / 2
    if (this.bufferedBytes <= half && bufferedBytes < settings.bufferMaxBytes) return true
    // What nobody can take now (paused, or behind a slow handler) must not keep the others from being read.
    let takable = 0
    for (const p of this.#members) if (p.delivers && !p.busy) takable += p.bufferedBytes
    return takable === 0 || (takable <= half && bufferedBytes < settings.bufferMaxBytes)
  }

  /** The leader epoch to fetch `playhead` with; undefined: it is not to be fetched from here now. */
  #wants(playhead: Playhead): number | undefined {
    if (!playhead.fetchable || !this.#members.has(playhead)) return undefined
    if (playhead.bufferedBytes > this.#host.settings.partitionMaxBytes) return undefined
    if (playhead.chunks.at(-1)?.error) return undefined
    return this.#host.leaderEpoch(playhead)
  }

  /**
   * A fetch that is given up keeps its connection busy until it is answered. There are two: where partitions come and go,
   * a fetch waits so briefly that one of them is soon free.
   */
  #maxWaitMs(): number {
    const { env, settings } = this.#host
    const restless = env.clock.monotonic() - this.#supersededAt < restlessMs
    return restless ? Math.min(restlessWaitMs, settings.fetchMaxWaitMs) : settings.fetchMaxWaitMs
  }

  #send(lane: number, request: ReturnType<FetchSession['request']>): void {
    const { env, rpc, settings } = this.#host
    const name: LaneName = lane === 0 ? `fetch:${this.#host.lane}` : `fetch:${this.#host.lane}+`
    const named = request.topics.some(({ topicId }) => topicId === zeroTopicId)
    const call = rpc.send(
      Fetch,
      version => ({
        ...request,
        topics: version < 12 ? withoutLastEpoch(request.topics) : request.topics,
        maxWaitMs: this.#maxWaitMs(),
        minBytes: settings.fetchMinBytes,
        maxBytes: settings.fetchMaxBytes,
        isolationLevel: settings.readCommitted ? 1 : 0,
        rackId: settings.rackId ?? ''
      }),
      {
        to: { node: this.node },
        lane: name,
        timeoutMs: settings.fetchMaxWaitMs + 30_000,
        ...(named ? { maxVersion: 12 } : {})
      }
    )
    const flight: Flight = { lane, sentAt: env.clock.monotonic(), cancel: () => call.cancel() }
    this.#live = flight
    this.#flights.add(flight)
    this.#laneBusy[lane] = true
    call.response.then(
      answer => {
        this.#landed(flight)
        if (this.#live === flight) this.#answered(answer)
      },
      (error: unknown) => {
        this.#landed(flight)
        if (this.#live === flight) this.#failed(error)
      }
    )
  }

  #landed(flight: Flight): void {
    this.#flights.delete(flight)
    this.#laneBusy[flight.lane] = false
    // A partition that waits for a free lane to be asked for.
    if (this.#live !== flight) this.pump()
  }

  #answered(answer: Answer<typeof Fetch>): void {
    this.#live = null
    if (this.#closed) return
    const { body, version } = answer
    if (body.errorCode !== KafkaError.NONE) return this.#answeredWithError(body.errorCode)
    this.#failures = 0
    // What was asked is looked up first: a broker that keeps no session for us ends all that we know of it.
    const answered = this.#asked(body, version)
    this.#session.answered(body.sessionId)
    const hints: LeaderHint[] = []
    for (const [entry, fetched] of answered) {
      this.#partition(entry, fetched)
      const { leaderId: leader, leaderEpoch } = fetched.currentLeader
      const { topic, partition } = entry.playhead
      if (leader >= 0) hints.push({ topic, partition, leader, leaderEpoch })
    }
    if (hints.length > 0) this.#host.learned(hints, body.nodeEndpoints)
    this.pump()
  }

  /** The partitions of an answer, each with what was asked of it; others are not looked at. */
  #asked(body: FetchResponse, version: number): (readonly [SessionEntry, FetchedPartition])[] {
    const found: (readonly [SessionEntry, FetchedPartition])[] = []
    for (const topic of body.responses) {
      const named = version >= 13 ? topic.topicId : topic.topic
      for (const fetched of topic.partitions) {
        const entry =
          this.#session.entry(named, fetched.partitionIndex) ??
          this.#sent(topic, version, fetched.partitionIndex)
        if (entry !== undefined) found.push([entry, fetched])
      }
    }
    return found
  }

  /** Before version 13 an answer names topics, while sessions are kept by id. */
  #sent(
    topic: { topic: string; topicId: string },
    version: number,
    partition: number
  ): SessionEntry | undefined {
    if (version >= 13) return undefined
    for (const playhead of this.#members) {
      if (playhead.topic === topic.topic && playhead.partition === partition) {
        return this.#session.entry(playhead.topicId, partition)
      }
    }
    return undefined
  }

  #answeredWithError(code: number): void {
    this.#session.reset()
    switch (code) {
      case KafkaError.FETCH_SESSION_ID_NOT_FOUND:
      case KafkaError.INVALID_FETCH_SESSION_EPOCH:
      case KafkaError.FETCH_SESSION_TOPIC_ID_ERROR:
        break
      default:
        this.#host.stale(`a fetch was answered ${kafkaErrorName(code)}`)
    }
    // The first time at once; a broker that only refuses is not asked in a hot loop.
    if (this.#failures === 0) this.#failures = 1
    else return this.#rest()
    this.pump()
  }

  #failed(error: unknown): void {
    this.#live = null
    this.#session.reset()
    if (this.#closed) return
    if (!(error instanceof PlayheadError)) throw error
    if (error.code === 'CLOSED') return
    this.#host.stale(`fetching from broker ${this.node} failed: ${error.message}`)
    this.#rest()
  }

  #rest(): void {
    const { env } = this.#host
    this.#failures += 1
    this.#resting = true
    this.#after(backoffMs(env.random, backoff, this.#failures), () => {
      this.#resting = false
      this.pump()
    })
  }

  #partition(entry: SessionEntry, fetched: FetchedPartition): void {
    const { playhead } = entry
    // Void: it jumped, or is read from another broker by now, after this was asked for.
    if (!this.#members.has(playhead)) return
    if (playhead.epoch !== entry.epoch || playhead.fetchOffset !== entry.fetchOffset) return
    if (playhead.state !== 'reading') return
    if (fetched.errorCode !== KafkaError.NONE) return this.#partitionError(playhead, fetched)
    const { divergingEpoch } = fetched
    if (divergingEpoch.epoch >= 0 || divergingEpoch.endOffset >= 0) {
      this.#host.diverged(playhead, divergingEpoch.epoch, divergingEpoch.endOffset)
      return
    }
    playhead.verifiedAt = entry.currentLeaderEpoch
    playhead.failures = 0
    playhead.topicUnknown = false
    playhead.highWatermark = fetched.highWatermark
    playhead.lastStableOffset = fetched.lastStableOffset
    playhead.logStart = fetched.logStartOffset
    if (fetched.preferredReadReplica >= 0) {
      const until = this.#host.env.clock.monotonic() + replicaMs
      playhead.replica = { node: fetched.preferredReadReplica, until }
      return this.#host.reroute(playhead)
    }
    this.#records(entry, fetched)
  }

  #records({ playhead, epoch, fetchOffset }: SessionEntry, fetched: FetchedPartition): void {
    const chunk = chunkOf(epoch, fetched.records, fetched.abortedTransactions)
    if (chunk === undefined) return
    const last = chunk.views.at(-1)
    if (last !== undefined) {
      // A broker that answers with records from before the offset again and again would be a hot loop.
      if (last.nextOffset <= fetchOffset) return this.#backOff(playhead)
      playhead.fetchOffset = last.nextOffset
      playhead.leaderEpoch = last.leaderEpoch
    }
    this.#changed.add(playhead)
    playhead.add(chunk)
  }

  #partitionError(playhead: Playhead, { errorCode, currentLeader }: FetchedPartition): void {
    const name = kafkaErrorName(errorCode)
    switch (errorCode) {
      case KafkaError.OFFSET_OUT_OF_RANGE:
        if (playhead.replica === null) return this.#host.outOfRange(playhead)
        // A follower may lag behind what the leader gave us.
        playhead.replica = null
        return this.#host.reroute(playhead)
      case KafkaError.TOPIC_AUTHORIZATION_FAILED:
      case KafkaError.UNSUPPORTED_COMPRESSION_TYPE:
        return this.#host.refused(playhead, errorCode)
      case KafkaError.NOT_LEADER_OR_FOLLOWER:
      case KafkaError.FENCED_LEADER_EPOCH:
        playhead.replica = null
        this.#host.stale(
          `${playhead.topic}[${playhead.partition}]: ${name}, leader ${currentLeader.leaderId}`
        )
        return this.#backOff(playhead)
      case KafkaError.UNKNOWN_LEADER_EPOCH:
      case KafkaError.OFFSET_NOT_AVAILABLE:
        return this.#backOff(playhead)
      case KafkaError.UNKNOWN_TOPIC_ID:
      case KafkaError.INCONSISTENT_TOPIC_ID:
      case KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
        playhead.replica = null
        this.#host.stale(`${playhead.topic}[${playhead.partition}]: ${name}`)
        this.#backOff(playhead)
        return this.#host.unknown(playhead)
      default:
        playhead.replica = null
        this.#host.stale(`${playhead.topic}[${playhead.partition}]: ${name}`)
        return this.#backOff(playhead)
    }
  }

  #backOff(playhead: Playhead): void {
    playhead.failures += 1
    playhead.backOff(true)
    const { clock, random } = this.#host.env
    const ms = backoffMs(random, backoff, playhead.failures)
    this.#backOffs.get(playhead)?.cancel()
    const timer = clock.after(ms, () => {
      this.#backOffs.delete(playhead)
      playhead.backOff(false)
    })
    this.#backOffs.set(playhead, timer)
  }

  /** Of a partition that goes elsewhere: our timer must not be what it waits for, as it may go with us. */
  #endBackOff(playhead: Playhead): void {
    this.#backOffs.get(playhead)?.cancel()
    if (this.#backOffs.delete(playhead)) playhead.backedOff = false
  }

  #after(ms: number, fire: () => void): void {
    const timer = this.#host.env.clock.after(ms, () => {
      this.#timers.delete(timer)
      fire()
    })
    this.#timers.add(timer)
  }
}

/** Brokers before Kafka 2.7 don't compare logs as they answer a fetch (KIP-595). */
function withoutLastEpoch(topics: SessionRequest['topics']): RequestOf<typeof Fetch>['topics'] {
  return topics.map(({ partitions, ...topic }) => ({
    ...topic,
    partitions: partitions.map(({ lastFetchedEpoch: _, ...partition }) => partition)
  }))
}
