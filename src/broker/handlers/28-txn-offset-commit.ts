/** TxnOffsetCommit: offsets of a group that count once their transaction is committed. */
import { TxnOffsetCommit } from '../../protocol/api/txn-offset-commit.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { commitOffsets } from '../group-commits.ts'
import { handler } from '../handler.ts'

/** From here on topics go by id. */
const byIdFrom = 6

export const handleTxnOffsetCommit = handler({
  api: TxnOffsetCommit,
  async handle(request, { cluster, node, version }) {
    const { groupId, memberId, groupInstanceId: instanceId, producerId } = request
    const refuse = (errorCode: number) => ({
      throttleTimeMs: 0,
      topics: request.topics.map(({ name, topicId, partitions }) => ({
        name,
        topicId,
        partitions: partitions.map(({ partitionIndex }) => ({ partitionIndex, errorCode }))
      }))
    })
    if (groupId === '') return refuse(KafkaError.INVALID_GROUP_ID)
    if (cluster.coordinators.elsewhere('group', groupId, node)) {
      return refuse(KafkaError.NOT_COORDINATOR)
    }
    const refusal = await cluster.groups.admit({ ...request, version })
    if (refusal !== KafkaError.NONE) return refuse(refusal)
    const epoch = request.generationIdOrMemberEpoch
    const topics = await commitOffsets(cluster, {
      groupId,
      topics: request.topics,
      byId: version >= byIdFrom,
      committer: { memberId, instanceId, epoch, transactional: true, knowsEpochs: true },
      producerId
    })
    return { throttleTimeMs: 0, topics }
  }
})
