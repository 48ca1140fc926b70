/** IncrementalAlterConfigs: sets and removes single settings, and edits lists (KIP-339). */
import { Changes } from '../../base/store.ts'
import { IncrementalAlterConfigs } from '../../protocol/api/incremental-alter-configs.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { RequestRead } from '../../protocol/schema.ts'
import type { BrokerCluster } from '../cluster.ts'
import { handler } from '../handler.ts'
import {
  type Fault,
  configure,
  defaultOf,
  editList,
  isList,
  settingFault,
  settingsOf
} from '../resource-configs.ts'

type Asked = RequestRead<typeof IncrementalAlterConfigs>['resources'][number]

const operation = { set: 0, delete: 1, append: 2, subtract: 3 } as const

export const handleIncrementalAlterConfigs = handler({
  api: IncrementalAlterConfigs,
  async handle(request, { cluster }) {
    const changes = new Changes()
    const stored: Promise<void>[] = []
    const responses = request.resources.map(asked => {
      const { resourceType, resourceName } = asked
      const settings = edited(asked, cluster)
      if (settings instanceof Map && !request.validateOnly) {
        stored.push(configure(asked, settings, cluster, changes))
      }
      const [errorCode, errorMessage] = settings instanceof Map ? [KafkaError.NONE, null] : settings
      return { errorCode, errorMessage, resourceType, resourceName }
    })
    await Promise.all([...stored, cluster.store.commit(changes)])
    return { throttleTimeMs: 0, responses }
  }
})

/**
 * What is set once the edits are made, or why they are not. Looked at in Kafka's order: whether lists are lists, the
 * resource's name, the values, and only then whether there is such a topic.
 */
function edited(asked: Asked, cluster: BrokerCluster): Map<string, string> | Fault {
  const { resourceType: type, resourceName, configs } = asked
  if (new Set(configs.map(({ name }) => name)).size < configs.length) {
    return [KafkaError.INVALID_REQUEST, 'A setting is named more than once.']
  }
  for (const { name, configOperation: how } of configs) {
    if (how < operation.append || isList(type, name)) continue
    return [KafkaError.INVALID_CONFIG, `Can't append to or subtract from ${name}: it is no list.`]
  }
  if (resourceName === '') return [KafkaError.INVALID_REQUEST, 'A resource has a name.']
  const before = settingsOf(asked, cluster)
  const refusal = before instanceof Map ? undefined : (before as Fault)
  if (refusal !== undefined && refusal[0] !== KafkaError.UNKNOWN_TOPIC_OR_PARTITION) return refusal
  const settings = new Map<string, string>(before instanceof Map ? before : [])
  for (const config of configs) {
    const fault = edit(type, config, settings)
    if (fault !== undefined) return fault
  }
  return refusal ?? settings
}

function edit(
  type: number,
  { name, configOperation: how, value }: Asked['configs'][number],
  settings: Map<string, string>
): Fault | undefined {
  switch (how) {
    case operation.delete:
      settings.delete(name)
      return undefined
    case operation.set:
      return set(type, name, value, settings)
    case operation.append:
    case operation.subtract: {
      const list = settings.get(name) ?? defaultOf(type, name)
      return set(type, name, editList(list, value ?? '', how === operation.append), settings)
    }
    default:
      return [KafkaError.INVALID_REQUEST, `Unknown operation ${how}.`]
  }
}

function set(
  type: number,
  name: string,
  value: string | null,
  settings: Map<string, string>
): Fault | undefined {
  const fault = settingFault(type, name, value)
  if (fault === undefined) settings.set(name, value ?? '')
  return fault
}
