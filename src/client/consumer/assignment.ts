/**
 * The partitions that a consumer has: a playhead for each, from the moment it is given until it is given up. In order,
 * when the group asks for it back: nothing more is delivered, what runs may end, what was processed is committed, then
 * it is let go. Or at once, when it is lost.
 */
import type { Clock, Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { encodeCommit } from '../../protocol/embedded/rewind-envelope.ts'
import type { TransactionOffsets } from '../transaction-offsets.ts'
import type { CommitIdentity, Commits } from './commits.ts'
import { staleInTransaction } from './errors.ts'
import type { Events } from './events.ts'
import type { TopicIdPartition } from './offsets.ts'
import type { TopicPartition } from '../partition.ts'
import { invalid, type Settings } from './options.ts'
import {
  nameOf,
  partitionKey,
  type Place,
  Playhead,
  type PlayheadHost,
  type Start
} from './playhead.ts'
import { zeroTopicId } from './session.ts'

/** How far a consumer is behind in a partition. */
export interface PartitionLag extends TopicPartition {
  /** Offsets between the position and the end, those that hold no record included; null: not known yet. */
  readonly lag: number | null
}

export interface AssignmentHost {
  readonly clock: Clock
  readonly settings: Settings
  readonly events: Events
  readonly commits: Commits | null
  readonly playheads: PlayheadHost
  /** It has nothing to deliver any more. */
  forget(playhead: Playhead): void
  /** Whoever asks for records looks again. */
  wake(): void
  /** Something went wrong that isn't the application's to mend. */
  report(error: PlayheadError, what: string): void
}

/** What was processed, for a transaction; and as of which jump. */
export interface TakenOffsets {
  readonly offsets: TransactionOffsets
  readonly playheads: readonly Playhead[]
  readonly epochs: readonly number[]
}

/** Of so many topics it is kept in mind which one of the name it was. */
const mostTopicIds = 10_000

export class Assignment {
  readonly #host: AssignmentHost
  readonly #byKey = new Map<string, Playhead>()
  readonly #topicIds = new Map<string, string>()
  readonly #madeAnew = new Set<string>()
  /** Of partitions that are being given up: their handlers will be told to hurry. */
  readonly #hurries = new Set<Timer>()
  /** Had records in the present transaction, and is gone. */
  #endedInTransaction: Playhead | undefined

  constructor(host: AssignmentHost) {
    this.#host = host
  }

  playheads(): IterableIterator<Playhead> {
    return this.#byKey.values()
  }

  /** Those that are not being given up. */
  kept(): Playhead[] {
    return [...this.#byKey.values()].filter(playhead => playhead.state !== 'revoking')
  }

  get(tp: TopicPartition): Playhead | undefined {
    return this.#byKey.get(partitionKey(tp.topic, tp.partition))
  }

  /** Throws INVALID_ARGUMENT when the application names a partition that isn't its. */
  need(tp: TopicPartition): Playhead {
    const playhead = this.get(tp)
    if (playhead !== undefined && playhead.state !== 'revoking') return playhead
    throw invalid(`${nameOf(tp)} is not assigned to this consumer`)
  }

  /** `startOf` says, by partition key, where to begin: an offset, or where to look for it. */
  assign(
    partitions: readonly TopicIdPartition[],
    startOf: (key: string) => Start | number | Place
  ): void {
    const { playheads: host, events } = this.#host
    const assigned: Playhead[] = []
    for (const tp of partitions) {
      this.#remember(tp)
      const start = startOf(partitionKey(tp.topic, tp.partition))
      const from = typeof start === 'number' ? { offset: start } : start
      const placed = typeof from === 'object' && 'offset' in from
      const playhead = new Playhead(host, tp, placed ? 'earliest' : from)
      this.#byKey.set(playhead.key, playhead)
      assigned.push(playhead)
      if (placed) playhead.place(playhead.epoch, from)
      else host.locate(playhead)
    }
    events.emit('assigned', { partitions: publicOf(assigned) })
  }

  async revoke(partitions: readonly TopicPartition[]): Promise<void> {
    const { commits, settings, events } = this.#host
    const playheads = this.#owned(partitions)
    for (const playhead of playheads) {
      playhead.beginRevoke()
      this.#host.forget(playhead)
    }
    this.#host.wake()
    const hurry = this.#host.clock.after(settings.revokeWaitMs, () => {
      for (const playhead of playheads) playhead.hurry()
    })
    this.#hurries.add(hurry)
    await Promise.all(playheads.map(playhead => playhead.free()))
    hurry.cancel()
    this.#hurries.delete(hurry)
    const ours = playheads.filter(playhead => playhead.alive)
    if (commits !== null) {
      if (settings.autoCommit) commits.wantProcessed(ours)
      await commits.settle(ours).catch((error: unknown) => {
        if (!(error instanceof PlayheadError)) throw error
        this.#host.report(
          error,
          'what was processed before partitions were given up is not committed'
        )
      })
      for (const playhead of ours) await commits.landed(playhead)
    }
    // Some may have been lost meanwhile, and said to be.
    const released = ours.filter(playhead => playhead.alive)
    for (const playhead of released) this.#end(playhead, false)
    if (released.length > 0) events.emit('revoked', { partitions: publicOf(released) })
  }

  lose(partitions: readonly TopicPartition[], why: string): void {
    const playheads = this.#owned(partitions)
    for (const playhead of playheads) this.#end(playhead, true)
    this.#host.wake()
    if (playheads.length === 0) return
    this.#host.events.emit('lost', { partitions: publicOf(playheads), why })
  }

  /**
   * The topic was deleted, and there is another of its name: what was read and processed of the one says nothing about
   * the other, which is read from its beginning, or from where the group is in it.
   */
  replace(playhead: Playhead, topicId: string): void {
    const { topic, partition, paused, state } = playhead
    this.lose([playhead], `topic ${topic} was deleted and made anew`)
    if (state === 'revoking') return
    const { group } = this.#host.settings
    this.assign([{ topic, partition, topicId }], () => (group === null ? 'earliest' : 'committed'))
    if (paused) this.get(playhead)?.pause(true)
  }

  /** This consumer has seen another topic of the name before. */
  madeAnew(topic: string): boolean {
    return this.#madeAnew.has(topic)
  }

  #remember({ topic, topicId }: TopicIdPartition): void {
    const before = this.#topicIds.get(topic)
    if (before === topicId || topicId === zeroTopicId) return
    if (before !== undefined) this.#madeAnew.add(topic)
    else if (this.#topicIds.size >= mostTopicIds) {
      for (const [oldest] of this.#topicIds) {
        this.#topicIds.delete(oldest)
        this.#madeAnew.delete(oldest)
        break
      }
    }
    this.#topicIds.set(topic, topicId)
  }

  /** All at once, without a word. */
  endAll(): void {
    for (const hurry of this.#hurries) hurry.cancel()
    for (const playhead of this.#byKey.values()) this.#end(playhead, true)
  }

  /** How far behind the end of its log each partition is, as of its last fetch. */
  lag(): readonly PartitionLag[] {
    const { readCommitted } = this.#host.settings
    return this.kept().map(({ topic, partition, position, highWatermark, lastStableOffset }) => {
      const end = readCommitted && lastStableOffset >= 0 ? lastStableOffset : highWatermark
      const known = position >= 0 && end >= 0
      return { topic, partition, lag: known ? Math.max(0, end - position) : null }
    })
  }

  /**
   * What was processed, as it goes into a transaction, now. Throws TRANSACTION_ABORTED when a record that was
   * handed out for it comes again, because its partition jumped or is another's now: its work must not be committed.
   */
  transactionOffsets(group: string, as: CommitIdentity | undefined, done: boolean): TakenOffsets {
    const all = [...this.#byKey.values()]
    const stale = this.#endedInTransaction ?? all.find(playhead => playhead.voidInTransaction)
    this.#endedInTransaction = undefined
    for (const playhead of all) playhead.nextTransaction(done)
    if (stale !== undefined) throw staleInTransaction(stale)
    const playheads = all.filter(playhead => playhead.processed >= 0)
    const offsets = {
      group,
      memberId: as?.memberId,
      generation: as?.epoch,
      groupInstanceId: as?.instanceId,
      offsets: playheads.map(playhead => ({
        topic: playhead.topic,
        partition: playhead.partition,
        offset: playhead.processed,
        leaderEpoch: playhead.processedLeaderEpoch,
        metadata: encodeCommit(playhead.mark, '', playhead.topicId)
      }))
    }
    return { offsets, playheads, epochs: playheads.map(({ epoch }) => epoch) }
  }

  /** Throws TRANSACTION_ABORTED when one has jumped or is another's since: what was taken of it is void. */
  checkTaken({ playheads, epochs }: TakenOffsets): void {
    const stale = playheads.find(({ alive, epoch }, i) => !alive || epoch !== epochs[i])
    if (stale !== undefined) throw staleInTransaction(stale)
  }

  /** The transaction was aborted: what was handed out for it is of none. */
  abandonTransaction(): void {
    this.#endedInTransaction = undefined
    for (const playhead of this.#byKey.values()) playhead.nextTransaction(false)
  }

  #end(playhead: Playhead, lost: boolean): void {
    if (playhead.inTransaction) this.#endedInTransaction = playhead
    playhead.end(lost)
    this.#host.forget(playhead)
    this.#host.commits?.forget(playhead)
    if (this.#byKey.get(playhead.key) === playhead) this.#byKey.delete(playhead.key)
  }

  #owned(partitions: readonly TopicPartition[]): Playhead[] {
    return partitions.flatMap(tp => this.get(tp) ?? [])
  }
}

export function publicOf(playheads: readonly Playhead[]): TopicPartition[] {
  return playheads.map(({ topic, partition }) => ({ topic, partition }))
}
