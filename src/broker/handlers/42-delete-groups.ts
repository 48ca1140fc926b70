/** DeleteGroups: groups without members, with their offsets. */
import { DeleteGroups } from '../../protocol/api/delete-groups.ts'
import { KafkaError, kafkaErrorName } from '../../protocol/errors.ts'
import { type Context, handler } from '../handler.ts'

export const handleDeleteGroups = handler({
  api: DeleteGroups,
  async handle({ groupsNames }, context) {
    const deleted = groupsNames.map(groupId => ({ groupId, errorCode: remove(groupId, context) }))
    await context.cluster.groups.settled
    return {
      throttleTimeMs: 0,
      results: deleted.map(({ groupId, errorCode }) => {
        const errorMessage = errorCode === KafkaError.NONE ? null : kafkaErrorName(errorCode)
        return { groupId, errorCode, errorMessage }
      })
    }
  }
})

function remove(groupId: string, { cluster, node }: Context): number {
  const { groups, coordinators } = cluster
  if (groupId === '') return KafkaError.INVALID_GROUP_ID
  if (coordinators.elsewhere('group', groupId, node)) return KafkaError.NOT_COORDINATOR
  const group = groups.get(groupId)
  if (group === undefined) return KafkaError.GROUP_ID_NOT_FOUND
  if (!group.members.empty) return KafkaError.NON_EMPTY_GROUP
  void groups.delete(group)
  return KafkaError.NONE
}
