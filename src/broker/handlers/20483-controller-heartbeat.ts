/** ControllerHeartbeat: a member lives; held until there is something to say to it, or its time is up. */
import type { HeartbeatAnswer } from '../../group/controller/world.ts'
import { ControllerHeartbeat } from '../../protocol/api/controller-heartbeat.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { askController, controllerGroup } from '../controller-requests.ts'
import { handler } from '../handler.ts'

export const handleControllerHeartbeat = handler({
  api: ControllerHeartbeat,
  async handle(request, context) {
    const found = controllerGroup(request.groupId, context)
    if (typeof found === 'number') {
      const unknown = found === KafkaError.GROUP_ID_NOT_FOUND
      const errorCode = unknown ? KafkaError.UNKNOWN_MEMBER_ID : found
      return { errorCode, generationId: -1, rewound: [] }
    }
    const answer = await askController(found, context, ticket => {
      return { kind: 'heartbeat', ticket, request }
    })
    // A heartbeat is answered as a heartbeat.
    return answer as HeartbeatAnswer
  }
})
