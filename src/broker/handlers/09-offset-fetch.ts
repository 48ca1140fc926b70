/** OffsetFetch: the committed offsets of a group, and from version 8 on of several. */
import { type Committed, offsetOf, undecided } from '../../group/offsets/offsets.ts'
import { OffsetFetch } from '../../protocol/api/offset-fetch.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { RequestRead } from '../../protocol/schema.ts'
import { noTopicId } from '../answers.ts'
import type { Group } from '../group.ts'
import { type Context, handler } from '../handler.ts'

const severalFrom = 8
const byIdFrom = 10

type AskedGroup = RequestRead<typeof OffsetFetch>['groups'][number]
type AskedTopics = AskedGroup['topics']

export const handleOffsetFetch = handler({
  api: OffsetFetch,
  async handle(request, context) {
    const { groupId, requireStable } = request
    await context.cluster.groups.settled
    if (context.version >= severalFrom) {
      const groups = request.groups.map(asked => answer(asked, requireStable, context))
      return { throttleTimeMs: 0, groups }
    }
    const named = request.topics?.map(topic => ({ ...topic, topicId: noTopicId })) ?? null
    const asked = { groupId, memberId: null, memberEpoch: -1, topics: named }
    const { topics, errorCode } = answer(asked, requireStable, context)
    // Before version 2 a group's error is told by its partitions.
    if (context.version >= 2) return { throttleTimeMs: 0, topics, errorCode }
    return { topics: errorCode === 0 ? topics : failed(named, errorCode), errorCode }
  }
})

function answer(asked: AskedGroup, requireStable: boolean, context: Context) {
  const { groupId, memberId, memberEpoch, topics } = asked
  const { cluster, node } = context
  const group = cluster.groups.get(groupId)
  const errorCode = cluster.coordinators.elsewhere('group', groupId, node)
    ? KafkaError.NOT_COORDINATOR
    : (group?.members.mayFetch(memberId, memberEpoch) ?? KafkaError.NONE)
  if (errorCode !== KafkaError.NONE) return { groupId, topics: [], errorCode }
  const wanted = topics ?? all(group, context)
  return {
    groupId,
    topics: wanted.map(topic => fetched(topic, group, requireStable, context)),
    errorCode
  }
}

function fetched(
  { name, topicId, partitionIndexes }: NonNullable<AskedTopics>[number],
  group: Group | undefined,
  requireStable: boolean,
  { cluster, version }: Context
) {
  const known = version >= byIdFrom ? cluster.catalog.topicById(topicId)?.name : name
  const partitions = partitionIndexes.map(partition => {
    if (known === undefined)
      return partitionAnswer(partition, undefined, KafkaError.UNKNOWN_TOPIC_ID)
    if (group === undefined) return partitionAnswer(partition)
    if (requireStable && undecided(group.offsets, known, partition)) {
      return partitionAnswer(partition, undefined, KafkaError.UNSTABLE_OFFSET_COMMIT)
    }
    return partitionAnswer(partition, offsetOf(group.offsets, known, partition))
  })
  return { name: known ?? name, topicId, partitions }
}

function partitionAnswer(
  partitionIndex: number,
  commit?: Committed,
  errorCode: number = KafkaError.NONE
) {
  return {
    partitionIndex,
    committedOffset: commit?.offset ?? -1,
    committedLeaderEpoch: commit?.leaderEpoch ?? -1,
    metadata: commit?.metadata ?? '',
    errorCode
  }
}

/** All that the group has committed. */
function all(group: Group | undefined, { cluster }: Context): NonNullable<AskedTopics> {
  return [...(group?.offsets.committed ?? [])].map(([name, partitions]) => ({
    name,
    topicId: cluster.catalog.topic(name)?.id ?? noTopicId,
    partitionIndexes: [...partitions.keys()]
  }))
}

function failed(topics: AskedTopics, errorCode: number) {
  return (topics ?? []).map(({ name, partitionIndexes }) => ({
    name,
    partitions: partitionIndexes.map(partition => partitionAnswer(partition, undefined, errorCode))
  }))
}
