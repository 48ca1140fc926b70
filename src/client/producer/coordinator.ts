/**
 * What a transactional producer asks of its coordinator, and of those of groups: each method is a request, tried
 * again until there is an answer that is not passing.
 */
import { PlayheadError } from '../../base/error.ts'
import { AddOffsetsToTxn } from '../../protocol/api/add-offsets-to-txn.ts'
import { AddPartitionsToTxn } from '../../protocol/api/add-partitions-to-txn.ts'
import { ApiVersions } from '../../protocol/api/api-versions.ts'
import { EndTxn } from '../../protocol/api/end-txn.ts'
import { InitProducerId } from '../../protocol/api/init-producer-id.ts'
import { TxnOffsetCommit } from '../../protocol/api/txn-offset-commit.ts'
import { isRetriable, KafkaError } from '../../protocol/errors.ts'
import type { Api, ResponseOf } from '../../protocol/schema.ts'
import type { Body, CallOptions } from '../../rpc/call.ts'
import { Again, retrying } from '../../rpc/retry.ts'
import type { TransactionOffsets } from '../transaction-offsets.ts'
import { brokerError } from './failure.ts'
import type { Settings } from './options.ts'
import type { TopicPartition } from '../partition.ts'
import type { ProducerCluster } from './outbox.ts'
import type { Identity } from './partition.ts'

/** The first is short: CONCURRENT_TRANSACTIONS says that the transaction before is just ending. */
const backoff = { firstMs: 20, mostMs: 1_000 }

/** The coordinator's error code, and what the producer is known by from now on. */
export interface Ended {
  readonly code: number
  readonly next: Identity | null
}

interface Answered<A extends Api> {
  readonly body: ResponseOf<A>
  readonly version: number
  /** Why nobody knows whether an earlier attempt took effect; null when none could have. */
  readonly unknown: PlayheadError | null
}

export class TransactionCoordinator {
  readonly #id: string
  readonly #cluster: ProducerCluster
  readonly #settings: Settings
  readonly #signal: AbortSignal

  constructor(id: string, cluster: ProducerCluster, settings: Settings, signal: AbortSignal) {
    this.#id = id
    this.#cluster = cluster
    this.#settings = settings
    this.#signal = signal
  }

  /** Whether the cluster has finalized transaction.version 2 (KIP-890). */
  async supportsVersion2(): Promise<boolean> {
    const { finalizedFeatures } = await retrying(this.#cluster.env, this.#patience(), () =>
      this.#cluster.request(
        ApiVersions,
        { clientSoftwareName: 'playhead', clientSoftwareVersion: '1' },
        { to: { transaction: this.#id }, timeoutMs: this.#settings.requestTimeoutMs }
      )
    )
    const feature = finalizedFeatures.find(({ name }) => name === 'transaction.version')
    return (feature?.maxVersionLevel ?? 0) >= 2
  }

  /** Fences whoever else has the transactional id; with `identity`, unless that is the one who was fenced. */
  async initProducerId(identity: Identity | null, minVersion = 0): Promise<Ended> {
    const { producerId = -1n, epoch: producerEpoch = -1 } = identity ?? {}
    const { body } = await this.#ask(
      InitProducerId,
      version => ({
        transactionalId: this.#id,
        transactionTimeoutMs: this.#settings.transactionTimeoutMs,
        ...(version >= 3 ? { producerId, producerEpoch } : {})
      }),
      { minVersion },
      answer => answer.errorCode
    )
    return {
      code: body.errorCode,
      next: { producerId: body.producerId, epoch: body.producerEpoch }
    }
  }

  /** Rejects when nobody knows whether it took effect. */
  async endTxn(identity: Identity, committed: boolean, version2: boolean): Promise<Ended> {
    const { body, version, unknown } = await this.#ask(
      EndTxn,
      { ...this.#asWho(identity), committed },
      { maxVersion: version2 ? 5 : 4, minVersion: version2 ? 5 : 0 },
      answer => answer.errorCode
    )
    const { errorCode, producerId, producerEpoch: epoch } = body
    // The first attempt may have committed, and the second been refused for that.
    if (errorCode !== 0 && committed && unknown !== null) throw unknown
    const bumped = errorCode === 0 && version >= 5 && producerId >= 0n
    return { code: errorCode, next: bumped ? { producerId, epoch } : identity }
  }

  async addPartitions(identity: Identity, partitions: readonly TopicPartition[]): Promise<void> {
    const byTopic = new Map<string, number[]>()
    for (const { topic, partition } of partitions) {
      byTopic.set(topic, [...(byTopic.get(topic) ?? []), partition])
    }
    const worst = (body: ResponseOf<typeof AddPartitionsToTxn>) =>
      worstOf(
        body.resultsByTopicV3AndBelow.flatMap(({ resultsByPartition }) =>
          resultsByPartition.map(result => result.partitionErrorCode)
        )
      )
    const { body } = await this.#ask(
      AddPartitionsToTxn,
      {
        v3AndBelowTransactionalId: this.#id,
        v3AndBelowProducerId: identity.producerId,
        v3AndBelowProducerEpoch: identity.epoch,
        v3AndBelowTopics: Array.from(byTopic, ([name, list]) => ({ name, partitions: list }))
      },
      { maxVersion: 3 },
      worst
    )
    const code = worst(body)
    if (code !== 0) throw brokerError(code, `${this.#what}: could not add partitions`)
  }

  async addGroup(identity: Identity, group: string): Promise<void> {
    const { body } = await this.#ask(
      AddOffsetsToTxn,
      { ...this.#asWho(identity), groupId: group },
      { maxVersion: 3 },
      answer => answer.errorCode
    )
    if (body.errorCode === 0) return
    throw brokerError(body.errorCode, `${this.#what}: could not add group ${group}`, { group })
  }

  async commitOffsets(
    identity: Identity,
    { group, ...what }: TransactionOffsets,
    version2: boolean
  ): Promise<void> {
    const worst = (body: ResponseOf<typeof TxnOffsetCommit>) =>
      worstOf(body.topics.flatMap(topic => topic.partitions.map(result => result.errorCode)))
    const topics = topicsOf(what.offsets)
    const { generation = -1, memberId = '', groupInstanceId = null } = what
    // A broker that cannot check whether the member still owns its partitions must not commit for it.
    const [least, most] = version2 ? [5, 5] : [memberId === '' ? 0 : 3, 4]
    const { body } = await this.#ask(
      TxnOffsetCommit,
      version => ({
        ...this.#asWho(identity),
        groupId: group,
        ...(version < 3
          ? {}
          : { generationIdOrMemberEpoch: generation, memberId, groupInstanceId }),
        topics: version < 2 ? withoutEpochs(topics) : topics
      }),
      { to: { group }, minVersion: least, maxVersion: most },
      worst
    )
    const code = worst(body)
    if (code === 0) return
    throw brokerError(code, `${this.#what}: could not commit offsets of group ${group}`, { group })
  }

  /**
   * Asks the coordinator until it gives an answer that is not passing. All these requests may be repeated: the
   * second of two that took effect changes nothing.
   */
  #ask<A extends Api>(
    api: A,
    body: Body<A>,
    options: CallOptions,
    codeOf: (body: ResponseOf<A>) => number
  ): Promise<Answered<A>> {
    const to = options.to ?? { transaction: this.#id }
    const timeoutMs = this.#settings.requestTimeoutMs
    let unknown: PlayheadError | null = null
    return retrying(this.#cluster.env, this.#patience(), async () => {
      try {
        const answer = await this.#cluster.send(api, body, { ...options, to, timeoutMs }).response
        const code = codeOf(answer.body)
        if (code === 0 || !isRetriable(code)) {
          return { body: answer.body, version: answer.version, unknown }
        }
        if (code === KafkaError.NOT_COORDINATOR || code === KafkaError.COORDINATOR_NOT_AVAILABLE) {
          this.#forgetCoordinator(to)
        }
        return new Again(unknown ?? brokerError(code, `${this.#what}: ${api.name}`))
      } catch (error) {
        if (!(error instanceof PlayheadError)) throw error
        const lost = error.code === 'CONNECTION_LOST' || error.code === 'TIMED_OUT'
        if (!error.retriable && !lost) throw error
        if (!error.retriable) unknown = error
        this.#forgetCoordinator(to)
        return new Again(unknown ?? error)
      }
    })
  }

  #forgetCoordinator(to: NonNullable<CallOptions['to']>): void {
    if (typeof to === 'object' && ('group' in to || 'transaction' in to)) {
      this.#cluster.coordinatorMoved(to)
    }
  }

  #patience() {
    const { clock } = this.#cluster.env
    const deadline = clock.monotonic() + this.#settings.deliveryTimeoutMs
    return { deadline, signals: [this.#signal], backoff }
  }

  #asWho({ producerId, epoch: producerEpoch }: Identity) {
    return { transactionalId: this.#id, producerId, producerEpoch }
  }

  get #what(): string {
    return `transaction of ${this.#id}`
  }
}

/** The code that decides what becomes of a request with several: a final one before a passing one. */
function worstOf(codes: readonly number[]): number {
  const bad = codes.filter(code => code !== 0 && code !== KafkaError.OPERATION_NOT_ATTEMPTED)
  const first = bad.find(code => !isRetriable(code)) ?? bad[0]
  return first ?? codes.find(code => code !== 0) ?? 0
}

function withoutEpochs(topics: ReturnType<typeof topicsOf>) {
  return topics.map(({ name, partitions }) => ({
    name,
    partitions: partitions.map(({ committedLeaderEpoch: _, ...known }) => known)
  }))
}

function topicsOf(offsets: TransactionOffsets['offsets']) {
  const byTopic = new Map<string, TransactionOffsets['offsets'][number][]>()
  for (const offset of offsets) {
    byTopic.set(offset.topic, [...(byTopic.get(offset.topic) ?? []), offset])
  }
  return Array.from(byTopic, ([name, list]) => ({
    name,
    partitions: list.map(({ partition, offset, leaderEpoch = -1, metadata = '' }) => ({
      partitionIndex: partition,
      committedOffset: offset,
      committedLeaderEpoch: leaderEpoch,
      committedMetadata: metadata
    }))
  }))
}
