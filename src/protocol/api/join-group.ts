/** JoinGroup (11): joins a classic group; answered when all members have joined. */
import { api, array, bool, bytes, int16, int32, string } from '../schema.ts'

export const JoinGroup = api({
  key: 11,
  name: 'JoinGroup',
  versions: [0, 9],
  flexible: 6,
  to: 'group',
  lane: 'group',
  request: {
    groupId: string(),
    sessionTimeoutMs: int32(),
    rebalanceTimeoutMs: int32({ since: 1, default: -1, ignorable: true }),
    memberId: string(),
    groupInstanceId: string({ since: 5, nullable: 5, default: null }),
    protocolType: string(),
    protocols: array({
      name: string(),
      metadata: bytes()
    }),
    reason: string({ since: 8, nullable: 8, default: null, ignorable: true })
  },
  response: {
    throttleTimeMs: int32({ since: 2, ignorable: true }),
    errorCode: int16(),
    generationId: int32({ default: -1 }),
    protocolType: string({ since: 7, nullable: 7, default: null, ignorable: true }),
    protocolName: string({ nullable: 7 }),
    leader: string(),
    skipAssignment: bool({ since: 9, default: false }),
    memberId: string(),
    members: array({
      memberId: string(),
      groupInstanceId: string({ since: 5, nullable: 5, default: null, ignorable: true }),
      metadata: bytes()
    })
  }
})
