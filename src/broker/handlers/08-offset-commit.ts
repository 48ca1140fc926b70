/** OffsetCommit: stores the offsets of a group, all of them in one transaction. */
import { OffsetCommit } from '../../protocol/api/offset-commit.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { commitOffsets } from '../group-commits.ts'
import { handler } from '../handler.ts'

/** From here on a member of a KIP-848 group may commit. */
const knowsEpochsFrom = 9
/** From here on topics go by id. */
const byIdFrom = 10

export const handleOffsetCommit = handler({
  api: OffsetCommit,
  async handle(request, { cluster, node, version }) {
    const { groupId, memberId, groupInstanceId: instanceId, retentionTimeMs } = request
    if (cluster.coordinators.elsewhere('group', groupId, node)) {
      const errorCode = KafkaError.NOT_COORDINATOR
      const topics = request.topics.map(({ name, topicId, partitions }) => ({
        name,
        topicId,
        partitions: partitions.map(({ partitionIndex }) => ({ partitionIndex, errorCode }))
      }))
      return { throttleTimeMs: 0, topics }
    }
    const topics = await commitOffsets(cluster, {
      groupId,
      topics: request.topics,
      byId: version >= byIdFrom,
      committer: {
        memberId,
        instanceId,
        epoch: request.generationIdOrMemberEpoch,
        transactional: false,
        knowsEpochs: version >= knowsEpochsFrom
      },
      retentionMs: retentionTimeMs < 0 ? undefined : retentionTimeMs
    })
    return { throttleTimeMs: 0, topics }
  }
})
