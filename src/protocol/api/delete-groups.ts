/** DeleteGroups (42): deletes groups that have no members. */
import { api, array, int16, int32, string } from '../schema.ts'

export const DeleteGroups = api({
  key: 42,
  name: 'DeleteGroups',
  versions: [0, 3],
  flexible: 2,
  to: 'group',
  request: {
    groupsNames: array(string())
  },
  response: {
    throttleTimeMs: int32(),
    results: array({
      groupId: string(),
      errorCode: int16(),
      errorMessage: string({ since: 3, nullable: 3, default: null, ignorable: true })
    })
  }
})
