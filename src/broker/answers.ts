/** What several answers have in common. */

/** The uuid of zeros: none. */
export const noTopicId = 'AAAAAAAAAAAAAAAAAAAAAA'

/** Bits of AclOperation: whoever reaches the broker may do all that there is. */
const bits = (...operations: readonly number[]) => operations.reduce((sum, n) => sum | (1 << n), 0)

/** read, write, create, delete, alter, describe, describe configs, alter configs */
export const topicOperations = bits(3, 4, 5, 6, 7, 8, 10, 11)
/** create, alter, describe, cluster action, describe configs, alter configs, idempotent write */
export const clusterOperations = bits(5, 7, 8, 9, 10, 11, 12)
/** read, delete, describe, describe configs, alter configs */
export const groupOperations = bits(3, 6, 8, 10, 11)
