/** RegisterConsumer: a member joins a controller's group, or has done what it was told; answered when all have. */
import { malformedRegistration } from '../../group/controller/register.ts'
import { refusal } from '../../group/controller/round.ts'
import type { RegisterAnswer } from '../../group/controller/world.ts'
import { RegisterConsumer } from '../../protocol/api/register-consumer.ts'
import { KafkaError, kafkaErrorName } from '../../protocol/errors.ts'
import { askController, controllerGroup, joinedGroup, misdirected } from '../controller-requests.ts'
import { handler } from '../handler.ts'

export const handleRegisterConsumer = handler({
  api: RegisterConsumer,
  async handle(request, context) {
    const { groupId, memberId } = request
    const { cluster, clientId, clientHost } = context
    const refuse = (code: number, message: string = kafkaErrorName(code)) =>
      refusal(code, memberId, message)
    const code = misdirected(groupId, context)
    if (code !== KafkaError.NONE) return refuse(code)
    // A request that is wrong in itself makes no group.
    const wrong = malformedRegistration(request, cluster.groups.config(groupId))
    if (wrong !== undefined) return refuse(...wrong)
    const found =
      memberId === '' ? joinedGroup(groupId, context) : controllerGroup(groupId, context)
    if (found === KafkaError.GROUP_ID_NOT_FOUND) return refuse(KafkaError.UNKNOWN_MEMBER_ID)
    if (typeof found === 'number') return refuse(found)
    const client = { id: clientId, host: clientHost }
    const answer = await askController(found, context, ticket => {
      return { kind: 'register', ticket, client, request }
    })
    // A registration is answered as a registration.
    return answer as RegisterAnswer
  }
})
