/** What a classic member tells the group's leader when it joins, inside JoinGroup (ConsumerProtocolSubscription). */
import { array, bytes, int32, message, string } from '../schema.ts'

export const ConsumerProtocolSubscription = message({
  name: 'ConsumerProtocolSubscription',
  versions: [0, 3],
  flexible: null,
  fields: {
    topics: array(string()),
    userData: bytes({ nullable: 0, default: null }),
    ownedPartitions: array(
      {
        topic: string(),
        partitions: array(int32())
      },
      { since: 1, ignorable: true }
    ),
    generationId: int32({ since: 2, default: -1, ignorable: true }),
    rackId: string({ since: 3, nullable: 3, default: null, ignorable: true })
  }
})
