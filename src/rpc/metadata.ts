/**
 * What is known of the cluster, as an immutable value: each refresh makes a new one, so whoever holds one
 * sees a consistent picture, and the selectors are pure.
 */
import type { Metadata as MetadataApi } from '../protocol/api/metadata.ts'
import { KafkaError, isRetriable } from '../protocol/errors.ts'
import type { ResponseOf } from '../protocol/schema.ts'

/** A broker as the cluster tells of it. */
export interface BrokerNode {
  /** The broker's id. */
  readonly id: number
  /** Where it listens. */
  readonly host: string
  /** Where it listens. */
  readonly port: number
  /** Its rack or zone; null: not said. */
  readonly rack: string | null
}

/** A partition as the cluster tells of it. */
export interface PartitionMetadata {
  /** The topic it is of. */
  readonly topic: string
  /** Its number, from 0. */
  readonly partition: number
  /** -1: there is none at present. */
  readonly leader: number
  /** How often it changed leaders; -1: not told. */
  readonly leaderEpoch: number
  /** Ids of the brokers that hold it. */
  readonly replicas: readonly number[]
  /** Ids of the replicas that are in sync. */
  readonly isr: readonly number[]
}

/** A topic as the cluster tells of it. */
export interface TopicMetadata {
  /** Its name. */
  readonly topic: string
  /** base64url uuid; zeros from brokers without topic ids. */
  readonly topicId: string
  /** One of Kafka's own, as __consumer_offsets. */
  readonly internal: boolean
  /** By number: `partitions[3]` is partition 3. */
  readonly partitions: readonly PartitionMetadata[]
}

/** What is known of the cluster at a moment. A value: a newer one takes its place. */
export interface Metadata {
  /** The cluster's id; null: not told. */
  readonly clusterId: string | null
  /** -1: unknown. */
  readonly controller: number
  /** By id. */
  readonly brokers: ReadonlyMap<number, BrokerNode>
  /** By name: the topics that somebody asked for and that exist. */
  readonly topics: ReadonlyMap<string, TopicMetadata>
  /** Clock.monotonic() when it was received; -Infinity before the first. */
  readonly at: number
}

/** What is known before anything was asked. */
export const noMetadata: Metadata = {
  clusterId: null,
  controller: -1,
  brokers: new Map(),
  topics: new Map(),
  at: -Infinity
}

/** -1: not known, or none at present. */
export function leaderOf(metadata: Metadata, topic: string, partition: number): number {
  return metadata.topics.get(topic)?.partitions[partition]?.leader ?? -1
}

/** The topic with this id, whatever its name. */
export function topicById(metadata: Metadata, topicId: string): TopicMetadata | undefined {
  if (topicId === noTopicId) return undefined
  for (const topic of metadata.topics.values()) if (topic.topicId === topicId) return topic
  return undefined
}

/** What brokers without topic ids give. */
export const noTopicId = 'AAAAAAAAAAAAAAAAAAAAAA'

type MetadataResponse = ResponseOf<typeof MetadataApi>

/**
 * The value after a broker's answer about `asked` topics. Topics that weren't asked for are not taken, so that
 * a broker can't fill memory. What the answer says badly or not at all stays as it was, except that a topic the
 * broker doesn't know (any more) goes.
 */
export function metadataAfter(
  before: Metadata,
  response: MetadataResponse,
  asked: ReadonlySet<string>,
  at: number
): Metadata {
  const topics = new Map<string, TopicMetadata>()
  for (const [name, topic] of before.topics) if (asked.has(name)) topics.set(name, topic)
  for (const { name, errorCode, ...found } of response.topics) {
    if (name === null || !asked.has(name)) continue
    if (errorCode === KafkaError.NONE) {
      const topic = topicFrom(name, found, topics.get(name))
      if (topic) topics.set(name, topic)
    } else if (!isPassing(errorCode)) topics.delete(name)
  }
  return {
    clusterId: response.clusterId ?? before.clusterId,
    controller: response.controllerId,
    brokers: brokersFrom(response.brokers, before.brokers),
    topics,
    at
  }
}

/** Who leads a partition now, as a broker that no longer does answered (KIP-951). */
export interface LeaderHint {
  /** The topic's name. */
  readonly topic: string
  /** The partition's number, from 0. */
  readonly partition: number
  /** The broker that leads it. */
  readonly leader: number
  /** How often it changed leaders. */
  readonly leaderEpoch: number
}

/** Where a leader of a hint listens. */
export type LeaderEndpoint = MetadataResponse['brokers'][number]

/** The value with what `hints` say, where that is newer; `before` itself when they say nothing new. */
export function metadataWithLeaders(
  before: Metadata,
  hints: readonly LeaderHint[],
  endpoints: readonly LeaderEndpoint[]
): Metadata {
  const brokers = new Map([...before.brokers, ...brokersFrom(endpoints, new Map())])
  const topics = new Map(before.topics)
  for (const { topic, partition, leader, leaderEpoch } of hints) {
    const known = topics.get(topic)
    const at = known?.partitions[partition]
    if (!known || !at || leaderEpoch <= at.leaderEpoch || !brokers.has(leader)) continue
    topics.set(topic, {
      ...known,
      partitions: known.partitions.with(partition, { ...at, leader, leaderEpoch })
    })
  }
  const changed = [...topics].some(([name, topic]) => before.topics.get(name) !== topic)
  return changed ? { ...before, brokers, topics } : before
}

/** A topic's own codes that say nothing about whether it exists. */
function isPassing(errorCode: number): boolean {
  return errorCode !== KafkaError.UNKNOWN_TOPIC_OR_PARTITION && isRetriable(errorCode)
}

function brokersFrom(
  brokers: MetadataResponse['brokers'],
  before: ReadonlyMap<number, BrokerNode>
): ReadonlyMap<number, BrokerNode> {
  const usable = brokers.filter(({ nodeId, host, port }) => {
    return nodeId >= 0 && host !== '' && port > 0 && port <= 65_535
  })
  // An answer with no broker at all is one of a broker that is starting.
  if (usable.length === 0) return before
  return new Map(
    usable.slice(0, mostBrokers).map(({ nodeId: id, host, port, rack }) => {
      return [id, { id, host, port, rack }]
    })
  )
}

/** More than any Kafka has; what else an answer names is not taken. */
const mostBrokers = 10_000

type TopicAnswer = Omit<MetadataResponse['topics'][number], 'name' | 'errorCode'>

/** As the answer has it; undefined when its partitions are not 0 … n-1. */
export function topicFrom(
  topic: string,
  { topicId, isInternal, partitions: answered }: TopicAnswer,
  before?: TopicMetadata
): TopicMetadata | undefined {
  const known = before && sameTopic(before.topicId, topicId) ? before.partitions : []
  const partitions = answered
    .map(({ partitionIndex: partition, leaderId: leader, leaderEpoch, replicaNodes, isrNodes }) => {
      return { topic, partition, leader, leaderEpoch, replicas: replicaNodes, isr: isrNodes }
    })
    .sort((a, b) => a.partition - b.partition)
    .map(found => newer(found, known[found.partition]))
  if (partitions.some(({ partition }, i) => partition !== i)) return undefined
  return { topic, topicId, internal: isInternal, partitions }
}

/** A topic that was deleted and made again has another id, and epochs that begin anew. */
function sameTopic(a: string, b: string): boolean {
  return a === b || a === noTopicId || b === noTopicId
}

/** A broker that lags may name an older leader: an older epoch never replaces a newer one (KIP-320). */
function newer(found: PartitionMetadata, known: PartitionMetadata | undefined): PartitionMetadata {
  return known && found.leaderEpoch >= 0 && found.leaderEpoch < known.leaderEpoch ? known : found
}
