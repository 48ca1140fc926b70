/**
 * ControllerListGroups (20480): which groups there are, and which broker leads each. Any broker answers for any group:
 * it is how a member finds its controller, and finds it again.
 *
 * Kafka's consumer was designed in 2013 with groups led by a controller, one of the brokers, found by
 * `list_groups(my_group)`. The requests from 20480 on are that design's, which no Kafka ever released.
 */
import { api, array, bool, int16, int32, int64, int8, string, struct, uuid } from '../schema.ts'

export const ControllerListGroups = api({
  key: 20480,
  name: 'ControllerListGroups',
  versions: [0, 0],
  flexible: 0,
  to: 'any',
  request: {
    /** Null: all groups of this protocol. */
    groupId: string({ nullable: 0, default: null })
  },
  response: {
    errorCode: int16(),
    groups: array({
      groupId: string(),
      /** 'Empty', 'Gathering' or 'Stable'; '' for a group that isn't there yet: the controller would lead it. */
      state: string(),
      generationId: int32(),
      members: array({ memberId: string(), clientId: string(), clientHost: string() }),
      topics: array(string()),
      controller: struct({ nodeId: int32(), host: string(), port: int32() }),
      sessionTimeoutMs: int32(),
      /** Partitions whose rewind is written and not yet taken up. */
      pendingRewinds: int32(),
      /** When one group is asked for: the newest rewind of each partition. */
      rewinds: array(
        {
          topic: string(),
          topicId: uuid(),
          partition: int32(),
          rewindId: int64(),
          /** 0: its owner hasn't taken it up yet. 1: recorded, its next owner starts there. 2: done. 3: taken back. */
          state: int8(),
          /** Where the group was; -1: nowhere. */
          previousOffset: int64(),
          offset: int64(),
          until: int64(),
          resume: int64(),
          /** Of a bounded replay: the group is still inside. */
          replaying: bool(),
          /** ms since 1970. */
          askedAt: int64(),
          by: string(),
          reason: string()
        },
        { tag: 0 }
      )
    })
  }
})
