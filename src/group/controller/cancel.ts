/**
 * Taking back rewinds that no owner has taken up: RewindConsumer with the offset `takeBack`. What waits is dropped, and the
 * rewind before it is again the last that took place. An owner that has been told already registers as it would have, and
 * finds its partition where it was committed. What has taken place can't be taken back, only rewound again.
 */
import { KafkaError } from '../../protocol/errors.ts'
import { put } from './by-partition.ts'
import { decide, linesOf } from './grants.ts'
import { ownerOf } from './of-partition.ts'
import type { CallLine, Rewind } from './state.ts'
import type { ControllerTurn } from './world.ts'

/** As an offset: the rewind that waits is taken back. Beside -1 (latest) and -2 (earliest). */
export const takeBack = -3

export interface TakeBack {
  readonly topic: string
  readonly topicId: string
  readonly partition: number
  /** Only this rewind; 0: whichever waits. */
  readonly rewindId: number
}

/** Answered at once: nobody has to agree. */
export function cancel(turn: ControllerTurn, ticket: number, wishes: readonly TakeBack[]): void {
  const { state: group } = turn
  const lines = new Map<string, Map<number, CallLine>>()
  let errorCode: number = KafkaError.NONE
  for (const { topic, topicId, partition, rewindId } of wishes) {
    const rewind = group.rewinds.get(topicId)?.get(partition)
    const code = fate(rewind, rewindId)
    if (errorCode === KafkaError.NONE) errorCode = code
    if (rewind?.state === 'waiting' && code === KafkaError.NONE) {
      turn.become({ kind: 'rewind', rewind: { ...rewind, state: 'cancelled' } })
      decide(turn, rewind, KafkaError.OPERATION_NOT_ATTEMPTED, rewind.target)
    }
    const owner = ownerOf(group, topicId, partition)?.id ?? ''
    const { from: previousOffset = -1, target: offset = -1 } = rewind ?? {}
    put(lines, topicId, partition, { topic, previousOffset, owner, offset, errorCode: code })
  }
  const errorMessage =
    errorCode === KafkaError.NONE ? null : 'not all could be taken back: see the partitions'
  turn.answer(ticket, { errorCode, errorMessage, offsets: linesOf(lines) })
}

/** NONE: it is taken back. */
function fate(rewind: Rewind | undefined, rewindId: number): number {
  if (rewind === undefined) return KafkaError.OPERATION_NOT_ATTEMPTED
  if (rewindId !== 0 && rewindId !== rewind.id) {
    return rewindId < rewind.id ? KafkaError.REWIND_SUPERSEDED : KafkaError.OPERATION_NOT_ATTEMPTED
  }
  const took = rewind.state === 'recorded' || rewind.state === 'done'
  return took ? KafkaError.OPERATION_NOT_ATTEMPTED : KafkaError.NONE
}
