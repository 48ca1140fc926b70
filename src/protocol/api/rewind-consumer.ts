/**
 * RewindConsumer (20484): moves partitions of a running group to other offsets. Only their owners are told; the answer
 * comes when each of them has registered, and so stopped at its old offset and learned its new one. All or nothing: an
 * unknown partition refuses all. Rewinds that their owners have not taken up yet are taken back by the same request. See controller-list-groups.ts for where these requests come from.
 */
import { api, array, int16, int32, int64, string } from '../schema.ts'

export const RewindConsumer = api({
  key: 20484,
  name: 'RewindConsumer',
  versions: [0, 0],
  flexible: 0,
  to: 'node',
  lane: 'wait',
  request: {
    groupId: string(),
    /** Null: a tool that is no member. */
    memberId: string({ nullable: 0, default: null }),
    generationId: int32({ default: -1 }),
    /** When it passes: REWIND_PENDING, and the rewind still takes place. */
    timeoutMs: int32(),
    /** For people: owners are shown it, and logs. */
    reason: string({ default: '' }),
    offsets: array({
      topic: string(),
      partitions: array({
        partition: int32(),
        /** -1: latest, -2: earliest, as in ListOffsets. -3: the rewind that waits is taken back; then so for all of them. */
        offset: int64(),
        /** Bounded replay: the owner stops at this offset (-1: it isn't one) … */
        until: int64({ default: -1, tag: 0 }),
        /** … and goes on at this one. */
        resume: int64({ default: -1, tag: 1 }),
        /** With offset -3: only this rewind is taken back; 0: whichever waits. */
        rewindId: int64({ default: 0, tag: 2 })
      })
    }),
    /** Who asks, for people. Default: the member's id, or how the client names itself. */
    by: string({ default: '', tag: 0 })
  },
  response: {
    errorCode: int16(),
    errorMessage: string({ nullable: 0, default: null }),
    /** Greater than that of every rewind of this group before; 0: nothing was written. */
    rewindId: int64({ default: 0 }),
    offsets: array({
      topic: string(),
      partitions: array({
        partition: int32(),
        /**
         * REWIND_PENDING and REWIND_SUPERSEDED; OPERATION_NOT_ATTEMPTED: it was taken back before it took place, or, to who
         * takes back: it took place before, or there is none.
         */
        errorCode: int16(),
        /** What was committed; -1: nothing. */
        previousOffset: int64({ default: -1 }),
        /** Where it starts again: the wish within the log's bounds. */
        offset: int64({ default: -1 }),
        /** Member id; '': nobody owned it. */
        owner: string({ default: '' })
      })
    })
  }
})
