/** ApiVersions: what is in the protocol table, and nothing else. */
import { ApiVersions } from '../../protocol/api/api-versions.ts'
import { ConsumerGroupHeartbeat } from '../../protocol/api/consumer-group-heartbeat.ts'
import { EndTxn } from '../../protocol/api/end-txn.ts'
import { Produce } from '../../protocol/api/produce.ts'
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
  const features = featuresOf(dispatch)
  return {
    errorCode: KafkaError.NONE,
    apiKeys,
    finalizedFeaturesEpoch: 0,
    supportedFeatures: features.map(({ name, level }) => ({
      name,
      minVersion: 0,
      maxVersion: level
    })),
    finalizedFeatures: features
      .filter(({ level }) => level > 0)
      .map(({ name, level }) => ({ name, minVersionLevel: level, maxVersionLevel: level }))
  }
}

/**
 * Kafka tells by features what no API version tells a client. They follow from the table, so that a broker that plays an
 * older Kafka by lower versions plays all of it: 'transaction.version' 2 is KIP-890, 'group.version' 1 is KIP-848.
 */
function featuresOf(dispatch: Dispatch): readonly { name: string; level: number }[] {
  const last = (api: { readonly key: number }) => dispatch.get(api.key)?.last ?? -1
  const implicit = last(EndTxn) >= 5 && last(Produce) >= 12
  return [
    { name: 'group.version', level: last(ConsumerGroupHeartbeat) >= 0 ? 1 : 0 },
    { name: 'transaction.version', level: implicit ? 2 : 0 }
  ]
}
