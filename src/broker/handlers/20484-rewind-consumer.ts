/** RewindConsumer: moves partitions of a group that may be running; answered when every owner has taken it up. */
import { refusedRewind } from '../../group/controller/rewind.ts'
import type { RewindAnswer } from '../../group/controller/world.ts'
import { RewindConsumer } from '../../protocol/api/rewind-consumer.ts'
import { kafkaErrorName } from '../../protocol/errors.ts'
import { askController, controllerGroup } from '../controller-requests.ts'
import { handler } from '../handler.ts'

export const handleRewindConsumer = handler({
  api: RewindConsumer,
  async handle(request, context) {
    const found = controllerGroup(request.groupId, context)
    if (typeof found === 'number') return refusedRewind([found, kafkaErrorName(found)])
    const { reason, memberId, offsets, groupId } = request
    const topics = offsets.map(({ topic }) => topic)
    context.env.log.info('a rewind was asked for', { groupId, memberId, topics, reason })
    const client = { id: context.clientId, host: context.clientHost }
    const answer = await askController(found, context, ticket => {
      return { kind: 'rewind', ticket, client, request }
    })
    // A rewind is answered as a rewind.
    return answer as RewindAnswer
  }
})
