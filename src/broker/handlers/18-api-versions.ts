/** ApiVersions: what is in the protocol table, and nothing else. */
import { ApiVersions } from '../../protocol/api/api-versions.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { ResponseWritten } from '../../protocol/schema.ts'
import { type Dispatch, handler } from '../handler.ts'

/** As Kafka: the names of clients' libraries are printed and counted, so they are kept simple. */
const softwareName = /^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$/

export const handleApiVersions = handler({
  api: ApiVersions,
  handle(request, { version, cluster }) {
    const { clientSoftwareName: name, clientSoftwareVersion: release } = request
    if (version >= 3 && !(softwareName.test(name) && softwareName.test(release))) {
      return { ...spoken(cluster.dispatch), errorCode: KafkaError.INVALID_REQUEST, apiKeys: [] }
    }
    return spoken(cluster.dispatch)
  }
})

/** Also the answer, in version 0, to an ApiVersions of a version that is not spoken (KIP-511). */
export function spoken(dispatch: Dispatch): ResponseWritten<typeof ApiVersions> {
  const apiKeys = [...dispatch].map(([apiKey, { first, last }]) => ({
    apiKey,
    minVersion: first,
    maxVersion: last
  }))
  apiKeys.sort((a, b) => a.apiKey - b.apiKey)
  return { errorCode: KafkaError.NONE, apiKeys, ...features }
}

/** Kafka tells by features what no API version tells: 'transaction.version' 2 is KIP-890. */
const features = {
  finalizedFeaturesEpoch: 0,
  supportedFeatures: [
    { name: 'group.version', minVersion: 0, maxVersion: 1 },
    { name: 'transaction.version', minVersion: 0, maxVersion: 2 }
  ],
  finalizedFeatures: [
    { name: 'group.version', minVersionLevel: 1, maxVersionLevel: 1 },
    { name: 'transaction.version', minVersionLevel: 2, maxVersionLevel: 2 }
  ]
}
