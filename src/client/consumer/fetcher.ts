/**
 * Routes playheads to sources: each is read from its leader, or from a replica nearby, wherever that is by now.
 */
import type { Metadata } from '../../rpc/metadata.ts'
import type { Playhead } from './playhead.ts'
import { zeroTopicId } from './session.ts'
import { Source, type SourceHost } from './source.ts'

export interface FetcherHost
  extends Omit<SourceHost, 'leaderEpoch' | 'reroute' | 'bufferedBytes' | 'unknown'> {
  metadata(): Metadata
  /** Opens a connection for fetching from a broker. */
  prepare(node: number): void
  /** The topic of `playhead` is no more: another has its name now. */
  madeAnew(playhead: Playhead, topicId: string): void
}

export class Fetcher {
  /** Fetched and not yet delivered. */
  bufferedBytes = 0
  readonly #host: FetcherHost
  readonly #sources = new Map<number, Source>()
  readonly #placed = new Map<Playhead, Source>()
  /** Those that have no leader at present. */
  readonly #homeless = new Set<Playhead>()
  readonly #sourceHost: SourceHost
  #closed = false

  constructor(host: FetcherHost) {
    this.#host = host
    this.#sourceHost = {
      env: host.env,
      rpc: host.rpc,
      settings: host.settings,
      lane: host.lane,
      bufferedBytes: () => this.bufferedBytes,
      leaderEpoch: playhead => this.#leader(playhead)?.leaderEpoch ?? -1,
      stale: why => host.stale(why),
      learned: (hints, endpoints) => host.learned(hints, endpoints),
      reroute: playhead => this.changed(playhead),
      unknown: playhead => {
        playhead.topicUnknown = true
        this.#lookForAnother(playhead)
      },
      outOfRange: playhead => host.outOfRange(playhead),
      diverged: (playhead, epoch, endOffset) => host.diverged(playhead, epoch, endOffset),
      refused: (playhead, code) => host.refused(playhead, code)
    }
  }

  get homeless(): ReadonlySet<Playhead> {
    return this.#homeless
  }

  /** The longest that a fetch in flight has been waiting for its answer, in ms. */
  longestWaitMs(): number {
    const now = this.#host.env.clock.monotonic()
    let longest = 0
    for (const { waitingSince } of this.#sources.values()) {
      if (waitingSince !== undefined) longest = Math.max(longest, now - waitingSince)
    }
    return longest
  }

  /** Whether, where or from which offset it is to be fetched may have changed. */
  changed(playhead: Playhead): void {
    if (this.#closed) return
    const before = this.#placed.get(playhead)
    const source = playhead.alive ? this.#sourceOf(playhead) : undefined
    if (!playhead.alive) this.#homeless.delete(playhead)
    if (source === before) {
      before?.changed(playhead)
      return
    }
    before?.remove(playhead)
    if (before?.empty) this.#drop(before)
    if (source === undefined) {
      this.#placed.delete(playhead)
      return
    }
    this.#placed.set(playhead, source)
    source.add(playhead)
  }

  /** It is being located: its broker is connected to meanwhile. */
  expect(playhead: Playhead): void {
    const node = this.#leader(playhead)?.leader ?? -1
    if (node < 0 || this.#closed || this.#sources.has(node)) return
    this.#host.prepare(node)
  }

  buffered(playhead: Playhead, bytes: number): void {
    this.bufferedBytes += bytes
    this.#placed.get(playhead)?.buffered(playhead, bytes)
  }

  /** New metadata: leaders may have moved. */
  reroute(playheads: readonly Playhead[]): void {
    for (const playhead of playheads) {
      if (playhead.topicUnknown) this.#lookForAnother(playhead)
      const node = this.#nodeOf(playhead)
      // Without a leader still: it is looked for again.
      if (node === undefined || this.#placed.get(playhead)?.node !== node) this.changed(playhead)
    }
  }

  /**
   * Only once its leader has said that it knows no such topic: a broker that lags may name the topic that was there
   * before ours.
   */
  #lookForAnother(playhead: Playhead): void {
    const topicId = this.#host.metadata().topics.get(playhead.topic)?.topicId ?? playhead.topicId
    if (topicId === playhead.topicId || topicId === zeroTopicId || !playhead.alive) return
    this.#host.madeAnew(playhead, topicId)
  }

  close(): void {
    this.#closed = true
    for (const source of this.#sources.values()) source.close()
    this.#sources.clear()
    this.#placed.clear()
    this.#homeless.clear()
  }

  #drop(source: Source): void {
    source.close()
    this.#sources.delete(source.node)
  }

  #sourceOf(playhead: Playhead): Source | undefined {
    const node = this.#nodeOf(playhead)
    if (node === undefined) {
      if (playhead.state === 'reading') {
        this.#homeless.add(playhead)
        this.#host.stale(`${playhead.topic}[${playhead.partition}] has no known leader`)
      }
      return undefined
    }
    this.#homeless.delete(playhead)
    let source = this.#sources.get(node)
    if (source === undefined) {
      source = new Source(node, this.#sourceHost)
      this.#sources.set(node, source)
    }
    return source
  }

  #nodeOf(playhead: Playhead): number | undefined {
    const { replica } = playhead
    const { env } = this.#host
    if (replica !== null) {
      const { brokers } = this.#host.metadata()
      if (env.clock.monotonic() < replica.until && brokers.has(replica.node)) {
        return replica.node
      }
      playhead.replica = null
    }
    const leader = this.#leader(playhead)?.leader ?? -1
    return leader < 0 ? undefined : leader
  }

  #leader(playhead: Playhead) {
    return this.#host.metadata().topics.get(playhead.topic)?.partitions[playhead.partition]
  }
}
