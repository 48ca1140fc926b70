/** ControllerListGroups: any broker says which groups there are and who leads them. */
import { windowOver } from '../../group/controller/grants.ts'
import { type ControllerGroup, rewindStates } from '../../group/controller/state.ts'
import { subscriptions } from '../../group/controller/target.ts'
import { ControllerListGroups } from '../../protocol/api/controller-list-groups.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { controllerOf, isGroupId } from '../controller-requests.ts'
import type { BrokerCluster } from '../cluster.ts'
import type { ControllerMembers } from '../group.ts'
import { type Context, handler } from '../handler.ts'

export const handleControllerListGroups = handler({
  api: ControllerListGroups,
  async handle({ groupId }, { cluster }: Context) {
    await cluster.groups.settled
    if (groupId !== null) return one(groupId, cluster)
    const groups = []
    for (const { id, members } of cluster.groups.all) {
      if (members.type === 'controller') groups.push(described(id, members, cluster))
    }
    return { errorCode: KafkaError.NONE, groups }
  }
})

/** Also of a group that isn't there yet, as who is about to make it wants to know where. */
function one(groupId: string, cluster: BrokerCluster) {
  if (!isGroupId(groupId)) return { errorCode: KafkaError.INVALID_GROUP_ID, groups: [] }
  if (cluster.coordinators.of('group', groupId) === undefined) {
    return { errorCode: KafkaError.COORDINATOR_NOT_AVAILABLE, groups: [] }
  }
  const members = cluster.groups.get(groupId)?.members
  if (members !== undefined && members.type !== 'controller' && !members.empty) {
    return { errorCode: KafkaError.INCONSISTENT_GROUP_PROTOCOL, groups: [] }
  }
  const known = members?.type === 'controller' ? members : undefined
  const group = described(groupId, known, cluster)
  const rewinds = known === undefined ? [] : rewindsOf(known.state)
  return { errorCode: KafkaError.NONE, groups: [{ ...group, rewinds }] }
}

function rewindsOf(state: ControllerGroup) {
  return [...state.rewinds.values()].flatMap(of =>
    [...of.values()].map(rewind => ({
      topic: rewind.topic,
      topicId: rewind.topicId,
      partition: rewind.partition,
      rewindId: rewind.id,
      state: rewindStates.indexOf(rewind.state),
      previousOffset: rewind.from,
      offset: rewind.target,
      until: rewind.until,
      resume: rewind.resume,
      replaying: rewind.state === 'done' && rewind.until >= 0 && !windowOver({ state }, rewind),
      askedAt: rewind.askedAtMs,
      by: rewind.by,
      reason: rewind.reason
    }))
  )
}

function described(
  groupId: string,
  members: ControllerMembers | undefined,
  cluster: BrokerCluster
) {
  const controller = controllerOf(groupId, cluster)
  if (members === undefined) {
    const none = { state: '', generationId: 0, members: [], topics: [] }
    return { groupId, ...none, controller, sessionTimeoutMs: -1, pendingRewinds: 0 }
  }
  const { head, round, members: list, waiting } = members.state
  return {
    groupId,
    state: list.size === 0 ? 'Empty' : round === null ? 'Stable' : 'Gathering',
    generationId: head.generation,
    members: [...list.values()].map(({ id, registration: { client } }) => ({
      memberId: id,
      clientId: client.id,
      clientHost: client.host
    })),
    topics: [...subscriptions(list.values()).topics],
    controller,
    sessionTimeoutMs: head.sessionTimeoutMs,
    pendingRewinds: waiting
  }
}
