/** DescribeGroups: classic groups with their members, and a controller's, which other tools can't tell from them. */
import { metadataOf, noBytes } from '../../group/classic/answers.ts'
import type { ClassicGroup } from '../../group/classic/state.ts'
import type { ControllerGroup } from '../../group/controller/state.ts'
import { DescribeGroups } from '../../protocol/api/describe-groups.ts'
import { codec } from '../../protocol/codec.ts'
import { ConsumerProtocolAssignment } from '../../protocol/embedded/assignment.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { Writer } from '../../protocol/writer.ts'
import { groupOperations } from '../answers.ts'
import type { BrokerCluster } from '../cluster.ts'
import { type Context, handler } from '../handler.ts'

/** From here on who isn't there is an error; before it was a group that is dead. */
const notFoundFrom = 6
const unasked = -2147483648

export const handleDescribeGroups = handler({
  api: DescribeGroups,
  async handle({ groups, includeAuthorizedOperations }, context) {
    await context.cluster.groups.settled
    const authorizedOperations = includeAuthorizedOperations ? groupOperations : unasked
    return {
      throttleTimeMs: 0,
      groups: groups.map(groupId => ({
        groupId,
        ...describe(groupId, context),
        authorizedOperations
      }))
    }
  }
})

function describe(groupId: string, { cluster, node, version }: Context) {
  const none = { groupState: '', protocolType: '', protocolData: '', members: [] }
  if (groupId === '') return { ...none, errorCode: KafkaError.INVALID_GROUP_ID }
  if (cluster.coordinators.elsewhere('group', groupId, node)) {
    return { ...none, errorCode: KafkaError.NOT_COORDINATOR }
  }
  const members = cluster.groups.get(groupId)?.members
  if (members?.type === 'controller') {
    const groupState = members.stateName
    return { errorCode: KafkaError.NONE, groupState, ...led(members.state, cluster) }
  }
  if (members?.type !== 'classic') {
    const dead = { ...none, groupState: 'Dead' }
    if (version < notFoundFrom) return { ...dead, errorCode: KafkaError.NONE }
    const what = members === undefined ? 'not found' : 'is not a classic group'
    const errorMessage = `Group ${groupId} ${what}.`
    return { ...dead, errorCode: KafkaError.GROUP_ID_NOT_FOUND, errorMessage }
  }
  return { errorCode: KafkaError.NONE, ...described(members.state) }
}

function described({ phase, protocolType, protocol, members }: ClassicGroup) {
  const formed = phase === 'Stable'
  return {
    groupState: phase,
    protocolType: protocolType ?? '',
    protocolData: formed ? (protocol ?? '') : '',
    members: [...members.values()].map(member => ({
      memberId: member.memberId,
      groupInstanceId: member.instanceId,
      clientId: member.clientId,
      clientHost: member.clientHost,
      // While it is made anew, there is no protocol in which members say something.
      memberMetadata: (formed ? metadataOf(member, protocol) : undefined) ?? noBytes,
      memberAssignment: member.assignment
    }))
  }
}

/** A controller's group in the words of the classic protocol: what its members have is what they were assigned. */
function led({ members }: ControllerGroup, { catalog }: BrokerCluster) {
  return {
    protocolType: 'consumer',
    protocolData: 'controller',
    members: [...members.values()].map(({ id, registration, leases }) => {
      const topics = [...leases].flatMap(([topicId, of]) => {
        const topic = catalog.topicById(topicId)?.name
        return topic === undefined ? [] : [{ topic, partitions: [...of.keys()] }]
      })
      const { instanceId, client } = registration
      return {
        memberId: id,
        groupInstanceId: instanceId,
        clientId: client.id,
        clientHost: client.host,
        memberMetadata: noBytes,
        memberAssignment: assignmentOf(topics)
      }
    })
  }
}

function assignmentOf(
  topics: readonly { readonly topic: string; readonly partitions: readonly number[] }[]
): Buffer {
  const writer = new Writer()
  writer.int16(0)
  codec(ConsumerProtocolAssignment, 0).write(writer, {
    assignedPartitions: topics,
    userData: null
  })
  return writer.join()
}
