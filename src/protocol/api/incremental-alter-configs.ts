/** IncrementalAlterConfigs (44): changes single settings of topics, brokers and groups (KIP-339). */
import { api, array, bool, int16, int32, int8, string } from '../schema.ts'

export const IncrementalAlterConfigs = api({
  key: 44,
  name: 'IncrementalAlterConfigs',
  versions: [0, 1],
  flexible: 1,
  to: 'controller',
  request: {
    resources: array({
      resourceType: int8(),
      resourceName: string(),
      configs: array({
        name: string(),
        configOperation: int8(),
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
