/** ListConfigResources (74): lists the resources that have configuration (KIP-1142). */
import { api, array, int16, int32, int8, string } from '../schema.ts'

export const ListConfigResources = api({
  key: 74,
  name: 'ListConfigResources',
  versions: [0, 1],
  flexible: 0,
  to: 'any',
  request: {
    resourceTypes: array(int8(), { since: 1 })
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    configResources: array({
      resourceName: string(),
      resourceType: int8({ since: 1, default: 16, ignorable: true })
    })
  }
})
