/** DeleteAcls (31): removes access rules. */
import { api, array, int16, int32, int8, string } from '../schema.ts'

export const DeleteAcls = api({
  key: 31,
  name: 'DeleteAcls',
  versions: [1, 3],
  flexible: 2,
  to: 'controller',
  request: {
    filters: array({
      resourceTypeFilter: int8(),
      resourceNameFilter: string({ nullable: 1 }),
      patternTypeFilter: int8({ default: 3 }),
      principalFilter: string({ nullable: 1 }),
      hostFilter: string({ nullable: 1 }),
      operation: int8(),
      permissionType: int8()
    })
  },
  response: {
    throttleTimeMs: int32(),
    filterResults: array({
      errorCode: int16(),
      errorMessage: string({ nullable: 1 }),
      matchingAcls: array({
        errorCode: int16(),
        errorMessage: string({ nullable: 1 }),
        resourceType: int8(),
        resourceName: string(),
        patternType: int8({ default: 3 }),
        principal: string(),
        host: string(),
        operation: int8(),
        permissionType: int8()
      })
    })
  }
})
