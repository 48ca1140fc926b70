/** Fetch (1): reads record batches from partitions that the broker leads; a session (KIP-227) sends only what changed. */
import {
  api,
  array,
  int16,
  int32,
  int64,
  int8,
  opaque64,
  records,
  string,
  struct,
  uuid
} from '../schema.ts'

export const Fetch = api({
  key: 1,
  name: 'Fetch',
  versions: [4, 18],
  flexible: 12,
  to: 'leader',
  lane: 'fetch',
  request: {
    clusterId: string({ since: 12, nullable: 12, default: null, tag: 0, ignorable: true }),
    replicaId: int32({ until: 14, default: -1 }),
    replicaState: struct(
      {
        replicaId: int32({ default: -1 }),
        replicaEpoch: opaque64({ default: -1n })
      },
      { since: 15, tag: 1 }
    ),
    maxWaitMs: int32(),
    minBytes: int32(),
    maxBytes: int32({ default: 2147483647, ignorable: true }),
    isolationLevel: int8({ default: 0, ignorable: true }),
    sessionId: int32({ since: 7, default: 0, ignorable: true }),
    sessionEpoch: int32({ since: 7, default: -1, ignorable: true }),
    topics: array({
      topic: string({ until: 12, ignorable: true }),
      topicId: uuid({ since: 13, ignorable: true }),
      partitions: array({
        partition: int32(),
        currentLeaderEpoch: int32({ since: 9, default: -1, ignorable: true }),
        fetchOffset: int64(),
        lastFetchedEpoch: int32({ since: 12, default: -1 }),
        logStartOffset: int64({ since: 5, default: -1, ignorable: true }),
        partitionMaxBytes: int32(),
        replicaDirectoryId: uuid({ since: 17, tag: 0, ignorable: true }),
        highWatermark: opaque64({
          since: 18,
          default: 9223372036854775807n,
          tag: 1,
          ignorable: true
        })
      })
    }),
    forgottenTopicsData: array(
      {
        topic: string({ until: 12, ignorable: true }),
        topicId: uuid({ since: 13, ignorable: true }),
        partitions: array(int32())
      },
      { since: 7 }
    ),
    rackId: string({ since: 11, default: '', ignorable: true })
  },
  response: {
    throttleTimeMs: int32({ ignorable: true }),
    errorCode: int16({ since: 7, ignorable: true }),
    sessionId: int32({ since: 7, default: 0 }),
    responses: array({
      topic: string({ until: 12, ignorable: true }),
      topicId: uuid({ since: 13, ignorable: true }),
      partitions: array({
        partitionIndex: int32(),
        errorCode: int16(),
        highWatermark: int64(),
        lastStableOffset: int64({ default: -1, ignorable: true }),
        logStartOffset: int64({ since: 5, default: -1, ignorable: true }),
        divergingEpoch: struct(
          {
            epoch: int32({ default: -1 }),
            endOffset: int64({ default: -1 })
          },
          { since: 12, tag: 0 }
        ),
        currentLeader: struct(
          {
            leaderId: int32({ default: -1 }),
            leaderEpoch: int32({ default: -1 })
          },
          { since: 12, tag: 1 }
        ),
        snapshotId: struct(
          {
            endOffset: int64({ default: -1 }),
            epoch: int32({ default: -1 })
          },
          { since: 12, tag: 2 }
        ),
        abortedTransactions: array(
          {
            producerId: opaque64(),
            firstOffset: int64()
          },
          { nullable: 4, ignorable: true }
        ),
        preferredReadReplica: int32({ since: 11, default: -1 }),
        records: records()
      })
    }),
    nodeEndpoints: array(
      {
        nodeId: int32(),
        host: string(),
        port: int32(),
        rack: string({ nullable: 16, default: null })
      },
      { since: 16, tag: 0 }
    )
  }
})
