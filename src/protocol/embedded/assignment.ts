/** What the leader of a classic group gives to a member, inside SyncGroup (ConsumerProtocolAssignment). */
import { array, bytes, int32, message, string } from '../schema.ts'

export const ConsumerProtocolAssignment = message({
  name: 'ConsumerProtocolAssignment',
  versions: [0, 3],
  flexible: null,
  fields: {
    assignedPartitions: array({
      topic: string(),
      partitions: array(int32())
    }),
    userData: bytes({ nullable: 0, default: null })
  }
})
