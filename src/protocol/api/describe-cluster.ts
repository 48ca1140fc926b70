/** DescribeCluster (60): asks for the cluster's id, controller and brokers. */
import { api, array, bool, int16, int32, int8, string } from '../schema.ts'

export const DescribeCluster = api({
  key: 60,
  name: 'DescribeCluster',
  versions: [0, 2],
  flexible: 0,
  to: 'any',
  request: {
    includeClusterAuthorizedOperations: bool(),
    endpointType: int8({ since: 1, default: 1 }),
    includeFencedBrokers: bool({ since: 2 })
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0, default: null }),
    endpointType: int8({ since: 1, default: 1 }),
    clusterId: string(),
    controllerId: int32({ default: -1 }),
    brokers: array({
      brokerId: int32(),
      host: string(),
      port: int32(),
      rack: string({ nullable: 0, default: null }),
      isFenced: bool({ since: 2 })
    }),
    clusterAuthorizedOperations: int32({ default: -2147483648 })
  }
})
