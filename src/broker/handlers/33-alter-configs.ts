/** AlterConfigs: replaces all that is set for a resource. What is not named goes back to its default. */
import { Changes } from '../../base/store.ts'
import { AlterConfigs } from '../../protocol/api/alter-configs.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { handler } from '../handler.ts'
import { type Fault, configure, settingFault, settingsOf } from '../resource-configs.ts'

export const handleAlterConfigs = handler({
  api: AlterConfigs,
  async handle(request, { cluster }) {
    const changes = new Changes()
    const stored: Promise<void>[] = []
    const responses = request.resources.map(asked => {
      const { resourceType, resourceName, configs } = asked
      const before = settingsOf(asked, cluster)
      let fault: Fault | undefined = before instanceof Map ? undefined : (before as Fault)
      const settings = new Map<string, string>()
      for (const { name, value } of configs) {
        fault ??= settingFault(resourceType, name, value)
        settings.set(name, value ?? '')
      }
      if (fault === undefined && !request.validateOnly) {
        stored.push(configure(asked, settings, cluster, changes))
      }
      const [errorCode, errorMessage] = fault ?? [KafkaError.NONE, null]
      return { errorCode, errorMessage, resourceType, resourceName }
    })
    await Promise.all([...stored, cluster.store.commit(changes)])
    return { throttleTimeMs: 0, responses }
  }
})
