/** What a transaction needs of a consumer to commit its offsets: shared by producer and consumer, which know nothing else of each other. */

/** The offsets to commit, and as whom. */
export interface TransactionOffsets {
  /** The group whose offsets they are. */
  readonly group: string
  /** Default: none, and the coordinator doesn't check that the group's member is still the owner (KIP-447). */
  readonly memberId?: string | undefined
  /** A classic group's generation, or the member epoch of KIP-848. */
  readonly generation?: number | undefined
  /** Of a static member (KIP-345). Default: none. */
  readonly groupInstanceId?: string | null | undefined
  /** One for each partition. */
  readonly offsets: readonly TransactionOffset[]
}

/** A position that is committed with a transaction. */
export interface TransactionOffset {
  /** The topic's name. */
  readonly topic: string
  /** The partition's number, from 0. */
  readonly partition: number
  /** Of the next record to read. */
  readonly offset: number
  /** Of the record before the offset. Default -1: unknown. */
  readonly leaderEpoch?: number | undefined
  /** Text for other readers of the offset. Default: none. */
  readonly metadata?: string | null | undefined
}

/** A consumer is one. */
export interface TransactionOffsetsSource {
  /**
   * What was handled so far, as of now. Throws when a record of an older rewind epoch is among it: the transaction
   * is then aborted.
   */
  transactionOffsets(): TransactionOffsets | Promise<TransactionOffsets>
  /** What came of the transaction that took `offsets`; 'unknown': it may yet take effect. Default: it isn't told. */
  transactionEnded?(offsets: TransactionOffsets, outcome: TransactionOutcome): void
}

export type TransactionOutcome = 'committed' | 'aborted' | 'unknown'
