/** AlterPartitionReassignments (45): moves partitions to other brokers (KIP-455). */
import { api, array, bool, int16, int32, string } from '../schema.ts'

export const AlterPartitionReassignments = api({
  key: 45,
  name: 'AlterPartitionReassignments',
  versions: [0, 1],
  flexible: 0,
  to: 'controller',
  lane: 'wait',
  request: {
    timeoutMs: int32({ default: 60000 }),
    allowReplicationFactorChange: bool({ since: 1, default: true }),
    topics: array({
      name: string(),
      partitions: array({
        partitionIndex: int32(),
        replicas: array(int32(), { nullable: 0, default: null })
      })
    })
  },
  response: {
    throttleTimeMs: int32(),
    allowReplicationFactorChange: bool({ since: 1, default: true, ignorable: true }),
    errorCode: int16(),
    errorMessage: string({ nullable: 0 }),
    responses: array({
      name: string(),
      partitions: array({
        partitionIndex: int32(),
        errorCode: int16(),
        errorMessage: string({ nullable: 0 })
      })
    })
  }
})
