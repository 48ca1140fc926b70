/**
 * RegisterConsumer (20482): a member joins, or says that it has done what it was told: it stopped, committed, and asks
 * for what is its own now. The answer comes when the group's round ends, and brings partitions and the offset at
 * which each starts. See controller-list-groups.ts for where these requests come from.
 */
import { api, array, int16, int32, int64, int8, string, uuid } from '../schema.ts'

export const RegisterConsumer = api({
  key: 20482,
  name: 'RegisterConsumer',
  versions: [0, 0],
  flexible: 0,
  to: 'node',
  lane: 'group',
  request: {
    groupId: string(),
    /** Empty: a new member; the answer has its id. */
    memberId: string({ default: '' }),
    /** A static member: whoever comes with this id again has what the one before had. */
    instanceId: string({ nullable: 0, default: null }),
    clientHost: string({ default: '' }),
    /** The last that the member was told; -1: none. */
    generationId: int32({ default: -1 }),
    /** -1: the group's. */
    sessionTimeoutMs: int32({ default: -1 }),
    /** How long the controller waits for this member when it must register again. */
    registerTimeoutMs: int32(),
    topics: array(string()),
    /** RE2; it must match the whole name. */
    topicPattern: string({ nullable: 0, default: null }),
    /** Where a partition starts that has no committed offset: 0 earliest, 1 latest, 2 none, -1 the group's. */
    startFrom: int8({ default: -1 }),
    /** The most partitions that this member takes; 0: no limit. */
    capacity: int32({ default: 0 }),
    /**
     * What the member goes on delivering while it waits for the answer. Null: nothing, it has stopped all; or, if the
     * last it was told is PARTITIONS_REWOUND, all but those. The design of 2013 has no such field: there every round
     * stopped everybody.
     */
    kept: array(
      { topicId: uuid(), partitions: array(int32()) },
      { nullable: 0, default: null, tag: 0 }
    )
  },
  response: {
    errorCode: int16(),
    errorMessage: string({ nullable: 0, default: null }),
    memberId: string({ default: '' }),
    generationId: int32({ default: -1 }),
    heartbeatIntervalMs: int32({ default: 0 }),
    partitions: array({
      topicId: uuid(),
      topic: string(),
      partitions: array({
        partition: int32(),
        /** Where to start, or for what the member kept: what is committed. -1: nothing is, and startFrom is none. */
        offset: int64(),
        leaderEpoch: int32(),
        /** The last rewind of the partition that took place; 0: none was. It is news if `rewinds` lists it. */
        rewindId: int64(),
        /** The last rewind was a bounded replay up to here, -1: it wasn't. */
        until: int64({ default: -1, tag: 0 }),
        /** The group goes on here from there. -1: it has; the replay is over. */
        resume: int64({ default: -1, tag: 1 })
      })
    }),
    /** Rewinds that starts come from, and that the member is told for the first time: who asked, and why. */
    rewinds: array({ rewindId: int64(), by: string(), reason: string() }, { tag: 0 })
  }
})
