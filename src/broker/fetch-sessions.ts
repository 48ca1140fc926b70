/**
 * Fetch sessions (KIP-227): what a client's last full Fetch asked of one broker is remembered, so that the next ones
 * say only what changed, and are told only of partitions that have something new.
 *
 * Of a session one request counts, the last. One that still waits for data when the next comes (on another connection, as
 * a client does after a seek or a rewind) is answered at once, with nothing: whoever sent it doesn't look at it any more,
 * and has its connection back.
 *
 * A session is the broker's favour: it may be forgotten at any time, and the client begins a new one.
 */
import type { Random } from '../base/env.ts'
import { KafkaError } from '../protocol/errors.ts'

/** Sessions per broker, as Kafka's `max.incremental.fetch.session.cache.slots`. */
const sessionCount = 1_000
/** A session that was used within this is not given up for a new one. */
const evictAfterMs = 120_000
const lastEpoch = 0x7fffffff

/** A partition as a client asks for it, and what it was last told. */
export interface FetchPartition {
  readonly topic: string
  readonly topicId: string
  readonly index: number
  readonly fetchOffset: number
  readonly maxBytes: number
  readonly currentLeaderEpoch: number
  readonly lastFetchedEpoch: number
  told?: { readonly highWatermark: number; readonly logStartOffset: number } | undefined
}

export interface FetchSession {
  readonly id: number
  /** Of the next request; -1: it is over. */
  epoch: number
  /** Ends the wait of its last request. */
  endWait: (() => void) | undefined
  usedAt: number
  /** In the order in which they are served: who got data goes to the end. */
  readonly partitions: Map<string, FetchPartition>
}

export interface FetchOrder {
  readonly sessionId: number
  readonly sessionEpoch: number
  readonly partitions: readonly FetchPartition[]
  readonly forgotten: readonly string[]
}

/** What is to be served: in a session only news are told. Or an error for the whole answer. */
export type FetchPlan =
  | { readonly fault: number }
  | {
      readonly fault: undefined
      readonly session: FetchSession | undefined
      /** Whether partitions without news are left out. */
      readonly incremental: boolean
      readonly partitions: readonly FetchPartition[]
    }

export function partitionKeyOf(topic: string, topicId: string, index: number): string {
  return `${topicId}/${topic}/${index}`
}

export class FetchSessions {
  readonly #random: Random
  readonly #sessions = new Map<number, FetchSession>()

  constructor(random: Random) {
    this.#random = random
  }

  plan(order: FetchOrder, now: number): FetchPlan {
    const { sessionId, sessionEpoch } = order
    if (sessionEpoch === -1 || sessionEpoch === 0) {
      // -1: the session ends, or there is none; 0: a new one is to begin.
      this.#end(sessionId)
      const session = sessionEpoch === 0 ? this.#begin(order.partitions, now) : undefined
      const { partitions } = order
      return { fault: undefined, session, incremental: false, partitions }
    }
    const session = this.#sessions.get(sessionId)
    if (session === undefined) return { fault: KafkaError.FETCH_SESSION_ID_NOT_FOUND }
    if (session.epoch !== sessionEpoch) return { fault: KafkaError.INVALID_FETCH_SESSION_EPOCH }
    session.epoch = session.epoch === lastEpoch ? 1 : session.epoch + 1
    session.usedAt = now
    session.endWait?.()
    for (const key of order.forgotten) session.partitions.delete(key)
    for (const partition of order.partitions) {
      const key = keyOf(partition)
      session.partitions.set(key, { ...partition, told: session.partitions.get(key)?.told })
    }
    // The most recently used is last.
    this.#sessions.delete(sessionId)
    this.#sessions.set(sessionId, session)
    const partitions = [...session.partitions.values()]
    return { fault: undefined, session, incremental: true, partitions }
  }

  /**
   * Who got data is served after the others next time. As it is in the session by now: while a fetch waited, a later
   * one of the same session, by another connection, may have sent the partition elsewhere (a seek, a rewind), and
   * where the first one read must not be where the next one does.
   */
  served(session: FetchSession, partition: FetchPartition): void {
    const key = keyOf(partition)
    const current = session.partitions.get(key)
    if (current === undefined) return
    session.partitions.delete(key)
    session.partitions.set(key, current)
  }

  #end(id: number): void {
    const session = this.#sessions.get(id)
    if (session === undefined) return
    this.#sessions.delete(id)
    session.epoch = -1
    session.endWait?.()
  }

  #begin(partitions: readonly FetchPartition[], now: number): FetchSession | undefined {
    if (this.#sessions.size >= sessionCount && !this.#evict(now)) return undefined
    let id = 0
    while (id === 0 || this.#sessions.has(id)) id = 1 + Math.floor(this.#random.next() * lastEpoch)
    const map = new Map(partitions.map(partition => [keyOf(partition), partition]))
    const session = { id, epoch: 1, endWait: undefined, usedAt: now, partitions: map }
    this.#sessions.set(id, session)
    return session
  }

  #evict(now: number): boolean {
    for (const [id, session] of this.#sessions) {
      if (now - session.usedAt < evictAfterMs) return false
      return this.#sessions.delete(id)
    }
    return false
  }
}

function keyOf({ topic, topicId, index }: FetchPartition): string {
  return partitionKeyOf(topic, topicId, index)
}
