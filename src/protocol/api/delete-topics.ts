/** DeleteTopics (20): deletes topics, by name or id. */
import { api, array, int16, int32, string, uuid } from '../schema.ts'

export const DeleteTopics = api({
  key: 20,
  name: 'DeleteTopics',
  versions: [1, 6],
  flexible: 4,
  to: 'controller',
  lane: 'wait',
  request: {
    topics: array(
      {
        name: string({ nullable: 6, default: null }),
        topicId: uuid()
      },
      { since: 6 }
    ),
    topicNames: array(string(), { until: 5, ignorable: true }),
    timeoutMs: int32()
  },
  response: {
    throttleTimeMs: int32({ ignorable: true }),
    responses: array({
      name: string({ nullable: 6 }),
      topicId: uuid({ since: 6, ignorable: true }),
      errorCode: int16(),
      errorMessage: string({ since: 5, nullable: 5, default: null, ignorable: true })
    })
  }
})
