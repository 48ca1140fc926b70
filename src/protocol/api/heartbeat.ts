/** Heartbeat (12): tells a classic group's coordinator that a member lives. */
import { api, int16, int32, string } from '../schema.ts'

export const Heartbeat = api({
  key: 12,
  name: 'Heartbeat',
  versions: [0, 4],
  flexible: 4,
  to: 'group',
  request: {
    groupId: string(),
    generationId: int32(),
    memberId: string(),
    groupInstanceId: string({ since: 3, nullable: 3, default: null })
  },
  response: {
    throttleTimeMs: int32({ since: 1, ignorable: true }),
    errorCode: int16()
  }
})
