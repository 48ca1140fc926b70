/** A partition as callers name it, and a place in it. */

/** A partition of a topic. */
export interface TopicPartition {
  /** The topic's name. */
  readonly topic: string
  /** The partition's number, from 0. */
  readonly partition: number
}

/** An exact offset of a partition. */
export interface TopicPartitionOffset extends TopicPartition {
  /** The next record to be delivered is the first at or after it. */
  readonly offset: number
}
