/**
 * The client's half of a fetch session (KIP-227): the broker remembers which partitions are fetched from where, and a
 * request says only what changed since the one before. So a thousand idle partitions cost nothing.
 *
 * Pure: the source that owns it sends what `request` says. The broker counts requests too; whenever it and we may
 * disagree (an error, no answer) `reset` makes the next request a full one, which begins a new session.
 */
import type { Playhead } from './playhead.ts'

/** A partition as the last request left it at the broker. */
export interface SessionEntry {
  readonly playhead: Playhead
  /** The playhead's then. An answer is void when it has jumped since. */
  readonly epoch: number
  readonly fetchOffset: number
  readonly currentLeaderEpoch: number
  readonly lastFetchedEpoch: number
}

export interface SessionRequest {
  readonly sessionId: number
  readonly sessionEpoch: number
  readonly topics: readonly FetchTopic[]
  readonly forgottenTopicsData: readonly ForgottenTopic[]
}

interface FetchTopic {
  readonly topic: string
  readonly topicId: string
  readonly partitions: {
    partition: number
    fetchOffset: number
    currentLeaderEpoch: number
    lastFetchedEpoch: number
    partitionMaxBytes: number
  }[]
}

interface ForgottenTopic {
  readonly topic: string
  readonly topicId: string
  readonly partitions: number[]
}

export class FetchSession {
  #id = 0
  #epoch = 0
  /** What the broker has in the session, by topic id (or name) and partition. */
  readonly #entries = new Map<string, SessionEntry>()
  readonly #partitionMaxBytes: number

  constructor(partitionMaxBytes: number) {
    this.#partitionMaxBytes = partitionMaxBytes
  }

  /** How many partitions a fetch sent now would ask for, leaving changes aside. */
  get size(): number {
    return this.#entries.size
  }

  get id(): number {
    return this.#id
  }

  entry(topicOrId: string, partition: number): SessionEntry | undefined {
    return this.#entries.get(sessionKey(topicOrId, partition))
  }

  has(playhead: Playhead): boolean {
    return this.#entries.get(keyOf(playhead))?.playhead === playhead
  }

  /** Whether the broker would read `playhead` from where it is now. */
  isCurrent(playhead: Playhead): boolean {
    const entry = this.#entries.get(keyOf(playhead))
    return (
      entry !== undefined &&
      entry.playhead === playhead &&
      entry.epoch === playhead.epoch &&
      entry.fetchOffset === playhead.fetchOffset
    )
  }

  /** Whether the next request says everything. */
  get full(): boolean {
    return this.#epoch === 0
  }

  /**
   * The request in flight is given up for another, on another connection, though it reaches the broker first. The broker
   * counts it; its answer, whatever it is, must not be looked at.
   */
  superseded(): void {
    if (this.#epoch > 0) this.answered(this.#id)
    else this.reset()
  }

  /** The next request is a full one. */
  reset(): void {
    this.#id = 0
    this.#epoch = 0
    this.#entries.clear()
  }

  /**
   * The next request: of `changed`, those that `leaderEpochOf` gives a leader epoch for are fetched from where they are
   * now, the others no longer. A full request (after `reset`) must be given all that are to be fetched.
   */
  request(
    changed: Iterable<Playhead>,
    leaderEpochOf: (playhead: Playhead) => number | undefined
  ): SessionRequest {
    const topics = new Map<string, FetchTopic>()
    const forgotten = new Map<string, ForgottenTopic>()
    // A broker first adds what is asked for and then forgets. So a partition that went and came back between two requests
    // (its playhead is another) is only asked for: named in both lists, it would never be read again.
    const fetched: (readonly [Playhead, number])[] = []
    const others: Playhead[] = []
    for (const playhead of changed) {
      const leaderEpoch = leaderEpochOf(playhead)
      if (leaderEpoch !== undefined) fetched.push([playhead, leaderEpoch])
      else others.push(playhead)
    }
    for (const [playhead, leaderEpoch] of fetched) this.#fetch(playhead, leaderEpoch, topics)
    for (const playhead of others) this.#forget(playhead, forgotten)
    return {
      sessionId: this.#id,
      sessionEpoch: this.#epoch,
      topics: [...topics.values()],
      forgottenTopicsData: this.#epoch === 0 ? [] : [...forgotten.values()]
    }
  }

  /** An answer without an error came: the broker made, or goes on with, this session. 0: it keeps none for us. */
  answered(sessionId: number): void {
    if (sessionId === 0) return this.reset()
    this.#id = sessionId
    this.#epoch = this.#epoch === 2 ** 31 - 1 ? 1 : this.#epoch + 1
  }

  #fetch(playhead: Playhead, currentLeaderEpoch: number, topics: Map<string, FetchTopic>): void {
    const { topic, topicId, partition, epoch, fetchOffset } = playhead
    // The broker compares logs only while it hasn't under this leader (KIP-320).
    const verified = playhead.verifiedAt === currentLeaderEpoch
    const lastFetchedEpoch = verified ? -1 : playhead.leaderEpoch
    const key = keyOf(playhead)
    this.#entries.delete(key)
    this.#entries.set(key, { playhead, epoch, fetchOffset, currentLeaderEpoch, lastFetchedEpoch })
    let of = topics.get(topicId + topic)
    if (of === undefined) topics.set(topicId + topic, (of = { topic, topicId, partitions: [] }))
    of.partitions.push({
      partition,
      fetchOffset,
      currentLeaderEpoch,
      lastFetchedEpoch,
      partitionMaxBytes: this.#partitionMaxBytes
    })
  }

  #forget(playhead: Playhead, forgotten: Map<string, ForgottenTopic>): void {
    const { topic, topicId, partition } = playhead
    const key = keyOf(playhead)
    // A newer playhead of the same partition may have taken its place.
    if (this.#entries.get(key)?.playhead !== playhead) return
    this.#entries.delete(key)
    let of = forgotten.get(topicId + topic)
    if (of === undefined) forgotten.set(topicId + topic, (of = { topic, topicId, partitions: [] }))
    of.partitions.push(partition)
  }
}

export const zeroTopicId = 'AAAAAAAAAAAAAAAAAAAAAA'

function keyOf({ topic, topicId, partition }: Playhead): string {
  return sessionKey(topicId === zeroTopicId ? topic : topicId, partition)
}

function sessionKey(topicOrId: string, partition: number): string {
  return `${topicOrId}/${partition}`
}
