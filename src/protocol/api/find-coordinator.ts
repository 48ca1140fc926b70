/** FindCoordinator (10): asks which broker coordinates a group or a transaction; several keys from version 4 on. */
import { api, array, int16, int32, int8, string } from '../schema.ts'

export const FindCoordinator = api({
  key: 10,
  name: 'FindCoordinator',
  versions: [0, 6],
  flexible: 3,
  to: 'any',
  request: {
    key: string({ until: 3 }),
    keyType: int8({ since: 1, default: 0 }),
    coordinatorKeys: array(string(), { since: 4 })
  },
  response: {
    throttleTimeMs: int32({ since: 1, ignorable: true }),
    errorCode: int16({ until: 3 }),
    errorMessage: string({ since: 1, until: 3, nullable: 1, ignorable: true }),
    nodeId: int32({ until: 3 }),
    host: string({ until: 3 }),
    port: int32({ until: 3 }),
    coordinators: array(
      {
        key: string(),
        nodeId: int32(),
        host: string(),
        port: int32(),
        errorCode: int16(),
        errorMessage: string({ nullable: 4, ignorable: true })
      },
      { since: 4 }
    )
  }
})
