/** LeaveGroup (13): leaves a classic group. */
import { api, array, int16, int32, string } from '../schema.ts'

export const LeaveGroup = api({
  key: 13,
  name: 'LeaveGroup',
  versions: [0, 5],
  flexible: 4,
  to: 'group',
  request: {
    groupId: string(),
    memberId: string({ until: 2 }),
    members: array(
      {
        memberId: string(),
        groupInstanceId: string({ nullable: 3, default: null }),
        reason: string({ since: 5, nullable: 5, default: null, ignorable: true })
      },
      { since: 3 }
    )
  },
  response: {
    throttleTimeMs: int32({ since: 1, ignorable: true }),
    errorCode: int16(),
    members: array(
      {
        memberId: string(),
        groupInstanceId: string({ nullable: 3 }),
        errorCode: int16()
      },
      { since: 3 }
    )
  }
})
