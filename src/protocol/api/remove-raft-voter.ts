/** RemoveRaftVoter (81): removes a voter from the KRaft quorum (KIP-853). */
import { api, int16, int32, string, uuid } from '../schema.ts'

export const RemoveRaftVoter = api({
  key: 81,
  name: 'RemoveRaftVoter',
  versions: [0, 0],
  flexible: 0,
  to: 'controller',
  request: {
    clusterId: string({ nullable: 0 }),
    voterId: int32(),
    voterDirectoryId: uuid()
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0, ignorable: true })
  }
})
