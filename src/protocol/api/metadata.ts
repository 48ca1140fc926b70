/** Metadata (3): asks for brokers, topics, partitions and their leaders. */
import { api, array, bool, int16, int32, string, uuid } from '../schema.ts'

export const Metadata = api({
  key: 3,
  name: 'Metadata',
  versions: [0, 13],
  flexible: 9,
  to: 'any',
  request: {
    topics: array(
      {
        topicId: uuid({ since: 10, ignorable: true }),
        name: string({ nullable: 10 })
      },
      { nullable: 1 }
    ),
    allowAutoTopicCreation: bool({ since: 4, default: true }),
    includeClusterAuthorizedOperations: bool({ since: 8, until: 10 }),
    includeTopicAuthorizedOperations: bool({ since: 8 })
  },
  response: {
    throttleTimeMs: int32({ since: 3, ignorable: true }),
    brokers: array({
      nodeId: int32(),
      host: string(),
      port: int32(),
      rack: string({ since: 1, nullable: 1, default: null, ignorable: true })
    }),
    clusterId: string({ since: 2, nullable: 2, default: null, ignorable: true }),
    controllerId: int32({ since: 1, default: -1, ignorable: true }),
    topics: array({
      errorCode: int16(),
      name: string({ nullable: 12 }),
      topicId: uuid({ since: 10, ignorable: true }),
      isInternal: bool({ since: 1, default: false, ignorable: true }),
      partitions: array({
        errorCode: int16(),
        partitionIndex: int32(),
        leaderId: int32(),
        leaderEpoch: int32({ since: 7, default: -1, ignorable: true }),
        replicaNodes: array(int32()),
        isrNodes: array(int32()),
        offlineReplicas: array(int32(), { since: 5, ignorable: true })
      }),
      topicAuthorizedOperations: int32({ since: 8, default: -2147483648 })
    }),
    clusterAuthorizedOperations: int32({ since: 8, until: 10, default: -2147483648 }),
    errorCode: int16({ since: 13, ignorable: true })
  }
})
