/** AlterClientQuotas (49): changes quotas (KIP-546). */
import { api, array, bool, float64, int16, int32, string } from '../schema.ts'

export const AlterClientQuotas = api({
  key: 49,
  name: 'AlterClientQuotas',
  versions: [0, 1],
  flexible: 1,
  to: 'controller',
  request: {
    entries: array({
      entity: array({
        entityType: string(),
        entityName: string({ nullable: 0 })
      }),
      ops: array({
        key: string(),
        value: float64(),
        remove: bool()
      })
    }),
    validateOnly: bool()
  },
  response: {
    throttleTimeMs: int32(),
    entries: array({
      errorCode: int16(),
      errorMessage: string({ nullable: 0 }),
      entity: array({
        entityType: string(),
        entityName: string({ nullable: 0 })
      })
    })
  }
})
