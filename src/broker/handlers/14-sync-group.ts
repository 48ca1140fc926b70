/** SyncGroup: the leader of a classic group gives the assignment, the others wait for it. */
import { type SyncAnswer, refusedSync } from '../../group/classic/answers.ts'
import type { ClassicEvent } from '../../group/classic/machine.ts'
import { SyncGroup } from '../../protocol/api/sync-group.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { classicGroup } from '../group.ts'
import { handler } from '../handler.ts'

/** From here on a member must say which protocol it takes the group to have. */
const namesProtocolFrom = 5

export const handleSyncGroup = handler({
  api: SyncGroup,
  async handle(request, { cluster, node, version }) {
    const { groups, coordinators } = cluster
    const { groupId, protocolType, protocolName } = request
    if (version >= namesProtocolFrom && (protocolType === null || protocolName === null)) {
      return refusedSync(KafkaError.INCONSISTENT_GROUP_PROTOCOL)
    }
    if (groupId === '') return refusedSync(KafkaError.INVALID_GROUP_ID)
    if (coordinators.elsewhere('group', groupId, node)) {
      return refusedSync(KafkaError.NOT_COORDINATOR)
    }
    const found = classicGroup(groups.get(groupId))
    if (found === undefined) return refusedSync(KafkaError.UNKNOWN_MEMBER_ID)
    const answer = await groups.ask(
      found.group,
      found.members,
      (ticket): ClassicEvent => ({
        kind: 'sync',
        ticket,
        request
      })
    )
    return answer as SyncAnswer
  }
})
