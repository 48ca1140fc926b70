/** AddPartitionsToTxn (24): adds partitions to a transaction. */
import { api, array, bool, int16, int32, opaque64, string } from '../schema.ts'

export const AddPartitionsToTxn = api({
  key: 24,
  name: 'AddPartitionsToTxn',
  versions: [0, 5],
  flexible: 3,
  to: 'transaction',
  request: {
    transactions: array(
      {
        transactionalId: string(),
        producerId: opaque64(),
        producerEpoch: int16(),
        verifyOnly: bool({ default: false }),
        topics: array({
          name: string(),
          partitions: array(int32())
        })
      },
      { since: 4 }
    ),
    v3AndBelowTransactionalId: string({ until: 3 }),
    v3AndBelowProducerId: opaque64({ until: 3 }),
    v3AndBelowProducerEpoch: int16({ until: 3 }),
    v3AndBelowTopics: array(
      {
        name: string(),
        partitions: array(int32())
      },
      { until: 3 }
    )
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16({ since: 4, ignorable: true }),
    resultsByTransaction: array(
      {
        transactionalId: string(),
        topicResults: array({
          name: string(),
          resultsByPartition: array({
            partitionIndex: int32(),
            partitionErrorCode: int16()
          })
        })
      },
      { since: 4 }
    ),
    resultsByTopicV3AndBelow: array(
      {
        name: string(),
        resultsByPartition: array({
          partitionIndex: int32(),
          partitionErrorCode: int16()
        })
      },
      { until: 3 }
    )
  }
})
