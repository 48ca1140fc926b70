/** ListGroups (16): lists the groups that one broker coordinates. */
import { api, array, int16, int32, string } from '../schema.ts'

export const ListGroups = api({
  key: 16,
  name: 'ListGroups',
  versions: [0, 5],
  flexible: 3,
  to: 'node',
  request: {
    statesFilter: array(string(), { since: 4 }),
    typesFilter: array(string(), { since: 5 })
  },
  response: {
    throttleTimeMs: int32({ since: 1, ignorable: true }),
    errorCode: int16(),
    groups: array({
      groupId: string(),
      protocolType: string(),
      groupState: string({ since: 4, ignorable: true }),
      groupType: string({ since: 5, ignorable: true })
    })
  }
})
