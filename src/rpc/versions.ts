/** What a broker speaks, and the version to speak with it: the highest that both sides know (KIP-35). */
import { PlayheadError } from '../base/error.ts'
import type { Api, ResponseOf } from '../protocol/schema.ts'
import type { ApiVersions } from '../protocol/api/api-versions.ts'

/** By API key: first and last version. */
export type VersionTable = ReadonlyMap<number, readonly [first: number, last: number]>

export function versionTable(keys: ResponseOf<typeof ApiVersions>['apiKeys']): VersionTable {
  return new Map(keys.map(k => [k.apiKey, [k.minVersion, k.maxVersion] as const]))
}

/** Throws UNSUPPORTED_VERSION, saying who knows what. */
export function chooseVersion(
  api: Api,
  broker: VersionTable,
  place: string,
  minVersion: number = api.versions[0],
  maxVersion: number = api.versions[1]
): number {
  const range = broker.get(api.key)
  if (range) {
    const version = Math.min(range[1], maxVersion)
    if (version >= range[0] && version >= minVersion) return version
  }
  const ours = `this call needs ${span(minVersion, maxVersion)}`
  const theirs = range ? `speaks it in ${span(range[0], range[1])}` : 'does not speak it'
  throw new PlayheadError('UNSUPPORTED_VERSION', `${api.name}: ${place} ${theirs}; ${ours}`)
}

function span(first: number, last: number): string {
  return first === last ? `version ${first}` : `versions ${first} to ${last}`
}
