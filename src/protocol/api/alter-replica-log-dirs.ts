/** AlterReplicaLogDirs (34): moves replicas between a broker's directories. */
import { api, array, int16, int32, string } from '../schema.ts'

export const AlterReplicaLogDirs = api({
  key: 34,
  name: 'AlterReplicaLogDirs',
  versions: [1, 2],
  flexible: 2,
  to: 'node',
  request: {
    dirs: array({
      path: string(),
      topics: array({
        name: string(),
        partitions: array(int32())
      })
    })
  },
  response: {
    throttleTimeMs: int32(),
    results: array({
      topicName: string(),
      partitions: array({
        partitionIndex: int32(),
        errorCode: int16()
      })
    })
  }
})
