/** UnregisterConsumer: a member leaves, and the others share what it had. */
import type { UnregisterAnswer } from '../../group/controller/world.ts'
import { UnregisterConsumer } from '../../protocol/api/unregister-consumer.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { askController, controllerGroup } from '../controller-requests.ts'
import { handler } from '../handler.ts'

export const handleUnregisterConsumer = handler({
  api: UnregisterConsumer,
  async handle(request, context) {
    const found = controllerGroup(request.groupId, context)
    if (typeof found === 'number') {
      const unknown = found === KafkaError.GROUP_ID_NOT_FOUND
      return { errorCode: unknown ? KafkaError.UNKNOWN_MEMBER_ID : found }
    }
    const answer = await askController(found, context, ticket => {
      return { kind: 'unregister', ticket, request }
    })
    // A leave is answered as a leave.
    return answer as UnregisterAnswer
  }
})
