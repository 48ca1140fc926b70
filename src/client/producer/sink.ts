/**
 * The outbox to one broker: a line of partitions that have something for it, and up to `maxInFlight` requests
 * under way. One pump: whatever happens (a batch began, is full, is due; an answer came; a leader moved) puts
 * the partition in the line and calls the pump, which asks each what may go, and fills requests.
 */
import type { Timer } from '../../base/env.ts'
import { Fifo } from '../../base/fifo.ts'
import { PlayheadError } from '../../base/error.ts'
import { Produce } from '../../protocol/api/produce.ts'
import type { RequestOf, ResponseOf } from '../../protocol/schema.ts'
import type { Call, Rpc } from '../../rpc/call.ts'
import type { LeaderEndpoint, LeaderHint } from '../../rpc/metadata.ts'
import type { Env } from '../../base/env.ts'
import type { Batch } from './batch.ts'
import type { Settings } from './options.ts'
import type { Identity, PartitionQueue } from './partition.ts'

/** The outbox, as a sink sees it. */
export interface SinkHost {
  readonly env: Env
  readonly rpc: Rpc
  readonly settings: Settings
  /** Batches that are not full leave at once: somebody flushes, or waits for room. */
  readonly rushing: boolean
  /** Null: there is none yet, and nothing can be sent; it has been asked for. */
  identity(): Identity | null
  /** The partition's epoch ran out. */
  renewIdentity(): void
  /** Whether the transaction lets the partition send; if not, it is offered again when it does. */
  mayProduce(partition: PartitionQueue): boolean
  topicIdOf(topic: string): string
  /** The versions of Produce that may be spoken. */
  readonly produceVersions: { readonly minVersion: number; readonly maxVersion: number }
  /** A batch takes no more records. */
  batchEnded(batch: Batch): void
  /** Compresses, then offers the partition. */
  compress(partition: PartitionQueue, batch: Batch): void
  /** Offers the partition to the sink of its leader. */
  offer(partition: PartitionQueue): void
  written(partition: PartitionQueue, batch: Batch, baseOffset: number, appendTime: number): void
  refused(partition: PartitionQueue, batch: Batch, code: number, message: string | null): void
  lost(partition: PartitionQueue, batch: Batch, error: PlayheadError): void
  /** A broker that leads some partitions no more said who does (KIP-951). */
  learned(hints: readonly LeaderHint[], endpoints: readonly LeaderEndpoint[]): void
}

interface Parcel {
  readonly partition: PartitionQueue
  readonly batch: Batch
  /** '' when it isn't known. As of the sending: the topic may be made anew meanwhile. */
  readonly topicId: string
}

/**
 * Batches that are not full leave only while fewer requests than this are under way; then they gather until one
 * is answered. So an idle producer sends at once, and a busy one sends large batches, whatever the linger.
 */
const eagerRequests = 2
/** A broker that asks for a longer pause is not believed (security.md S6). */
const longestThrottleMs = 30_000

export class Sink {
  readonly node: number
  readonly #host: SinkHost
  readonly #line: Fifo<PartitionQueue>
  /** Partitions that have to wait, and until when. */
  readonly #parked = new Map<PartitionQueue, number>()
  #inFlight = 0
  #soon: Timer | undefined
  #timer: Timer | undefined
  #timerAt = Infinity
  #notBefore = -Infinity
  #closed = false

  constructor(node: number, host: SinkHost) {
    this.node = node
    this.#host = host
    this.#line = new Fifo(`partitions that send to broker ${node}`, 2 ** 31)
  }

  /** The partition may have something to send. */
  offer(partition: PartitionQueue): void {
    if (this.#closed) return
    if (!partition.queued) {
      partition.queued = true
      this.#line.push(partition)
    }
    this.pumpSoon()
  }

  /** At the end of this turn, when all that runs now has had its chance to add records. */
  pumpSoon(): void {
    if (this.#soon !== undefined || this.#closed || this.#line.length === 0) return
    if (this.#inFlight >= this.#host.settings.maxInFlight) return
    this.#soon = this.#host.env.clock.soon(() => {
      this.#soon = undefined
      this.#pump()
    })
  }

  close(): void {
    this.#closed = true
    this.#soon?.cancel()
    this.#timer?.cancel()
    this.#line.clear()
    this.#parked.clear()
  }

  #pump(): void {
    const { host, now } = { host: this.#host, now: this.#host.env.clock.monotonic() }
    if (now < this.#notBefore) return this.#wake(this.#notBefore)
    while (this.#inFlight < host.settings.maxInFlight && this.#line.length > 0) {
      const identity = host.settings.idempotent ? host.identity() : null
      if (host.settings.idempotent && identity === null) return
      const parcels = this.#collect(now, identity)
      if (parcels.length === 0) return
      this.#send(parcels)
    }
  }

  /** At most one batch of each partition, as many as fit into a request. */
  #collect(now: number, identity: Identity | null): Parcel[] {
    const host = this.#host
    const parcels: Parcel[] = []
    let bytes = 0
    for (let left = this.#line.length; left > 0; left--) {
      const partition = this.#line.shift()
      if (partition === undefined) break
      partition.queued = false
      // It has moved to another broker while it stood in this line.
      if (partition.leader !== this.node) {
        host.offer(partition)
        continue
      }
      const batch = this.#ready(partition, now, identity)
      if (batch === undefined) continue
      if (parcels.length > 0 && bytes + batch.sizeBytes > this.#host.settings.maxRequestBytes) {
        this.#requeue(partition)
        break
      }
      this.#load(partition, batch, identity)
      parcels.push({ partition, batch, topicId: this.#host.topicIdOf(partition.topic) })
      bytes += batch.sizeBytes
      if (partition.batches.length > partition.inFlight) this.#requeue(partition)
    }
    return parcels
  }

  /** The partition's batch, if it can and should go now; else it is seen to that it comes again. */
  #ready(partition: PartitionQueue, now: number, identity: Identity | null): Batch | undefined {
    const host = this.#host
    const batch = partition.next(now, identity)
    if (batch === undefined) {
      if (partition.wakeAt < Infinity) this.#park(partition, partition.wakeAt)
      else if (partition.exhausted) host.renewIdentity()
      return
    }
    if (!host.mayProduce(partition)) return
    if (!batch.closed && !host.rushing) {
      const due = batch.openedAt + host.settings.lingerMs
      if (due > now) return this.#park(partition, due)
      if (this.#inFlight >= eagerRequests) return this.#requeue(partition)
    }
    if (batch.encoded === null && host.settings.compression !== 'none') {
      if (!batch.closed) host.batchEnded(batch)
      host.compress(partition, batch)
      return
    }
    return batch
  }

  #load(partition: PartitionQueue, batch: Batch, identity: Identity | null): void {
    const { env, settings } = this.#host
    if (!batch.closed) this.#host.batchEnded(batch)
    const stamp = partition.take(batch, identity)
    if (batch.encoded === null) batch.seal(stamp, settings.transactionalId !== null, env.cpu)
    else if (stamp !== null) batch.stamp(stamp, env.cpu)
  }

  #send(parcels: readonly Parcel[]): void {
    const { rpc, settings, produceVersions } = this.#host
    const { minVersion, maxVersion } = produceVersions
    const withIds = parcels.every(({ topicId }) => topicId !== '')
    const call = rpc.send(Produce, this.#body(parcels), {
      to: { node: this.node },
      timeoutMs: this.#patience(parcels),
      minVersion,
      maxVersion: withIds ? maxVersion : Math.min(maxVersion, 12)
    })
    this.#inFlight++
    const ended =
      settings.acks === 0 ? this.#onceWritten(call, parcels) : this.#onceAnswered(call, parcels)
    ended.catch((error: unknown) => this.#broken(parcels, error))
  }

  /** No longer than until the first deadline of a batch: the call knows best whether it was written. */
  #patience(parcels: readonly Parcel[]): number {
    const now = this.#host.env.clock.monotonic()
    let timeoutMs = this.#host.settings.requestTimeoutMs
    for (const { batch } of parcels) timeoutMs = Math.min(timeoutMs, batch.deadline - now)
    return Math.max(timeoutMs, 1)
  }

  async #onceWritten(call: Call<typeof Produce>, parcels: readonly Parcel[]): Promise<void> {
    await call.written
    this.#inFlight--
    for (const { partition, batch } of parcels) {
      partition.ended(batch)
      this.#host.written(partition, batch, -1, -1)
    }
    this.pumpSoon()
  }

  async #onceAnswered(call: Call<typeof Produce>, parcels: readonly Parcel[]): Promise<void> {
    const { body } = await call.response
    this.#inFlight--
    const { throttleTimeMs } = body
    if (throttleTimeMs > 0) {
      const pauseMs = Math.min(throttleTimeMs, longestThrottleMs)
      this.#notBefore = this.#host.env.clock.monotonic() + pauseMs
    }
    this.#settle(parcels, body)
    this.pumpSoon()
  }

  /** No answer will come, or none that makes sense. */
  #broken(parcels: readonly Parcel[], error: unknown): void {
    if (!(error instanceof PlayheadError)) throw error
    this.#inFlight--
    for (const { partition, batch } of parcels) {
      partition.ended(batch)
      this.#host.lost(partition, batch, error)
    }
    this.pumpSoon()
  }

  /**
   * One after the other, each under way until its own turn: the first may fail a transaction, and with it all
   * that is at rest, and what the answer says of the second must still be heard.
   */
  #settle(parcels: readonly Parcel[], body: ResponseOf<typeof Produce>): void {
    const answers = new Map<string, Map<number, PartitionAnswer>>()
    for (const { name, topicId, partitionResponses } of body.responses) {
      const byIndex = new Map(partitionResponses.map(answer => [answer.index, answer]))
      answers.set(name === '' ? topicId : name, byIndex)
    }
    const hints: LeaderHint[] = []
    for (const { partition, batch, topicId } of parcels) {
      partition.ended(batch)
      const ofTopic = answers.get(partition.topic) ?? answers.get(topicId)
      const answer = ofTopic?.get(partition.partition)
      if (answer === undefined) this.#host.lost(partition, batch, unanswered(this.node, batch))
      else if (answer.errorCode === 0) {
        this.#host.written(partition, batch, answer.baseOffset, answer.logAppendTimeMs)
      } else {
        this.#host.refused(partition, batch, answer.errorCode, messageOf(answer))
        const { leaderId: leader, leaderEpoch } = answer.currentLeader
        const { topic, partition: index } = partition
        if (leader >= 0) hints.push({ topic, partition: index, leader, leaderEpoch })
      }
    }
    // Last: it makes partitions try again at once that were told to wait just now.
    if (hints.length > 0) this.#host.learned(hints, body.nodeEndpoints)
  }

  #body(parcels: readonly Parcel[]): RequestOf<typeof Produce> {
    const byTopic = new Map<string, TopicData>()
    for (const { partition, batch, topicId } of parcels) {
      const { topic: name, partition: index } = partition
      let data = byTopic.get(name)
      if (data === undefined) {
        data = { name, ...(topicId === '' ? {} : { topicId }), partitionData: [] }
        byTopic.set(name, data)
      }
      data.partitionData.push({ index, records: batch.bytes() })
    }
    const { acks, transactionalId, requestTimeoutMs } = this.#host.settings
    return {
      transactionalId,
      acks,
      timeoutMs: requestTimeoutMs,
      topicData: [...byTopic.values()]
    }
  }

  #requeue(partition: PartitionQueue): undefined {
    partition.queued = true
    this.#line.push(partition)
  }

  #park(partition: PartitionQueue, until: number): undefined {
    this.#parked.set(partition, until)
    this.#wake(until)
  }

  /** One timer, for the earliest that waits. */
  #wake(at: number): void {
    if (at >= this.#timerAt) return
    this.#timer?.cancel()
    this.#timerAt = at
    const { clock } = this.#host.env
    this.#timer = clock.after(Math.max(0, at - clock.monotonic()), () => this.#unpark())
  }

  #unpark(): void {
    this.#timer = undefined
    this.#timerAt = Infinity
    const now = this.#host.env.clock.monotonic()
    let next = Infinity
    for (const [partition, until] of this.#parked) {
      if (until > now) next = Math.min(next, until)
      else {
        this.#parked.delete(partition)
        this.offer(partition)
      }
    }
    if (next < Infinity) this.#wake(next)
    this.pumpSoon()
  }
}

interface TopicData {
  readonly name: string
  readonly topicId?: string
  readonly partitionData: { readonly index: number; readonly records: Uint8Array }[]
}

type PartitionAnswer = ResponseOf<typeof Produce>['responses'][number]['partitionResponses'][number]

function unanswered(node: number, batch: Batch): PlayheadError {
  const message = `broker ${node} answered Produce without a word on ${batch.topic}-${batch.partition}`
  return new PlayheadError('MALFORMED_FRAME', message)
}

/** A broker says per record what it dislikes: the first is enough. */
function messageOf(answer: PartitionAnswer): string | null {
  const [first] = answer.recordErrors
  const ofRecord = first?.batchIndexErrorMessage
  return ofRecord ? `record ${first?.batchIndex}: ${ofRecord}` : answer.errorMessage
}
