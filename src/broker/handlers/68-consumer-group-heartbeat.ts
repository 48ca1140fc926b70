/** ConsumerGroupHeartbeat: all that a member of a KIP-848 group says, and is told. */
import {
  type HeartbeatRequest,
  malformedHeartbeat,
  refusedHeartbeat
} from '../../group/consumer/heartbeat.ts'
import type { ConsumerEvent } from '../../group/consumer/machine.ts'
import { ConsumerGroupHeartbeat } from '../../protocol/api/consumer-group-heartbeat.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { GroupHost } from '../group-host.ts'
import { ConsumerMembers, type Group } from '../group.ts'
import { handler } from '../handler.ts'

export const handleConsumerGroupHeartbeat = handler({
  api: ConsumerGroupHeartbeat,
  handle(request, { cluster, node, version, clientId, clientHost }) {
    const { groups, coordinators } = cluster
    const malformed = malformedHeartbeat(request, version)
    if (malformed !== undefined) return refusedHeartbeat(malformed)
    if (coordinators.elsewhere('group', request.groupId, node)) {
      return refusedHeartbeat([KafkaError.NOT_COORDINATOR, 'This is not the correct coordinator.'])
    }
    const found = find(groups, request)
    if (found === undefined) return refusedHeartbeat(notFound(groups, request.groupId))
    const client = { id: clientId, host: clientHost }
    return groups.ask(
      found.group,
      found.members,
      (ticket): ConsumerEvent => ({
        kind: 'heartbeat',
        ticket,
        version,
        client,
        request
      })
    )
  }
})

/** Who joins makes the group, or takes over one of another protocol that has no members. */
function find(
  groups: GroupHost,
  { groupId, memberEpoch }: HeartbeatRequest
): { group: Group; members: ConsumerMembers } | undefined {
  const joins = memberEpoch === 0
  const group = joins ? groups.obtain(groupId, () => new ConsumerMembers()) : groups.get(groupId)
  if (group === undefined) return undefined
  if (group.members.type !== 'consumer' && group.members.empty && joins) {
    groups.replaceMembers(group, new ConsumerMembers())
  }
  const { members } = group
  return members.type === 'consumer' ? { group, members } : undefined
}

function notFound(groups: GroupHost, groupId: string): readonly [number, string] {
  const known = groups.get(groupId) !== undefined
  const message = known
    ? `Group ${groupId} is not a consumer group.`
    : `Group ${groupId} not found.`
  return [KafkaError.GROUP_ID_NOT_FOUND, message]
}
