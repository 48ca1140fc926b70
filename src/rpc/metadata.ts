/**
 * What is known of the cluster, as an immutable value: each refresh makes a new one, so whoever holds one
 * sees a consistent picture, and the selectors are pure.
 */

export interface BrokerNode {
  readonly id: number
  readonly host: string
  readonly port: number
  readonly rack: string | null
}

export interface PartitionMetadata {
  readonly topic: string
  readonly partition: number
  /** -1: there is none at present. */
  readonly leader: number
  readonly leaderEpoch: number
  readonly replicas: readonly number[]
  readonly isr: readonly number[]
}

export interface TopicMetadata {
  readonly topic: string
  /** base64url uuid; zeros from brokers without topic ids. */
  readonly topicId: string
  readonly internal: boolean
  /** By number: `partitions[3]` is partition 3. */
  readonly partitions: readonly PartitionMetadata[]
}

export interface Metadata {
  readonly clusterId: string | null
  /** -1: unknown. */
  readonly controller: number
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
