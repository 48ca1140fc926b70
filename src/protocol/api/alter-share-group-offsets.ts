/** AlterShareGroupOffsets (91): changes a share group's start offsets (KIP-932). */
import { api, array, int16, int32, int64, string, uuid } from '../schema.ts'

export const AlterShareGroupOffsets = api({
  key: 91,
  name: 'AlterShareGroupOffsets',
  versions: [0, 0],
  flexible: 0,
  to: 'group',
  request: {
    groupId: string(),
    topics: array({
      topicName: string(),
      partitions: array({
        partitionIndex: int32(),
        startOffset: int64()
      })
    })
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0, default: null }),
    responses: array({
      topicName: string(),
      topicId: uuid(),
      partitions: array({
        partitionIndex: int32(),
        errorCode: int16(),
        errorMessage: string({ nullable: 0, default: null })
      })
    })
  }
})
