/** ListPartitionReassignments (46): lists the moves in progress (KIP-455). */
import { api, array, int16, int32, string } from '../schema.ts'

export const ListPartitionReassignments = api({
  key: 46,
  name: 'ListPartitionReassignments',
  versions: [0, 0],
  flexible: 0,
  to: 'controller',
  request: {
    timeoutMs: int32({ default: 60000 }),
    topics: array(
      {
        name: string(),
        partitionIndexes: array(int32())
      },
      { nullable: 0, default: null }
    )
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0 }),
    topics: array({
      name: string(),
      partitions: array({
        partitionIndex: int32(),
        replicas: array(int32()),
        addingReplicas: array(int32()),
        removingReplicas: array(int32())
      })
    })
  }
})
