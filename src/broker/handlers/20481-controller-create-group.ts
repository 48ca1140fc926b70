/** ControllerCreateGroup: a group before its members. One that is there already is left as it is. */
import { startFromOf, startsFrom } from '../../group/controller/stored.ts'
import type { ControllerEvent } from '../../group/controller/world.ts'
import { ControllerCreateGroup } from '../../protocol/api/controller-create-group.ts'
import { KafkaError, kafkaErrorName } from '../../protocol/errors.ts'
import type { RequestRead } from '../../protocol/schema.ts'
import { joinedGroup } from '../controller-requests.ts'
import { type Context, handler } from '../handler.ts'

export const handleControllerCreateGroup = handler({
  api: ControllerCreateGroup,
  async handle(request, context) {
    const { groupId } = request
    const [errorCode, errorMessage] = create(request, context)
    await context.cluster.groups.settled
    return { errorCode, errorMessage, groupId }
  }
})

function create(
  { groupId, sessionTimeoutMs, startFrom }: RequestRead<typeof ControllerCreateGroup>,
  context: Context
): readonly [number, string | null] {
  const { groups } = context.cluster
  const { minSessionTimeoutMs: least, maxSessionTimeoutMs: most } = groups.config(groupId)
  if (sessionTimeoutMs < least || sessionTimeoutMs > most) {
    const message = `sessionTimeoutMs is ${sessionTimeoutMs}: from ${least} to ${most} is possible`
    return [KafkaError.INVALID_SESSION_TIMEOUT, message]
  }
  if (startFrom < 0 || startFrom >= startsFrom.length) {
    return [KafkaError.INVALID_REQUEST, `startFrom is ${startFrom}: 0 earliest, 1 latest, 2 none`]
  }
  const found = joinedGroup(groupId, context)
  if (typeof found === 'number') return [found, kafkaErrorName(found)]
  const { group, members } = found
  if (members.state.head.sessionTimeoutMs === -1 && members.empty) {
    const event = { kind: 'create', sessionTimeoutMs, startFrom: startFromOf(startFrom) } as const
    groups.tell<ControllerEvent, unknown>(group, members, event)
  }
  return [KafkaError.NONE, null]
}
