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
      const [errorCode, errorMessage] =
        settings instanceof Map ? [KafkaError.NONE, null] : (settings as Fault)
      return { errorCode, errorMessage, resourceType, resourceName }
    })
    await Promise.all([...stored, cluster.store.commit(changes)])
    return { throttleTimeMs: 0, responses }
  }
})

/** What is set once the edits are made, or why they are not. */
function edited(asked: Asked, cluster: BrokerCluster): Map<string, string> | Fault {
  const before = settingsOf(asked, cluster)
  if (!(before instanceof Map)) return before as Fault
  const settings = new Map<string, string>(before)
  const names = asked.configs.map(({ name }) => name)
  if (new Set(names).size < names.length) {
    return [KafkaError.INVALID_REQUEST, 'A setting is named more than once.']
  }
  for (const { name, configOperation, value } of asked.configs) {
    const fault = edit(asked.resourceType, name, configOperation, value, settings)
    if (fault !== undefined) return fault
  }
  return settings
}

function edit(
  type: number,
  name: string,
  how: number,
  value: string | null,
  settings: Map<string, string>
): Fault | undefined {
  switch (how) {
    case operation.delete:
      if (defaultOf(type, name) === '' && settingFault(type, name, '')?.[1].startsWith('Unknown')) {
        return settingFault(type, name, '')
      }
      settings.delete(name)
      return undefined
    case operation.set: {
      const fault = settingFault(type, name, value)
      if (fault === undefined) settings.set(name, value ?? '')
      return fault
    }
    case operation.append:
    case operation.subtract: {
      if (!isList(type, name)) {
        return [
          KafkaError.INVALID_CONFIG,
          `Can't append to or subtract from ${name}: it is no list.`
        ]
      }
      const list = settings.get(name) ?? defaultOf(type, name)
      const value_ = editList(list, value ?? '', how === operation.append)
      const fault = settingFault(type, name, value_)
      if (fault === undefined) settings.set(name, value_)
      return fault
    }
    default:
      return [KafkaError.INVALID_REQUEST, `Unknown operation ${how}.`]
  }
}
