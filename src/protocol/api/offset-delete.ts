/** OffsetDelete (47): deletes a group's offsets of topics that it doesn't subscribe to (KIP-496). */
import { api, array, int16, int32, string } from '../schema.ts'

export const OffsetDelete = api({
  key: 47,
  name: 'OffsetDelete',
  versions: [0, 0],
  flexible: null,
  to: 'group',
  request: {
    groupId: string(),
    topics: array({
      name: string(),
      partitions: array({
        partitionIndex: int32()
      })
    })
  },
  response: {
    errorCode: int16(),
    throttleTimeMs: int32({ ignorable: true }),
    topics: array({
      name: string(),
      partitions: array({
        partitionIndex: int32(),
        errorCode: int16()
      })
    })
  }
})
