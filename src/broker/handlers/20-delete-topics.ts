/** DeleteTopics: topics go with their records, by name or id. */
import { Changes } from '../../base/store.ts'
import { DeleteTopics } from '../../protocol/api/delete-topics.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { noTopicId } from '../answers.ts'
import type { Topic } from '../catalog.ts'
import { type Context, handler } from '../handler.ts'

interface Asked {
  readonly name: string | null
  readonly topicId: string
}

export const handleDeleteTopics = handler({
  api: DeleteTopics,
  async handle(request, context) {
    const asked: readonly Asked[] =
      context.version >= 6
        ? request.topics
        : request.topicNames.map(name => ({ name, topicId: noTopicId }))
    const changes = new Changes()
    const responses = asked.map(one => answerFor(one, context, changes))
    await context.cluster.store.commit(changes)
    return { throttleTimeMs: 0, responses }
  }
})

function answerFor({ name, topicId }: Asked, { cluster }: Context, changes: Changes) {
  const { catalog } = cluster
  const byId = topicId !== noTopicId
  if (byId === (name !== null)) {
    const errorMessage = 'A topic is named either by its name or by its id.'
    return { name, topicId, errorCode: KafkaError.INVALID_REQUEST, errorMessage }
  }
  const topic: Topic | undefined = byId ? catalog.topicById(topicId) : catalog.topic(name ?? '')
  if (topic === undefined) {
    const errorCode = byId ? KafkaError.UNKNOWN_TOPIC_ID : KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    const errorMessage = byId
      ? 'This server does not host this topic ID.'
      : 'This server does not host this topic-partition.'
    return { name, topicId, errorCode, errorMessage }
  }
  catalog.delete(topic, changes)
  return { name: topic.name, topicId: topic.id, errorCode: KafkaError.NONE, errorMessage: null }
}
