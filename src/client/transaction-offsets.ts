/** What a transaction needs of a consumer to commit its offsets: shared by producer and consumer, which know nothing else of each other. */

/** The offsets to commit, and as whom. */
export interface TransactionOffsets {
  readonly group: string
  /** Default: none, and the coordinator doesn't check that the group's member is still the owner (KIP-447). */
  readonly memberId?: string | undefined
  /** A classic group's generation, or the member epoch of KIP-848. */
  readonly generation?: number | undefined
  readonly groupInstanceId?: string | null | undefined
  readonly offsets: readonly TransactionOffset[]
}

export interface TransactionOffset {
  readonly topic: string
  readonly partition: number
  /** Of the next record to read. */
  readonly offset: number
  readonly leaderEpoch?: number | undefined
  readonly metadata?: string | null | undefined
}

/** A consumer is one. */
export interface TransactionOffsetsSource {
  /**
   * What was handled so far, as of now. Throws when a record of an older rewind epoch is among it: the transaction
   * is then aborted.
   */
  transactionOffsets(): TransactionOffsets | Promise<TransactionOffsets>
}
