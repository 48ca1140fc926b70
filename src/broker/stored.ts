/**
 * What the store holds beside record batches, declared in the language of the protocol. Each value begins with
 * the version it was written in; a version is never changed once released, and all are read.
 */
import { codec } from '../protocol/codec.ts'
import { Reader } from '../protocol/reader.ts'
import {
  type Fields,
  type Message,
  type Read,
  type Written,
  array,
  bool,
  int16,
  int32,
  int64,
  message,
  opaque64,
  string
} from '../protocol/schema.ts'
import { Writer } from '../protocol/writer.ts'

export const StoredCluster = message({
  name: 'StoredCluster',
  versions: [0, 0],
  flexible: 0,
  fields: { clusterId: string(), nextProducerId: opaque64() }
})

export const StoredTopic = message({
  name: 'StoredTopic',
  versions: [0, 0],
  flexible: 0,
  fields: {
    name: string(),
    replicationFactor: int16(),
    partitionCount: int32(),
    configs: array({ name: string(), value: string() })
  }
})

export const StoredPartition = message({
  name: 'StoredPartition',
  versions: [0, 0],
  flexible: 0,
  fields: {
    replicas: array(int32()),
    leader: int32(),
    leaderEpoch: int32(),
    /** Below it nothing is shown, though the batch that holds it may begin before. */
    startOffset: int64(),
    /** Bytes that were ever in the log before its first batch. */
    startPosition: int64(),
    /** Up to here the log has one record per key, but for what came since; 0: it was never compacted. */
    compactedTo: int64(),
    /** Bytes that compaction took out between start and end. */
    compactedBytes: int64(),
    epochs: array({ epoch: int32(), startOffset: int64() })
  }
})

/** What was true when the batch of this offset was appended. */
export const StoredIndexEntry = message({
  name: 'StoredIndexEntry',
  versions: [0, 0],
  flexible: 0,
  fields: {
    /** Bytes that were ever in the log before this batch. */
    position: int64(),
    /** The latest timestamp in the log before this batch, and the batch that has it; -1: none. */
    maxTimestamp: int64(),
    maxTimestampOffset: int64()
  }
})

export const StoredProducer = message({
  name: 'StoredProducer',
  versions: [0, 0],
  flexible: 0,
  fields: {
    epoch: int16(),
    coordinatorEpoch: int32(),
    lastTimestamp: int64(),
    /** -1: no transaction is open here. */
    transactionFirstOffset: int64(),
    batches: array({
      firstSequence: int32(),
      lastSequence: int32(),
      baseOffset: int64(),
      timestamp: int64()
    })
  }
})

export const StoredAborted = message({
  name: 'StoredAborted',
  versions: [0, 0],
  flexible: 0,
  fields: { producerId: opaque64(), firstOffset: int64(), lastStableOffset: int64() }
})

export const StoredTransaction = message({
  name: 'StoredTransaction',
  versions: [0, 0],
  flexible: 0,
  fields: {
    transactionalId: string(),
    producerId: opaque64(),
    producerEpoch: int16(),
    lastProducerId: opaque64(),
    lastProducerEpoch: int16(),
    timeoutMs: int32(),
    state: string(),
    startedAt: int64(),
    updatedAt: int64(),
    implicit: bool(),
    partitions: array({ topic: string(), partition: int32() }),
    groups: array(string())
  }
})

export function writeStored<F extends Fields>(stored: Message<F>, value: Written<F>): Buffer {
  const writer = new Writer()
  const version = stored.versions[1]
  writer.int16(version)
  codec(stored, version).write(writer, value)
  return writer.join()
}

/** Throws MALFORMED_FRAME when the bytes are damaged, UNSUPPORTED_VERSION when a newer Playhead wrote them. */
export function readStored<F extends Fields>(stored: Message<F>, bytes: Buffer): Read<F> {
  const reader = new Reader(bytes)
  const value = codec(stored, reader.int16()).read(reader)
  reader.finish(stored.name)
  return value
}
