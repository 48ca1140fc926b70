/**
 * ControllerCreateGroup (20481): makes a group before it has members, as the design of 2013 did. It needn't be sent: the
 * first RegisterConsumer makes the group too. See controller-list-groups.ts for where these requests come from.
 */
import { api, int16, int32, int8, string } from '../schema.ts'

export const ControllerCreateGroup = api({
  key: 20481,
  name: 'ControllerCreateGroup',
  versions: [0, 0],
  flexible: 0,
  to: 'node',
  request: {
    groupId: string(),
    /** Of members that say -1. */
    sessionTimeoutMs: int32(),
    /** Of members that say -1: 0 earliest, 1 latest, 2 none. */
    startFrom: int8()
  },
  response: {
    errorCode: int16(),
    errorMessage: string({ nullable: 0, default: null }),
    groupId: string()
  }
})
