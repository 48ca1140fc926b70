/** SyncGroup (14): hands out, or waits for, the assignment of a classic group's generation. */
import { api, array, bytes, int16, int32, string } from '../schema.ts'

export const SyncGroup = api({
  key: 14,
  name: 'SyncGroup',
  versions: [0, 5],
  flexible: 4,
  to: 'group',
  lane: 'group',
  request: {
    groupId: string(),
    generationId: int32(),
    memberId: string(),
    groupInstanceId: string({ since: 3, nullable: 3, default: null }),
    protocolType: string({ since: 5, nullable: 5, default: null, ignorable: true }),
    protocolName: string({ since: 5, nullable: 5, default: null, ignorable: true }),
    assignments: array({
      memberId: string(),
      assignment: bytes()
    })
  },
  response: {
    throttleTimeMs: int32({ since: 1, ignorable: true }),
    errorCode: int16(),
    protocolType: string({ since: 5, nullable: 5, default: null, ignorable: true }),
    protocolName: string({ since: 5, nullable: 5, default: null, ignorable: true }),
    assignment: bytes()
  }
})
