/** ApiVersions (18): asks which APIs and versions a broker speaks (KIP-35, KIP-511). */
import { api, array, bool, int16, int32, int64, string } from '../schema.ts'

export const ApiVersions = api({
  key: 18,
  name: 'ApiVersions',
  versions: [0, 5],
  flexible: 3,
  to: 'node',
  request: {
    clientSoftwareName: string({ since: 3, ignorable: true }),
    clientSoftwareVersion: string({ since: 3, ignorable: true }),
    clusterId: string({ since: 5, nullable: 5, default: null, ignorable: true }),
    nodeId: int32({ since: 5, default: -1, ignorable: true })
  },
  response: {
    errorCode: int16(),
    apiKeys: array({
      apiKey: int16(),
      minVersion: int16(),
      maxVersion: int16()
    }),
    throttleTimeMs: int32({ since: 1, ignorable: true }),
    supportedFeatures: array(
      {
        name: string(),
        minVersion: int16(),
        maxVersion: int16()
      },
      { since: 3, tag: 0, ignorable: true }
    ),
    finalizedFeaturesEpoch: int64({ since: 3, default: -1, tag: 1, ignorable: true }),
    finalizedFeatures: array(
      {
        name: string(),
        maxVersionLevel: int16(),
        minVersionLevel: int16()
      },
      { since: 3, tag: 2, ignorable: true }
    ),
    zkMigrationReady: bool({ since: 3, default: false, tag: 3, ignorable: true })
  }
})
