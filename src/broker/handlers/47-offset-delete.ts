/** OffsetDelete: forgets offsets of topics to which the group does not subscribe (KIP-496). */
import { forget } from '../../group/offsets/offsets.ts'
import { OffsetDelete } from '../../protocol/api/offset-delete.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { handler } from '../handler.ts'

export const handleOffsetDelete = handler({
  api: OffsetDelete,
  async handle({ groupId, topics: asked }, { cluster, node }) {
    const { groups, coordinators, catalog } = cluster
    const refuse = (errorCode: number) => ({ throttleTimeMs: 0, errorCode, topics: [] })
    if (coordinators.elsewhere('group', groupId, node)) return refuse(KafkaError.NOT_COORDINATOR)
    const group = groups.get(groupId)
    if (group === undefined) return refuse(KafkaError.GROUP_ID_NOT_FOUND)
    const refusal = group.members.mayDeleteOffsets()
    if (refusal !== KafkaError.NONE) return refuse(refusal)
    const doomed = new Map<string, Set<number>>()
    const topics = asked.map(({ name, partitions }) => {
      const errorCode =
        catalog.topic(name) === undefined
          ? KafkaError.UNKNOWN_TOPIC_OR_PARTITION
          : group.members.subscribesTo(name)
            ? KafkaError.GROUP_SUBSCRIBED_TO_TOPIC
            : KafkaError.NONE
      const indexes = partitions.map(({ partitionIndex }) => partitionIndex)
      if (errorCode === KafkaError.NONE) doomed.set(name, new Set(indexes))
      return {
        name,
        partitions: indexes.map(partitionIndex => ({ partitionIndex, errorCode }))
      }
    })
    await groups.take(
      group,
      forget(group.offsets, ({ topic, partition }) => doomed.get(topic)?.has(partition) ?? false)
    )
    return { throttleTimeMs: 0, errorCode: KafkaError.NONE, topics }
  }
})
