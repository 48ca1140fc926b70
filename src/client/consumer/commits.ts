/**
 * What was processed, told to the group. One commit is in flight at a time, on the group's connection, because a broker
 * promises an order only within one connection: of two commits on two, the older could win.
 *
 * For each partition there is one candidate: the newest offset that is to be committed, with the epoch of the playhead
 * that it came from. It is looked at again when the request is made: a partition that is no longer ours, or has jumped
 * since, is left out. A commit that failed is never sent again as it was; the next carries what is wanted by then.
 *
 * `acked` is what the coordinator last said it has. `uncertain` says that it may have something else: a commit's outcome
 * is unknown, or the connection was lost, so that one that was given up may still take effect (live-rewind.md, late
 * commits). Whoever reads the group back clears it with `confirmed`, or commits again with `again`.
 */
import type { Env, Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { OffsetCommit } from '../../protocol/api/offset-commit.ts'
import { type CommitMark, encodeCommit } from '../../protocol/embedded/rewind-envelope.ts'
import { KafkaError, kafkaErrorName } from '../../protocol/errors.ts'
import type { RequestOf } from '../../protocol/schema.ts'
import type { Answer, LaneName, Rpc } from '../../rpc/call.ts'
import { backoffMs } from '../../rpc/retry.ts'
import type { TopicPartitionOffset } from '../partition.ts'
import type { TransactionOffsets, TransactionOutcome } from '../transaction-offsets.ts'
import type { TakenOffsets } from './assignment.ts'
import { noLongerOurs } from './errors.ts'
import { nameOf, partitionKey, type Playhead } from './playhead.ts'
import { zeroTopicId } from './session.ts'

/** As whom to commit. Epoch -1 and an empty id: from outside, which a group with members refuses. */
export interface CommitIdentity {
  readonly memberId: string
  readonly epoch: number
  readonly instanceId: string | null
}

export interface CommitsHost {
  readonly env: Env
  readonly rpc: Rpc
  readonly group: string
  readonly lane: LaneName
  /** Undefined: not a member at present, so nothing can be committed. */
  identity(): CommitIdentity | undefined
  /** Its topic is no more, and another of its name must not get its offset. */
  gone(playhead: Playhead): boolean
  /** The coordinator does not know this member, or not in this epoch. */
  expelled(): void
  /** The coordinator has these. */
  acked(offsets: readonly TopicPartitionOffset[]): void
  /** Said once per failure that is not tried again. */
  failed(error: PlayheadError): void
}

export interface Committed {
  readonly offset: number
  readonly leaderEpoch: number
  readonly mark: CommitMark
  /** The application's own. */
  readonly metadata: string
}

interface Candidate extends Committed {
  /** The playhead's. */
  readonly epoch: number
}

/** What is known of one partition's commits. */
export interface CommitSlot {
  readonly playhead: Playhead
  /** To be committed; null: nothing since the last jump. */
  wanted: Candidate | null
  /** The last that the coordinator acknowledged to this playhead, whatever its epoch. */
  acked: Candidate | null
  /** What was sent last, since the group was read: whoever sent it had processed that, whatever became of the commit. */
  sent: Candidate | null
  /** Which connection acknowledged it. */
  connection: number
  /** The group may hold something else than `acked`. */
  uncertain: boolean
}

interface Waiter {
  readonly items: { readonly slot: CommitSlot; readonly epoch: number; readonly offset: number }[]
  readonly resolve: () => void
  readonly reject: (error: PlayheadError) => void
  timer: Timer | undefined
}

const backoff = { firstMs: 50, mostMs: 1_000 }
const commitTimeoutMs = 10_000
/** By then a coordinator has ended a transaction of which nobody said what came of it (Kafka's transaction.timeout.ms). */
const transactionMs = 60_000

export class Commits {
  readonly #host: CommitsHost
  readonly #slots = new Map<Playhead, CommitSlot>()
  readonly #waiters = new Set<Waiter>()
  #inFlight: { readonly sent: ReadonlyMap<CommitSlot, Candidate> } | null = null
  #taken: (TakenOffsets & { readonly until: number }) | null = null
  #retry: Timer | null = null
  #failures = 0
  #closed = false

  constructor(host: CommitsHost) {
    this.#host = host
  }

  slot(playhead: Playhead): CommitSlot {
    let slot = this.#slots.get(playhead)
    if (slot === undefined) {
      slot = { playhead, wanted: null, acked: null, sent: null, connection: -1, uncertain: false }
      this.#slots.set(playhead, slot)
    }
    return slot
  }

  /** The group had this when the partition was assigned. */
  found(playhead: Playhead, committed: Committed): void {
    const slot = this.slot(playhead)
    slot.acked = { ...committed, epoch: playhead.epoch }
    slot.sent = null
  }

  /** The last that the coordinator was told, or said itself; null: nothing. */
  told(playhead: Playhead): Candidate | null {
    const { sent, acked } = this.slot(playhead)
    return sent ?? acked
  }

  /** The last that the coordinator acknowledged, or said itself: of what it was told since it may never have heard. */
  acknowledged(playhead: Playhead): Candidate | null {
    return this.slot(playhead).acked
  }

  /** A transaction took these: until it has ended, what the group has is between it and its coordinator. */
  took(taken: TakenOffsets): void {
    this.#taken = { ...taken, until: this.#host.env.clock.monotonic() + transactionMs }
  }

  get isInTransaction(): boolean {
    return this.#taken !== null && this.#host.env.clock.monotonic() < this.#taken.until
  }

  /** What a transaction committed counts as acknowledged, unless its partition has jumped or is another's since. */
  transactionEnded(offsets: TransactionOffsets, outcome: TransactionOutcome): void {
    const taken = this.#taken
    if (taken?.offsets !== offsets) return
    this.#taken = null
    if (outcome !== 'committed') return
    for (const [i, { offset, leaderEpoch = -1 }] of offsets.offsets.entries()) {
      const playhead = taken.playheads[i]
      if (playhead === undefined || !playhead.alive || playhead.epoch !== taken.epochs[i]) continue
      const slot = this.slot(playhead)
      const { epoch, mark } = playhead
      slot.wanted = slot.acked = { epoch, offset, leaderEpoch, mark, metadata: '' }
      slot.sent = null
    }
  }

  /** Partitions whose committed offset may not be what was acknowledged. */
  uncertain(): CommitSlot[] {
    return [...this.#slots.values()].filter(slot => slot.uncertain)
  }

  /** The group was read, and holds what was acknowledged. */
  confirmed(slot: CommitSlot): void {
    slot.uncertain = false
  }

  /** The group was read, and holds something older: what was acknowledged is committed again. */
  again(slot: CommitSlot): void {
    const { acked, playhead, wanted } = slot
    slot.acked = null
    if (wanted === null && acked !== null) slot.wanted = { ...acked, epoch: playhead.epoch }
    this.pump()
  }

  /** Makes `offset` what is to be committed. Within one epoch it never goes back. Nothing is sent yet. */
  want(
    playhead: Playhead,
    at: { epoch: number; offset: number; leaderEpoch: number; metadata?: string | undefined }
  ): void {
    const { epoch, offset, leaderEpoch, metadata = '' } = at
    if (epoch !== playhead.epoch || !playhead.alive) return
    const slot = this.slot(playhead)
    const { wanted } = slot
    if (wanted !== null && wanted.epoch === epoch) {
      if (wanted.offset > offset) return
      if (wanted.offset === offset && metadata === wanted.metadata) return
    }
    encodeCommit(playhead.mark, metadata, playhead.topicId) // throws when it is too large: here, where the caller is
    slot.wanted = { epoch, offset, leaderEpoch, mark: playhead.mark, metadata }
  }

  /** Wants what each has processed. */
  wantProcessed(playheads: Iterable<Playhead>): void {
    for (const playhead of playheads) {
      const { processed, processedLeaderEpoch, epoch } = playhead
      if (processed < 0) continue
      const { acked, wanted } = this.#slots.get(playhead) ?? {}
      const same = acked?.offset === processed && acked.mark.sequence === playhead.mark.sequence
      if (same && !wanted) continue
      this.want(playhead, { epoch, offset: processed, leaderEpoch: processedLeaderEpoch })
    }
  }

  /**
   * Sends what is wanted of `playheads`, and resolves when it is acknowledged. What a jump made void meanwhile doesn't
   * count. Rejects with TIMED_OUT (the outcome is unknown), STALE_GENERATION when a partition was lost, or the refusal.
   */
  settle(playheads: Iterable<Playhead>, timeoutMs = 30_000): Promise<void> {
    const items: Waiter['items'][number][] = []
    for (const playhead of playheads) {
      const slot = this.#slots.get(playhead)
      const { wanted } = slot ?? {}
      if (!slot || !wanted || wanted.epoch !== playhead.epoch || isAcked(slot)) continue
      items.push({ slot, epoch: wanted.epoch, offset: wanted.offset })
    }
    if (items.length === 0) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const waiter: Waiter = { items, resolve, reject, timer: undefined }
      waiter.timer = this.#host.env.clock.after(timeoutMs, () => {
        const { group } = this.#host
        const message = `group '${group}': a commit was not acknowledged within ${timeoutMs} ms; whether it took effect is unknown`
        this.#reject(waiter, new PlayheadError('TIMED_OUT', message, { group, retriable: true }))
      })
      this.#waiters.add(waiter)
      this.pump()
    })
  }

  /** Resolves when no commit that was sent for `playhead` is on its way. */
  async landed(playhead: Playhead): Promise<void> {
    while (this.#inFlight !== null) {
      const slot = this.#slots.get(playhead)
      if (slot === undefined || !this.#inFlight.sent.has(slot)) return
      await this.#afterFlight()
    }
  }

  /** A partition was given up or lost: nothing of it is sent from now on. */
  forget(playhead: Playhead): void {
    const slot = this.#slots.get(playhead)
    if (slot === undefined) return
    slot.wanted = null
    this.#slots.delete(playhead)
    this.#checkWaiters()
  }

  close(): void {
    this.#closed = true
    this.#retry?.cancel()
    const { group } = this.#host
    for (const waiter of this.#waiters) {
      this.#reject(waiter, new PlayheadError('CLOSED', `group '${group}': the consumer was closed`))
    }
    this.#slots.clear()
  }

  /** The only place that sends. */
  pump(): void {
    if (this.#closed || this.#inFlight !== null || this.#retry !== null) return
    const identity = this.#host.identity()
    if (identity === undefined) return
    const sent = new Map<CommitSlot, Candidate>()
    for (const slot of this.#slots.values()) {
      const { playhead, wanted } = slot
      if (wanted === null) continue
      if (wanted.epoch !== playhead.epoch || !playhead.alive) slot.wanted = null
      else if (playhead.topicUnknown && this.#host.gone(playhead)) this.#topicGone(slot)
      else if (!isAcked(slot)) sent.set(slot, wanted)
    }
    if (sent.size > 0) this.#send(sent, identity)
    else this.#checkWaiters()
  }

  #flightEnds: (() => void)[] = []

  #afterFlight(): Promise<void> {
    return new Promise(resolve => this.#flightEnds.push(resolve))
  }

  #send(sent: ReadonlyMap<CommitSlot, Candidate>, identity: CommitIdentity): void {
    const { rpc, group, lane } = this.#host
    this.#inFlight = { sent }
    for (const [slot, candidate] of sent) slot.sent = candidate
    const call = rpc.send(OffsetCommit, this.#request(sent, identity), {
      to: { group },
      lane,
      timeoutMs: commitTimeoutMs,
      ...([...sent.keys()].some(s => s.playhead.topicId === zeroTopicId) ? { maxVersion: 9 } : {})
    })
    call.response.then(
      answer => this.#answered(sent, answer),
      (error: unknown) => this.#unanswered(sent, error)
    )
  }

  #request(
    sent: ReadonlyMap<CommitSlot, Candidate>,
    identity: CommitIdentity
  ): RequestOf<typeof OffsetCommit> {
    const topics = new Map<string, { name: string; topicId: string; partitions: Committing[] }>()
    for (const [{ playhead }, candidate] of sent) {
      const { topic: name, topicId, partition } = playhead
      let topic = topics.get(name)
      if (topic === undefined) topics.set(name, (topic = { name, topicId, partitions: [] }))
      topic.partitions.push({
        partitionIndex: partition,
        committedOffset: candidate.offset,
        committedLeaderEpoch: candidate.leaderEpoch,
        committedMetadata: encodeCommit(candidate.mark, candidate.metadata, topicId)
      })
    }
    return {
      groupId: this.#host.group,
      generationIdOrMemberEpoch: identity.epoch,
      memberId: identity.memberId,
      groupInstanceId: identity.instanceId,
      topics: [...topics.values()]
    }
  }

  #answered(sent: ReadonlyMap<CommitSlot, Candidate>, answer: Answer<typeof OffsetCommit>): void {
    const byKey = new Map<string, number>()
    for (const topic of answer.body.topics) {
      for (const { partitionIndex, errorCode } of topic.partitions) {
        const named = answer.version >= 10 ? topic.topicId : topic.name
        byKey.set(partitionKey(named, partitionIndex), errorCode)
      }
    }
    let again = false
    const offsets: TopicPartitionOffset[] = []
    for (const [slot, candidate] of sent) {
      const { topic, topicId, partition } = slot.playhead
      const code = byKey.get(partitionKey(answer.version >= 10 ? topicId : topic, partition))
      if (code === KafkaError.NONE) {
        this.#acked(slot, candidate, answer.connection)
        offsets.push({ topic, partition, offset: candidate.offset })
      } else again = this.#refused(slot, code ?? KafkaError.UNKNOWN_SERVER_ERROR) || again
    }
    if (offsets.length > 0) this.#host.acked(offsets)
    this.#ended(again)
  }

  #acked(slot: CommitSlot, candidate: Candidate, connection: number): void {
    // A commit that was given up on another connection may come after this one.
    if (slot.connection !== -1 && slot.connection !== connection) slot.uncertain = true
    slot.connection = connection
    slot.acked = candidate
  }

  /** Whether to try again. */
  #refused(slot: CommitSlot, code: number): boolean {
    switch (code) {
      case KafkaError.COORDINATOR_NOT_AVAILABLE:
      case KafkaError.REQUEST_TIMED_OUT:
      case KafkaError.UNKNOWN_SERVER_ERROR:
        // It may have been written, and not yet be seen to be.
        slot.uncertain = true
        return true
      case KafkaError.NOT_COORDINATOR:
      case KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
      case KafkaError.UNSTABLE_OFFSET_COMMIT:
      case KafkaError.REBALANCE_IN_PROGRESS:
      case KafkaError.THROTTLING_QUOTA_EXCEEDED:
        return true
      case KafkaError.STALE_MEMBER_EPOCH:
        // The epoch has moved on; the next heartbeat's answer brings the new one.
        return true
      case KafkaError.UNKNOWN_MEMBER_ID:
      case KafkaError.FENCED_MEMBER_EPOCH:
      case KafkaError.FENCED_INSTANCE_ID:
      case KafkaError.ILLEGAL_GENERATION:
        this.#host.expelled()
        return true
      case KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
      case KafkaError.UNKNOWN_TOPIC_ID:
        // Either it is no more, or so new that the coordinator has not heard of it.
        slot.playhead.topicUnknown = true
        if (!this.#host.gone(slot.playhead)) return true
        this.#host.failed(this.#topicGone(slot))
        return false
      default: {
        const { topic, partition } = slot.playhead
        const { group } = this.#host
        const kafkaError = kafkaErrorName(code)
        const message = `group '${group}': the commit of ${nameOf(slot.playhead)} was refused: ${kafkaError}`
        const authorization = kafkaError.endsWith('AUTHORIZATION_FAILED')
        const error = new PlayheadError(
          authorization ? 'AUTHORIZATION_FAILED' : 'BROKER_ERROR',
          message,
          { group, topic, partition, kafkaError }
        )
        this.#giveUp(slot, error)
        this.#host.failed(error)
        return false
      }
    }
  }

  #topicGone(slot: CommitSlot): PlayheadError {
    const { topic, partition } = slot.playhead
    const { group } = this.#host
    const message = `group '${group}': ${nameOf(slot.playhead)} was deleted: there is nothing to commit to`
    const error = new PlayheadError('UNKNOWN_TOPIC', message, { group, topic, partition })
    this.#giveUp(slot, error)
    return error
  }

  #giveUp(slot: CommitSlot, error: PlayheadError): void {
    slot.wanted = null
    for (const waiter of this.#waiters) {
      if (waiter.items.some(item => item.slot === slot)) this.#reject(waiter, error)
    }
  }

  #unanswered(sent: ReadonlyMap<CommitSlot, Candidate>, error: unknown): void {
    if (!(error instanceof PlayheadError)) throw error
    if (error.code === 'CLOSED') this.close()
    // Nothing was written: nothing can take effect.
    const harmless = error.code === 'CONNECTION_FAILED' || error.code === 'CLOSED'
    if (!harmless) for (const slot of sent.keys()) slot.uncertain = true
    this.#ended(error.code !== 'CLOSED')
  }

  #ended(again: boolean): void {
    this.#inFlight = null
    const ends = this.#flightEnds
    this.#flightEnds = []
    for (const resolve of ends) resolve()
    this.#checkWaiters()
    if (this.#closed) return
    if (!again) {
      this.#failures = 0
      // What became wanted meanwhile goes now if somebody waits for it, else with the next interval.
      if (this.#waiters.size > 0) this.pump()
      return
    }
    this.#failures += 1
    const { env } = this.#host
    this.#retry = env.clock.after(backoffMs(env.random, backoff, this.#failures), () => {
      this.#retry = null
      this.pump()
    })
  }

  #checkWaiters(): void {
    for (const waiter of this.#waiters) {
      let open = 0
      let lost: Playhead | undefined
      for (const { slot, epoch, offset } of waiter.items) {
        const { acked, playhead } = slot
        if (playhead.epoch !== epoch && playhead.alive) continue // a jump made it void
        if (acked && acked.epoch === epoch && acked.offset >= offset) continue
        if (!playhead.alive || !this.#slots.has(playhead)) lost = playhead
        else open += 1
      }
      if (lost !== undefined) this.#reject(waiter, noLongerOurs(lost, this.#host.group))
      else if (open === 0) {
        this.#waiters.delete(waiter)
        waiter.timer?.cancel()
        waiter.resolve()
      }
    }
  }

  #reject(waiter: Waiter, error: PlayheadError): void {
    if (!this.#waiters.delete(waiter)) return
    waiter.timer?.cancel()
    waiter.reject(error)
  }
}

interface Committing {
  partitionIndex: number
  committedOffset: number
  committedLeaderEpoch: number
  committedMetadata: string
}

function isAcked({ wanted, acked }: CommitSlot): boolean {
  return (
    wanted !== null &&
    acked !== null &&
    acked.offset === wanted.offset &&
    acked.mark.sequence === wanted.mark.sequence &&
    acked.metadata === wanted.metadata
  )
}
