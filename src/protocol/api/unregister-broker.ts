/** UnregisterBroker (64): removes a broker from the cluster. */
import { api, int16, int32, string } from '../schema.ts'

export const UnregisterBroker = api({
  key: 64,
  name: 'UnregisterBroker',
  versions: [0, 0],
  flexible: 0,
  to: 'controller',
  request: {
    brokerId: int32()
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0 })
  }
})
