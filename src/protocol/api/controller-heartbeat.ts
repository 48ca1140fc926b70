/**
 * ControllerHeartbeat (20483): a member lives. The controller may hold it up to `maxWaitMs` and answers at once when it
 * has something to say, by the error code: GROUP_CHANGED, TOPICS_CHANGED, PARTITIONS_REWOUND. A broker answers the
 * requests of one connection in order, so it goes by a connection of its own. See controller-list-groups.ts for where
 * these requests come from.
 */
import { api, array, int16, int32, string, uuid } from '../schema.ts'

export const ControllerHeartbeat = api({
  key: 20483,
  name: 'ControllerHeartbeat',
  versions: [0, 0],
  flexible: 0,
  to: 'node',
  lane: 'wait',
  request: {
    groupId: string(),
    memberId: string(),
    generationId: int32(),
    /** 0: answer now. */
    maxWaitMs: int32({ default: 0 })
  },
  response: {
    errorCode: int16(),
    generationId: int32({ default: -1 }),
    /** With PARTITIONS_REWOUND: stop these, commit, and register. */
    rewound: array({ topicId: uuid(), topic: string(), partitions: array(int32()) })
  }
})
