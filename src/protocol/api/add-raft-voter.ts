/** AddRaftVoter (80): adds a voter to the KRaft quorum (KIP-853). */
import { api, array, bool, int16, int32, string, uint16, uuid } from '../schema.ts'

export const AddRaftVoter = api({
  key: 80,
  name: 'AddRaftVoter',
  versions: [0, 1],
  flexible: 0,
  to: 'controller',
  request: {
    clusterId: string({ nullable: 0 }),
    timeoutMs: int32(),
    voterId: int32(),
    voterDirectoryId: uuid(),
    listeners: array({
      name: string(),
      host: string(),
      port: uint16()
    }),
    ackWhenCommitted: bool({ since: 1, default: true })
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0, ignorable: true })
  }
})
