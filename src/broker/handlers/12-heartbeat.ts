/** Heartbeat: a member of a classic group lives. */
import type { BeatAnswer } from '../../group/classic/answers.ts'
import type { ClassicEvent } from '../../group/classic/machine.ts'
import { Heartbeat } from '../../protocol/api/heartbeat.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { classicGroup } from '../group.ts'
import { handler } from '../handler.ts'

export const handleHeartbeat = handler({
  api: Heartbeat,
  async handle(request, { cluster, node }) {
    const { groups, coordinators } = cluster
    const { groupId } = request
    const refuse = (errorCode: number) => ({ throttleTimeMs: 0, errorCode })
    if (groupId === '') return refuse(KafkaError.INVALID_GROUP_ID)
    if (coordinators.elsewhere('group', groupId, node)) return refuse(KafkaError.NOT_COORDINATOR)
    const found = classicGroup(groups.get(groupId))
    if (found === undefined) return refuse(KafkaError.UNKNOWN_MEMBER_ID)
    const answer = await groups.ask(
      found.group,
      found.members,
      (ticket): ClassicEvent => ({
        kind: 'heartbeat',
        ticket,
        request
      })
    )
    return answer as BeatAnswer
  }
})
