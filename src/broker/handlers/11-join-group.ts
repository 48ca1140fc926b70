/** JoinGroup: a member of a classic group joins; answered when all have. */
import { type JoinAnswer, refusedJoin } from '../../group/classic/answers.ts'
import type { ClassicEvent } from '../../group/classic/machine.ts'
import { JoinGroup } from '../../protocol/api/join-group.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { RequestRead } from '../../protocol/schema.ts'
import type { GroupHost } from '../group-host.ts'
import { ClassicMembers, type Group } from '../group.ts'
import { handler } from '../handler.ts'

/** From here on an answer may say that there is no protocol. */
const nullProtocolFrom = 7

export const handleJoinGroup = handler({
  api: JoinGroup,
  async handle(request, { cluster, node, version, clientId, clientHost }) {
    const { groups, coordinators } = cluster
    const { groupId, memberId } = request
    const refuse = (code: number) => named(refusedJoin(code, memberId), version)
    if (groupId === '') return refuse(KafkaError.INVALID_GROUP_ID)
    if (coordinators.elsewhere('group', groupId, node)) return refuse(KafkaError.NOT_COORDINATOR)
    const { minSessionTimeoutMs, maxSessionTimeoutMs } = groups.config(groupId)
    const { sessionTimeoutMs } = request
    if (sessionTimeoutMs < minSessionTimeoutMs || sessionTimeoutMs > maxSessionTimeoutMs) {
      return refuse(KafkaError.INVALID_SESSION_TIMEOUT)
    }
    const found = find(groups, request)
    if (typeof found === 'number') return refuse(found)
    const client = { id: clientId, host: clientHost }
    const answer = await groups.ask(
      found.group,
      found.members,
      (ticket): ClassicEvent => ({
        kind: 'join',
        ticket,
        version,
        client,
        request
      })
    )
    // A join is answered as a join.
    return named(answer as JoinAnswer, version)
  }
})

/** Who joins without an id makes the group, or takes over one of another protocol that has no members. */
function find(
  groups: GroupHost,
  { groupId, memberId }: RequestRead<typeof JoinGroup>
): { readonly group: Group; readonly members: ClassicMembers } | number {
  const joins = memberId === ''
  const group = joins ? groups.obtain(groupId, () => new ClassicMembers()) : groups.get(groupId)
  if (group === undefined) return KafkaError.UNKNOWN_MEMBER_ID
  if (group.members.type !== 'classic' && group.members.empty && joins) {
    groups.replaceMembers(group, new ClassicMembers())
  }
  const { members } = group
  return members.type === 'classic' ? { group, members } : KafkaError.INCONSISTENT_GROUP_PROTOCOL
}

function named(answer: JoinAnswer, version: number): JoinAnswer {
  return version >= nullProtocolFrom
    ? answer
    : { ...answer, protocolName: answer.protocolName ?? '' }
}
