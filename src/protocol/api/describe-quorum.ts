/** DescribeQuorum (55): describes the KRaft quorum (KIP-836). */
import { api, array, int16, int32, int64, string, uint16, uuid } from '../schema.ts'

export const DescribeQuorum = api({
  key: 55,
  name: 'DescribeQuorum',
  versions: [0, 2],
  flexible: 0,
  to: 'controller',
  request: {
    topics: array({
      topicName: string(),
      partitions: array({
        partitionIndex: int32()
      })
    })
  },
  response: {
    errorCode: int16(),
    errorMessage: string({ since: 2, nullable: 2, ignorable: true }),
    topics: array({
      topicName: string(),
      partitions: array({
        partitionIndex: int32(),
        errorCode: int16(),
        errorMessage: string({ since: 2, nullable: 2, ignorable: true }),
        leaderId: int32(),
        leaderEpoch: int32(),
        highWatermark: int64(),
        currentVoters: array({
          replicaId: int32(),
          replicaDirectoryId: uuid({ since: 2 }),
          logEndOffset: int64(),
          lastFetchTimestamp: int64({ since: 1, default: -1, ignorable: true }),
          lastCaughtUpTimestamp: int64({ since: 1, default: -1, ignorable: true })
        }),
        observers: array({
          replicaId: int32(),
          replicaDirectoryId: uuid({ since: 2 }),
          logEndOffset: int64(),
          lastFetchTimestamp: int64({ since: 1, default: -1, ignorable: true }),
          lastCaughtUpTimestamp: int64({ since: 1, default: -1, ignorable: true })
        })
      })
    }),
    nodes: array(
      {
        nodeId: int32(),
        listeners: array({
          name: string(),
          host: string(),
          port: uint16()
        })
      },
      { since: 2 }
    )
  }
})
