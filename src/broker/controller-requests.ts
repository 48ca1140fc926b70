/** What the handlers of the controller's protocol have in common: whose group it is, and how it is asked. */
import type { ControllerAnswer, ControllerEvent } from '../group/controller/world.ts'
import type { Ticket } from '../group/machine.ts'
import { KafkaError } from '../protocol/errors.ts'
import type { BrokerCluster } from './cluster.ts'
import type { GroupHost } from './group-host.ts'
import { ControllerMembers, type Group } from './group.ts'
import type { Context } from './handler.ts'

/** As a topic's name, and as Kafka's designers had it: it becomes a name where groups are kept. */
const longestGroupId = 249

export function isGroupId(groupId: string): boolean {
  return groupId !== '' && Buffer.byteLength(groupId) <= longestGroupId
}

export interface ControllerGroupFound {
  readonly group: Group
  readonly members: ControllerMembers
}

/** An error code: what every request is refused with that names such a group here. */
export function misdirected(groupId: string, { cluster, node }: Context): number {
  if (!isGroupId(groupId)) return KafkaError.INVALID_GROUP_ID
  const elsewhere = cluster.coordinators.elsewhere('group', groupId, node)
  return elsewhere ? KafkaError.NOT_COORDINATOR : KafkaError.NONE
}

/** The group, or an error code. */
export function controllerGroup(groupId: string, context: Context): ControllerGroupFound | number {
  const code = misdirected(groupId, context)
  if (code !== KafkaError.NONE) return code
  const group = context.cluster.groups.get(groupId)
  if (group === undefined) return KafkaError.GROUP_ID_NOT_FOUND
  const { members } = group
  return members.type === 'controller' ? { group, members } : KafkaError.INCONSISTENT_GROUP_PROTOCOL
}

/** The same for who joins: it makes the group, or takes over one of another protocol that has no members. */
export function joinedGroup(groupId: string, context: Context): ControllerGroupFound | number {
  const code = misdirected(groupId, context)
  if (code !== KafkaError.NONE) return code
  const { groups } = context.cluster
  const group = groups.obtain(groupId, () => new ControllerMembers())
  if (group.members.type !== 'controller' && group.members.empty) {
    groups.replaceMembers(group, new ControllerMembers(group.offsets))
  }
  return controllerGroup(groupId, context)
}

/** Gives the group an event, and waits for the answer as long as whoever asks is there. */
export function askController(
  { group, members }: ControllerGroupFound,
  { cluster, connection }: Context,
  event: (ticket: Ticket) => ControllerEvent
): Promise<ControllerAnswer> {
  const groups: GroupHost = cluster.groups
  let ticket: Ticket = 0
  const answer = groups.ask<ControllerEvent, ControllerAnswer>(group, members, given => {
    ticket = given
    return event(given)
  })
  const gone = () => groups.abandon(group, members, ticket)
  if (connection.closed) gone()
  const stop = connection.whenClosed(gone)
  return answer.finally(stop)
}

/** Which broker leads a group. */
export function controllerOf(groupId: string, { coordinators }: BrokerCluster) {
  const node = coordinators.of('group', groupId)
  return node === undefined
    ? { nodeId: -1, host: '', port: -1 }
    : { nodeId: node.id, host: node.host, port: node.port }
}
