/**
 * What members that offer 'sticky' tell the leader inside their subscription's user data: what they were assigned last,
 * and in which generation (Java: StickyAssignor). Version 0, of clients before 2.3, has no generation; nothing in the
 * bytes says which version it is, so they are read as the later one where they are long enough.
 */
import { array, int32, message, string } from '../schema.ts'

export const StickyAssignorUserData = message({
  name: 'StickyAssignorUserData',
  versions: [0, 1],
  flexible: null,
  fields: {
    previousAssignment: array({
      topic: string(),
      partitions: array(int32())
    }),
    generation: int32({ since: 1, default: -1, ignorable: true })
  }
})
