/** AlterConfigs (33): replaces the whole configuration of a resource; IncrementalAlterConfigs changes parts. */
import { api, array, bool, int16, int32, int8, string } from '../schema.ts'

export const AlterConfigs = api({
  key: 33,
  name: 'AlterConfigs',
  versions: [0, 2],
  flexible: 2,
  to: 'controller',
  request: {
    resources: array({
      resourceType: int8(),
      resourceName: string(),
      configs: array({
        name: string(),
        value: string({ nullable: 0 })
      })
    }),
    validateOnly: bool()
  },
  response: {
    throttleTimeMs: int32(),
    responses: array({
      errorCode: int16(),
      errorMessage: string({ nullable: 0 }),
      resourceType: int8(),
      resourceName: string()
    })
  }
})
