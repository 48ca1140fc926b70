/** Members of groups, by bare requests: what they say is up to the test. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { Env } from '../../src/base/env.ts'
import { ConsumerGroupHeartbeat } from '../../src/protocol/api/consumer-group-heartbeat.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { EndTxn } from '../../src/protocol/api/end-txn.ts'
import { FindCoordinator } from '../../src/protocol/api/find-coordinator.ts'
import { InitProducerId } from '../../src/protocol/api/init-producer-id.ts'
import { Metadata } from '../../src/protocol/api/metadata.ts'
import { OffsetCommit } from '../../src/protocol/api/offset-commit.ts'
import { OffsetFetch } from '../../src/protocol/api/offset-fetch.ts'
import { TxnOffsetCommit } from '../../src/protocol/api/txn-offset-commit.ts'
import { KafkaError, kafkaErrorName } from '../../src/protocol/errors.ts'
import type { RequestOf } from '../../src/protocol/schema.ts'
import { Wire } from './wire.ts'

/** A cluster under test: ours or Kafka's. */
export interface Site {
  readonly env: Env
  readonly bootstrap: string
}

/** A name that nobody else has. */
export function unique(what: string): string {
  return `${what}-${randomBytes(5).toString('hex')}`
}

/** A new topic; resolves with its id when the broker knows it. */
export async function newTopic(wire: Wire, name: string, numPartitions: number): Promise<string> {
  const body = {
    topics: [{ name, numPartitions, replicationFactor: 1, assignments: [], configs: [] }]
  }
  await wire.ask(CreateTopics, 7, { ...body, timeoutMs: 10_000 })
  for (;;) {
    const { topics } = await wire.ask(Metadata, 12, {
      topics: [{ name }],
      allowAutoTopicCreation: false
    })
    const found = topics[0]
    if (found?.errorCode === 0 && found.partitions.length === numPartitions) return found.topicId
  }
}

/** The same, once the broker that is asked leads all of it: Kafka's take a moment longer for that than to know it. */
export async function ledTopic(wire: Wire, name: string, numPartitions: number): Promise<string> {
  const topicId = await newTopic(wire, name, numPartitions)
  for (let partition = 0; partition < numPartitions; ) {
    if ((await wire.offset(name, partition, -1)).errorCode === 0) partition++
  }
  return topicId
}

/** Asks until the group, or transactional id, has a coordinator, as a broker that just started has none. */
export async function coordinated(
  wire: Wire,
  name: string,
  what: 'group' | 'transaction' = 'group'
): Promise<void> {
  for (;;) {
    const { coordinators } = await wire.ask(FindCoordinator, 4, {
      keyType: what === 'group' ? 0 : 1,
      coordinatorKeys: [name]
    })
    if (coordinators[0]?.errorCode === 0) return
  }
}

type Beat = RequestOf<typeof ConsumerGroupHeartbeat>

/** A member of a KIP-848 group that gives up at once what it has to. */
export class Member {
  readonly wire: Wire
  readonly groupId: string
  readonly id: string
  readonly topics: readonly string[]
  epoch = 0
  /** 'topic id:partition' */
  owned = new Set<string>()

  constructor(
    wire: Wire,
    groupId: string,
    topics: readonly string[],
    id = randomBytes(16).toString('base64url')
  ) {
    this.wire = wire
    this.groupId = groupId
    this.topics = topics
    this.id = id
  }

  /** One heartbeat as it is, without taking up the answer. */
  send(body: Partial<Beat> = {}) {
    return this.wire.ask(ConsumerGroupHeartbeat, 1, {
      groupId: this.groupId,
      memberId: this.id,
      memberEpoch: this.epoch,
      topicPartitions: this.#partitions(),
      ...body
    })
  }

  /** One heartbeat; takes up what it answers. Resolves with the error's name. */
  async beat(body: Partial<Beat> = {}): Promise<string> {
    const joins = this.epoch === 0
    const all = {
      rebalanceTimeoutMs: 30_000,
      subscribedTopicNames: this.topics,
      topicPartitions: []
    }
    const answer = await this.send({ ...(joins && all), ...body })
    if (answer.errorCode !== KafkaError.NONE) return kafkaErrorName(answer.errorCode)
    assert(answer.memberEpoch >= this.epoch || answer.memberEpoch < 0, 'an epoch never goes down')
    this.epoch = answer.memberEpoch
    if (answer.assignment !== null) {
      const list = answer.assignment.topicPartitions
      this.owned = new Set(
        list.flatMap(({ topicId, partitions }) => partitions.map(p => `${topicId}:${p}`))
      )
    }
    return 'NONE'
  }

  get count(): number {
    return this.owned.size
  }

  #partitions() {
    const byTopic = new Map<string, number[]>()
    for (const tp of this.owned) {
      const [topicId = '', partition] = tp.split(':')
      byTopic.set(topicId, [...(byTopic.get(topicId) ?? []), Number(partition)])
    }
    return [...byTopic].map(([topicId, partitions]) => ({ topicId, partitions }))
  }
}

/** Heartbeats of all, until it is so. No partition ever has two owners. */
export async function until(members: readonly Member[], so: () => boolean): Promise<void> {
  for (let round = 0; !so(); round++) {
    assert(
      round < 100_000,
      `after ${round} rounds: ${members.map(({ epoch, count }) => `${epoch}:${count}`).join(' ')}`
    )
    for (const member of members) {
      assert.equal(await member.beat(), 'NONE')
      assertOneOwner(members)
    }
  }
}

export function assertOneOwner(members: readonly Member[]): void {
  const all = members.flatMap(({ owned }) => [...owned])
  assert.equal(new Set(all).size, all.length, 'a partition has one owner')
}

export interface CommitOptions {
  readonly memberId?: string
  readonly epoch?: number
  readonly metadata?: string
  readonly version?: number
}

/** Commits offsets, by partition; resolves with the errors' names, by partition. */
export async function commit(
  wire: Wire,
  groupId: string,
  topic: string,
  offsets: Readonly<Record<number, number>>,
  { memberId = '', epoch = -1, metadata = '', version = 9 }: CommitOptions = {}
): Promise<string[]> {
  const partitions = Object.entries(offsets).map(([partition, offset]) => ({
    partitionIndex: Number(partition),
    committedOffset: offset,
    committedMetadata: metadata
  }))
  const answer = await wire.ask(OffsetCommit, version, {
    groupId,
    memberId,
    generationIdOrMemberEpoch: epoch,
    topics: [{ name: topic, partitions }]
  })
  return answer.topics.flatMap(found => found.partitions.map(p => kafkaErrorName(p.errorCode)))
}

/** Committed offsets: 'topic-partition' to offset; or an error's name. */
export async function committed(
  wire: Wire,
  groupId: string,
  topics: Readonly<Record<string, readonly number[]>> | null = null,
  requireStable = false
): Promise<Record<string, number | string> | string> {
  const asked =
    topics && Object.entries(topics).map(([name, list]) => ({ name, partitionIndexes: list }))
  const groups = [{ groupId, topics: asked }]
  const answer = await wire.ask(OffsetFetch, 9, { groups, requireStable })
  const [group] = answer.groups
  assert(group)
  if (group.errorCode !== 0) return kafkaErrorName(group.errorCode)
  const found: Record<string, number | string> = {}
  for (const { name, partitions } of group.topics) {
    for (const { partitionIndex, committedOffset, errorCode } of partitions) {
      found[`${name}-${partitionIndex}`] =
        errorCode === 0 ? committedOffset : kafkaErrorName(errorCode)
    }
  }
  return found
}

export async function withWire(site: Site, run: (wire: Wire) => Promise<void>): Promise<void> {
  const wire = await Wire.connect(site.env, site.bootstrap)
  try {
    await run(wire)
  } finally {
    await wire.close()
  }
}

/** A transactional producer that only commits offsets (KIP-890: the group joins the transaction by it). */
export class Transaction {
  readonly wire: Wire
  readonly id = unique('transaction')
  producerId = -1n
  producerEpoch = -1

  constructor(wire: Wire) {
    this.wire = wire
  }

  async commit(
    groupId: string,
    topic: string,
    offsets: Readonly<Record<number, number>>,
    member: { readonly memberId?: string; readonly generationIdOrMemberEpoch?: number } = {}
  ): Promise<string> {
    if (this.producerId < 0n) await this.#init()
    const partitions = Object.entries(offsets).map(([partition, offset]) => ({
      partitionIndex: Number(partition),
      committedOffset: offset,
      committedMetadata: null
    }))
    for (;;) {
      const answer = await this.wire.ask(TxnOffsetCommit, 5, {
        transactionalId: this.id,
        groupId,
        producerId: this.producerId,
        producerEpoch: this.producerEpoch,
        ...member,
        topics: [{ name: topic, partitions }]
      })
      const codes = answer.topics.flatMap(found => found.partitions.map(p => p.errorCode))
      const name = kafkaErrorName(Math.max(...codes))
      // Kafka is still ending the transaction before.
      if (name !== 'CONCURRENT_TRANSACTIONS') return name
    }
  }

  async end(committed: boolean): Promise<void> {
    const answer = await this.wire.ask(EndTxn, 5, {
      transactionalId: this.id,
      producerId: this.producerId,
      producerEpoch: this.producerEpoch,
      committed
    })
    assert.equal(answer.errorCode, 0)
    this.producerId = answer.producerId
    this.producerEpoch = answer.producerEpoch
  }

  async #init(): Promise<void> {
    for (;;) {
      const answer = await this.wire.ask(InitProducerId, 4, {
        transactionalId: this.id,
        transactionTimeoutMs: 60_000
      })
      if (answer.errorCode !== 0) continue
      this.producerId = answer.producerId
      this.producerEpoch = answer.producerEpoch
      return
    }
  }
}
