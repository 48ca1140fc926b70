/** DescribeClientQuotas (48): reads quotas (KIP-546). */
import { api, array, bool, float64, int16, int32, int8, string } from '../schema.ts'

export const DescribeClientQuotas = api({
  key: 48,
  name: 'DescribeClientQuotas',
  versions: [0, 1],
  flexible: 1,
  to: 'any',
  request: {
    components: array({
      entityType: string(),
      matchType: int8(),
      match: string({ nullable: 0 })
    }),
    strict: bool()
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0 }),
    entries: array(
      {
        entity: array({
          entityType: string(),
          entityName: string({ nullable: 0 })
        }),
        values: array({
          key: string(),
          value: float64()
        })
      },
      { nullable: 0 }
    )
  }
})
