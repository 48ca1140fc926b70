/** CreatePartitions (37): adds partitions to topics. */
import { api, array, bool, int16, int32, string } from '../schema.ts'

export const CreatePartitions = api({
  key: 37,
  name: 'CreatePartitions',
  versions: [0, 3],
  flexible: 2,
  to: 'controller',
  lane: 'wait',
  request: {
    topics: array({
      name: string(),
      count: int32(),
      assignments: array(
        {
          brokerIds: array(int32())
        },
        { nullable: 0 }
      )
    }),
    timeoutMs: int32(),
    validateOnly: bool()
  },
  response: {
    throttleTimeMs: int32(),
    results: array({
      name: string(),
      errorCode: int16(),
      errorMessage: string({ nullable: 0, default: null })
    })
  }
})
