/** DeleteShareGroupOffsets (92): deletes a share group's offsets of a topic (KIP-932). */
import { api, array, int16, int32, string, uuid } from '../schema.ts'

export const DeleteShareGroupOffsets = api({
  key: 92,
  name: 'DeleteShareGroupOffsets',
  versions: [0, 0],
  flexible: 0,
  to: 'group',
  request: {
    groupId: string(),
    topics: array({
      topicName: string()
    })
  },
  response: {
    throttleTimeMs: int32(),
    errorCode: int16(),
    errorMessage: string({ nullable: 0, default: null }),
    responses: array({
      topicName: string(),
      topicId: uuid(),
      errorCode: int16(),
      errorMessage: string({ nullable: 0, default: null })
    })
  }
})
