/** ConsumerGroupDescribe: KIP-848 groups with their members, what these have and are to have. */
import { type ConsumerGroup, type Member, listOf } from '../../group/consumer/state.ts'
import { assignorOf } from '../../group/consumer/target.ts'
import { ConsumerGroupDescribe } from '../../protocol/api/consumer-group-describe.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { groupOperations } from '../answers.ts'
import type { BrokerCluster } from '../cluster.ts'
import { type Context, handler } from '../handler.ts'

const unasked = -2147483648
/** KIP-1099: a member that speaks this protocol, and not the classic one. */
const consumerType = 1

export const handleConsumerGroupDescribe = handler({
  api: ConsumerGroupDescribe,
  async handle({ groupIds, includeAuthorizedOperations }, context) {
    await context.cluster.groups.settled
    const authorizedOperations = includeAuthorizedOperations ? groupOperations : unasked
    return {
      throttleTimeMs: 0,
      groups: groupIds.map(groupId => ({
        groupId,
        ...describe(groupId, context),
        authorizedOperations
      }))
    }
  }
})

function describe(groupId: string, { cluster, node }: Context) {
  const refuse = (errorCode: number, errorMessage: string | null = null) => {
    const none = { groupState: '', groupEpoch: 0, assignmentEpoch: 0, assignorName: '' }
    return { ...none, errorCode, errorMessage, members: [] }
  }
  if (groupId === '') return refuse(KafkaError.INVALID_GROUP_ID)
  if (cluster.coordinators.elsewhere('group', groupId, node)) {
    return refuse(KafkaError.NOT_COORDINATOR)
  }
  const members = cluster.groups.get(groupId)?.members
  if (members?.type !== 'consumer') {
    const what = members === undefined ? 'not found' : 'is not a consumer group'
    return refuse(KafkaError.GROUP_ID_NOT_FOUND, `Group ${groupId} ${what}.`)
  }
  const { state, stateName: groupState } = members
  const errorCode: number = KafkaError.NONE
  return { errorCode, errorMessage: null, groupState, ...described(state, cluster) }
}

function described(group: ConsumerGroup, cluster: BrokerCluster) {
  return {
    groupEpoch: group.epoch,
    assignmentEpoch: group.epoch,
    assignorName: assignorOf(group),
    members: [...group.members.values()].map(member => ({
      memberId: member.id,
      instanceId: member.subscription.instanceId,
      rackId: member.subscription.rackId,
      memberEpoch: member.epoch,
      clientId: member.subscription.clientId,
      clientHost: member.subscription.clientHost,
      subscribedTopicNames: member.subscription.topics,
      subscribedTopicRegex: member.subscription.pattern,
      assignment: partitionsOf(heldBy(member), cluster),
      targetAssignment: partitionsOf(member.target, cluster),
      memberType: consumerType
    }))
  }
}

/** What it holds, also what it is about to give up. */
function heldBy({ assigned, revoking }: Member): Member['assigned'] {
  const held = new Map([...assigned].map(([topicId, epochs]) => [topicId, new Map(epochs)]))
  for (const [topicId, epochs] of revoking) {
    const there = held.get(topicId)
    held.set(topicId, new Map([...(there ?? []), ...epochs]))
  }
  return held
}

function partitionsOf(partitions: Member['assigned'] | Member['target'], cluster: BrokerCluster) {
  const topicPartitions = []
  for (const { topicId, partitions: list } of listOf(partitions)) {
    const topicName = cluster.catalog.topicById(topicId)?.name
    // What is of a deleted topic is about to go.
    if (topicName !== undefined) topicPartitions.push({ topicId, topicName, partitions: list })
  }
  return { topicPartitions }
}
