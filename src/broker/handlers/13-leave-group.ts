/** LeaveGroup: members of a classic group leave, or are removed by an operator. */
import type { LeaveAnswer } from '../../group/classic/answers.ts'
import type { ClassicEvent } from '../../group/classic/machine.ts'
import { severalFrom } from '../../group/classic/requests.ts'
import { LeaveGroup } from '../../protocol/api/leave-group.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { classicGroup } from '../group.ts'
import { handler } from '../handler.ts'

export const handleLeaveGroup = handler({
  api: LeaveGroup,
  async handle(request, { cluster, node, version }) {
    const { groups, coordinators } = cluster
    const { groupId } = request
    const refuse = (errorCode: number): LeaveAnswer => ({ throttleTimeMs: 0, errorCode })
    if (groupId === '') return refuse(KafkaError.INVALID_GROUP_ID)
    if (coordinators.elsewhere('group', groupId, node)) return refuse(KafkaError.NOT_COORDINATOR)
    const found = classicGroup(groups.get(groupId))
    if (found === undefined) {
      const errorCode = KafkaError.UNKNOWN_MEMBER_ID
      if (version < severalFrom) return refuse(errorCode)
      const members = request.members.map(({ memberId, groupInstanceId }) => ({
        memberId,
        groupInstanceId,
        errorCode
      }))
      return { throttleTimeMs: 0, errorCode: KafkaError.NONE, members }
    }
    const answer = await groups.ask(
      found.group,
      found.members,
      (ticket): ClassicEvent => ({
        kind: 'leave',
        ticket,
        version,
        request
      })
    )
    return answer as LeaveAnswer
  }
})
