/** ElectLeaders (43): elects leaders for partitions. */
import { api, array, int16, int32, int8, string } from '../schema.ts'

export const ElectLeaders = api({
  key: 43,
  name: 'ElectLeaders',
  versions: [0, 2],
  flexible: 2,
  to: 'controller',
  lane: 'wait',
  request: {
    electionType: int8({ since: 1 }),
    topicPartitions: array(
      {
        topic: string(),
        partitions: array(int32())
      },
      { nullable: 0 }
    ),
    timeoutMs: int32({ default: 60000 })
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16({ since: 1 }),
    replicaElectionResults: array({
      topic: string(),
      partitionResult: array({
        partitionId: int32(),
        errorCode: int16(),
        errorMessage: string({ nullable: 0 })
      })
    })
  }
})
