/** What the records of a batch have in common, in one object that all of them point to. */
import type { BatchView } from './batch.ts'

/** What all records of a batch share. Meant to be subclassed. */
export class RecordSource {
  readonly topic: string
  readonly partition: number
  /** The batch's records, decompressed. */
  readonly payload: Buffer
  readonly baseOffset: number
  readonly lastOffset: number
  readonly leaderEpoch: number
  readonly recordCount: number
  /** What records count their timestamps from; with `logAppendTime` the timestamp of all of them. */
  readonly baseTimestamp: number
  readonly logAppendTime: boolean

  /**
   * `payload`: `batch.payload`, or what `batch.decompress` gave. Throws CORRUPT_RECORDS when the batch's
   * timestamps are beyond the safe integers.
   */
  constructor(batch: BatchView, payload: Buffer, topic: string, partition: number) {
    const logAppendTime = batch.timestampType === 'LogAppendTime'
    this.topic = topic
    this.partition = partition
    this.payload = payload
    this.baseOffset = batch.baseOffset
    this.lastOffset = batch.lastOffset
    this.leaderEpoch = batch.leaderEpoch
    this.recordCount = batch.recordCount
    this.baseTimestamp = logAppendTime ? batch.maxTimestamp : batch.baseTimestamp
    this.logAppendTime = logAppendTime
  }
}
