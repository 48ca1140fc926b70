/** CreateAcls (30): adds access rules. */
import { api, array, int16, int32, int8, string } from '../schema.ts'

export const CreateAcls = api({
  key: 30,
  name: 'CreateAcls',
  versions: [1, 3],
  flexible: 2,
  to: 'controller',
  request: {
    creations: array({
      resourceType: int8(),
      resourceName: string(),
      resourcePatternType: int8({ default: 3 }),
      principal: string(),
      host: string(),
      operation: int8(),
      permissionType: int8()
    })
  },
  response: {
    throttleTimeMs: int32(),
    results: array({
      errorCode: int16(),
      errorMessage: string({ nullable: 1 })
    })
  }
})
