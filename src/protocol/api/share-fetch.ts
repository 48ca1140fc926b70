/** ShareFetch (78): acquires records for a member of a share group (KIP-932). */
import {
  api,
  array,
  bool,
  int16,
  int32,
  int64,
  int8,
  records,
  string,
  struct,
  uuid
} from '../schema.ts'

export const ShareFetch = api({
  key: 78,
  name: 'ShareFetch',
  versions: [1, 2],
  flexible: 0,
  to: 'leader',
  lane: 'fetch',
  request: {
    groupId: string({ nullable: 1, default: null }),
    memberId: string({ nullable: 1 }),
    shareSessionEpoch: int32(),
    maxWaitMs: int32(),
    minBytes: int32(),
    maxBytes: int32({ default: 2147483647 }),
    maxRecords: int32(),
    batchSize: int32(),
    shareAcquireMode: int8({ since: 2, default: 0, ignorable: true }),
    isRenewAck: bool({ since: 2, default: false }),
    topics: array({
      topicId: uuid(),
      partitions: array({
        partitionIndex: int32(),
        acknowledgementBatches: array({
          firstOffset: int64(),
          lastOffset: int64(),
          acknowledgeTypes: array(int8())
        })
      })
    }),
    forgottenTopicsData: array({
      topicId: uuid(),
      partitions: array(int32())
    })
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 1, default: null }),
    acquisitionLockTimeoutMs: int32(),
    responses: array({
      topicId: uuid(),
      partitions: array({
        partitionIndex: int32(),
        errorCode: int16(),
        errorMessage: string({ nullable: 1, default: null }),
        acknowledgeErrorCode: int16(),
        acknowledgeErrorMessage: string({ nullable: 1, default: null }),
        currentLeader: struct({
          leaderId: int32(),
          leaderEpoch: int32()
        }),
        records: records(),
        acquiredRecords: array({
          firstOffset: int64(),
          lastOffset: int64(),
          deliveryCount: int16()
        })
      })
    }),
    nodeEndpoints: array({
      nodeId: int32(),
      host: string(),
      port: int32(),
      rack: string({ nullable: 1, default: null })
    })
  }
})
