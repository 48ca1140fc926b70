/** CreateTopics (19): creates topics. */
import { api, array, bool, int16, int32, int8, string, uuid } from '../schema.ts'

export const CreateTopics = api({
  key: 19,
  name: 'CreateTopics',
  versions: [2, 7],
  flexible: 5,
  to: 'controller',
  lane: 'wait',
  request: {
    topics: array({
      name: string(),
      numPartitions: int32(),
      replicationFactor: int16(),
      assignments: array({
        partitionIndex: int32(),
        brokerIds: array(int32())
      }),
      configs: array({
        name: string(),
        value: string({ nullable: 2 })
      })
    }),
    timeoutMs: int32({ default: 60000 }),
    validateOnly: bool({ default: false })
  },
  response: {
    throttleTimeMs: int32({ ignorable: true }),
    topics: array({
      name: string(),
      topicId: uuid({ since: 7, ignorable: true }),
      errorCode: int16(),
      errorMessage: string({ nullable: 2, ignorable: true }),
      topicConfigErrorCode: int16({ since: 5, tag: 0, ignorable: true }),
      numPartitions: int32({ since: 5, default: -1, ignorable: true }),
      replicationFactor: int16({ since: 5, default: -1, ignorable: true }),
      configs: array(
        {
          name: string(),
          value: string({ nullable: 5 }),
          readOnly: bool(),
          configSource: int8({ default: -1, ignorable: true }),
          isSensitive: bool()
        },
        { since: 5, nullable: 5, ignorable: true }
      )
    })
  }
})
