/** DescribeGroups (15): describes classic groups and their members. */
import { api, array, bool, bytes, int16, int32, string } from '../schema.ts'

export const DescribeGroups = api({
  key: 15,
  name: 'DescribeGroups',
  versions: [0, 6],
  flexible: 5,
  to: 'group',
  request: {
    groups: array(string()),
    includeAuthorizedOperations: bool({ since: 3 })
  },
  response: {
    throttleTimeMs: int32({ since: 1, ignorable: true }),
    groups: array({
      errorCode: int16(),
      errorMessage: string({ since: 6, nullable: 6, default: null }),
      groupId: string(),
      groupState: string(),
      protocolType: string(),
      protocolData: string(),
      members: array({
        memberId: string(),
        groupInstanceId: string({ since: 4, nullable: 4, default: null, ignorable: true }),
        clientId: string(),
        clientHost: string(),
        memberMetadata: bytes(),
        memberAssignment: bytes()
      }),
      authorizedOperations: int32({ since: 3, default: -2147483648 })
    })
  }
})
