/** Produce (0): appends record batches to partitions that the broker leads. */
import { api, array, int16, int32, int64, records, string, struct, uuid } from '../schema.ts'

export const Produce = api({
  key: 0,
  name: 'Produce',
  versions: [3, 13],
  flexible: 9,
  to: 'leader',
  lane: 'produce',
  request: {
    transactionalId: string({ nullable: 3, default: null }),
    acks: int16(),
    timeoutMs: int32(),
    topicData: array({
      name: string({ until: 12, ignorable: true }),
      topicId: uuid({ since: 13, ignorable: true }),
      partitionData: array({
        index: int32(),
        records: records()
      })
    })
  },
  response: {
    responses: array({
      name: string({ until: 12, ignorable: true }),
      topicId: uuid({ since: 13, ignorable: true }),
      partitionResponses: array({
        index: int32(),
        errorCode: int16(),
        baseOffset: int64(),
        logAppendTimeMs: int64({ default: -1, ignorable: true }),
        logStartOffset: int64({ since: 5, default: -1, ignorable: true }),
        recordErrors: array(
          {
            batchIndex: int32(),
            batchIndexErrorMessage: string({ nullable: 8, default: null })
          },
          { since: 8, ignorable: true }
        ),
        errorMessage: string({ since: 8, nullable: 8, default: null, ignorable: true }),
        currentLeader: struct(
          {
            leaderId: int32({ default: -1 }),
            leaderEpoch: int32({ default: -1 })
          },
          { since: 10, tag: 0 }
        )
      })
    }),
    throttleTimeMs: int32({ default: 0, ignorable: true }),
    nodeEndpoints: array(
      {
        nodeId: int32(),
        host: string(),
        port: int32(),
        rack: string({ nullable: 10, default: null })
      },
      { since: 10, tag: 0 }
    )
  }
})
