/**
 * UnregisterConsumer (20485): a member leaves, having stopped and committed. Its partitions go to others at once. See
 * controller-list-groups.ts for where these requests come from.
 */
import { api, int16, int32, string } from '../schema.ts'

export const UnregisterConsumer = api({
  key: 20485,
  name: 'UnregisterConsumer',
  versions: [0, 0],
  flexible: 0,
  to: 'node',
  lane: 'group',
  request: {
    groupId: string(),
    memberId: string(),
    generationId: int32({ default: -1 }),
    reason: string({ nullable: 0, default: null })
  },
  response: {
    errorCode: int16()
  }
})
