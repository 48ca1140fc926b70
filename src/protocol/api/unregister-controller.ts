/** UnregisterController (94): removes a controller from the cluster. */
import { api, int16, int32, string } from '../schema.ts'

export const UnregisterController = api({
  key: 94,
  name: 'UnregisterController',
  versions: [0, 0],
  flexible: 0,
  to: 'controller',
  request: {
    controllerId: int32()
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0 })
  }
})
