/** DescribeAcls (29): lists access rules. */
import { api, array, int16, int32, int8, string } from '../schema.ts'

export const DescribeAcls = api({
  key: 29,
  name: 'DescribeAcls',
  versions: [1, 3],
  flexible: 2,
  to: 'any',
  request: {
    resourceTypeFilter: int8(),
    resourceNameFilter: string({ nullable: 1 }),
    patternTypeFilter: int8({ default: 3 }),
    principalFilter: string({ nullable: 1 }),
    hostFilter: string({ nullable: 1 }),
    operation: int8(),
    permissionType: int8()
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 1 }),
    resources: array({
      resourceType: int8(),
      resourceName: string(),
      patternType: int8({ default: 3 }),
      acls: array({
        principal: string(),
        host: string(),
        operation: int8(),
        permissionType: int8()
      })
    })
  }
})
