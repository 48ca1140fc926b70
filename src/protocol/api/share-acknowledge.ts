/** ShareAcknowledge (79): acknowledges records of a share group (KIP-932). */
import { api, array, bool, int16, int32, int64, int8, string, struct, uuid } from '../schema.ts'

export const ShareAcknowledge = api({
  key: 79,
  name: 'ShareAcknowledge',
  versions: [1, 2],
  flexible: 0,
  to: 'leader',
  lane: 'fetch',
  request: {
    groupId: string({ nullable: 1, default: null }),
    memberId: string({ nullable: 1 }),
    shareSessionEpoch: int32(),
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
    })
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 1, default: null }),
    acquisitionLockTimeoutMs: int32({ since: 2, ignorable: true }),
    responses: array({
      topicId: uuid(),
      partitions: array({
        partitionIndex: int32(),
        errorCode: int16(),
        errorMessage: string({ nullable: 1, default: null }),
        currentLeader: struct({
          leaderId: int32(),
          leaderEpoch: int32()
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
