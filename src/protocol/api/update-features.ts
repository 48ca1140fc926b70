/** UpdateFeatures (57): raises or lowers finalized feature levels (KIP-584). */
import { api, array, bool, int16, int32, int8, string } from '../schema.ts'

export const UpdateFeatures = api({
  key: 57,
  name: 'UpdateFeatures',
  versions: [0, 2],
  flexible: 0,
  to: 'controller',
  request: {
    timeoutMs: int32({ default: 60000 }),
    featureUpdates: array({
      feature: string(),
      maxVersionLevel: int16(),
      allowDowngrade: bool({ until: 0 }),
      upgradeType: int8({ since: 1, default: 1 })
    }),
    validateOnly: bool({ since: 1, default: false })
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0 }),
    results: array(
      {
        feature: string(),
        errorCode: int16(),
        errorMessage: string({ nullable: 0 })
      },
      { until: 1, ignorable: true }
    )
  }
})
