/** OffsetForLeaderEpoch: where an epoch ended, by which a client finds that a log was cut (KIP-320). */
import { OffsetForLeaderEpoch } from '../../protocol/api/offset-for-leader-epoch.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { RequestRead } from '../../protocol/schema.ts'
import { type Context, handler } from '../handler.ts'

type Asked = RequestRead<typeof OffsetForLeaderEpoch>['topics'][number]['partitions'][number]

export const handleOffsetForLeaderEpoch = handler({
  api: OffsetForLeaderEpoch,
  handle: (request, context) => ({
    throttleTimeMs: 0,
    topics: request.topics.map(({ topic, partitions }) => ({
      topic,
      partitions: partitions.map(asked => answerFor(topic, asked, context))
    }))
  })
})

function answerFor(topic: string, asked: Asked, { cluster, node }: Context) {
  const { partition: index, currentLeaderEpoch: epoch, leaderEpoch } = asked
  const failed = (errorCode: number) => ({ partition: index, errorCode })
  const partition = cluster.catalog.partition(topic, index)
  if (partition === undefined) return failed(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
  if (epoch >= 0 && epoch < partition.leaderEpoch) return failed(KafkaError.FENCED_LEADER_EPOCH)
  if (epoch > partition.leaderEpoch) return failed(KafkaError.UNKNOWN_LEADER_EPOCH)
  if (partition.leader !== node) return failed(KafkaError.NOT_LEADER_OR_FOLLOWER)
  const found = partition.endOfEpoch(leaderEpoch)
  return { ...failed(KafkaError.NONE), leaderEpoch: found.epoch, endOffset: found.endOffset }
}
