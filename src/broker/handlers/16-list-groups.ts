/** ListGroups: the groups that this broker coordinates. */
import { ListGroups } from '../../protocol/api/list-groups.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { handler } from '../handler.ts'

export const handleListGroups = handler({
  api: ListGroups,
  async handle({ statesFilter, typesFilter }, { cluster, node }) {
    await cluster.groups.settled
    const states = filter(statesFilter)
    const types = filter(typesFilter)
    const groups = []
    for (const { id: groupId, members } of cluster.groups.all) {
      if (cluster.coordinators.elsewhere('group', groupId, node)) continue
      const { stateName: groupState, protocolType, type } = members
      // Kafka's tools know no other types, and ask for just those that they know.
      const passes = types(type) || (type === 'controller' && types('consumer'))
      if (!states(groupState) || !passes) continue
      groups.push({ groupId, protocolType, groupState, groupType: type })
    }
    return { throttleTimeMs: 0, errorCode: KafkaError.NONE, groups }
  }
})

/** Nothing named: everything passes. */
function filter(names: readonly string[]): (name: string) => boolean {
  const wanted = new Set(names.map(name => name.toLowerCase()))
  return name => wanted.size === 0 || wanted.has(name.toLowerCase())
}
