/**
 * Takes back rewinds of a group that a controller leads, as far as no owner has taken them up: the controller says at once
 * which it is. Asking again does no harm, as each rewind is named: so it is asked until it answers, also when it moved or
 * its connection broke.
 */
import { PlayheadError } from '../../base/error.ts'
import { RewindConsumer } from '../../protocol/api/rewind-consumer.ts'
import { sequenceOf } from '../../protocol/embedded/rewind-envelope.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { ResponseOf } from '../../protocol/schema.ts'
import { answerError } from '../../rpc/answer-errors.ts'
import type { Cluster, WaitOptions } from '../../rpc/cluster.ts'
import { backoffMs, isPassing, sleep } from '../../rpc/retry.ts'
import { type LedGroup, type LedRewind, ledGroup } from '../led.ts'
import { keyOf } from '../ledger.ts'
import { rewindLane } from './led-rewind.ts'
import type { CancelOptions, CancelledPartition } from './rewind-status.ts'

const backoff = { firstMs: 20, mostMs: 500 }
/** In RewindConsumer, as an offset: the rewind that waits is taken back. */
const takeBack = -3

export async function cancelLed(
  cluster: Cluster,
  group: LedGroup,
  options: CancelOptions
): Promise<readonly CancelledPartition[]> {
  const { clock, random } = cluster.env
  const { id, signal } = options
  const deadline = clock.monotonic() + cluster.within(options).timeoutMs
  const pending = group.rewinds.filter(({ rewindId, state }) => {
    return state === 0 && (id === undefined || sequenceOf(rewindId) === id)
  })
  if (pending.length === 0) return []
  let to = group
  for (let failures = 0; ; failures++) {
    const leftMs = Math.max(1, deadline - clock.monotonic())
    try {
      const answer = await askToCancel(cluster, to, pending, { timeoutMs: leftMs, signal })
      if (answer !== null) return cancelledIn(answer, pending)
      if (clock.monotonic() >= deadline) throw movedAway(group.groupId)
    } catch (error) {
      if (!(error instanceof PlayheadError) || !isPassing(error)) throw error
      if (clock.monotonic() >= deadline) throw error
    }
    await sleep(clock, backoffMs(random, backoff, failures), [cluster.closing, signal])
    to = (await ledGroup(cluster, group.groupId, { timeoutMs: leftMs, signal })) ?? to
  }
}

function movedAway(group: string): PlayheadError {
  const message = `group '${group}': its controller was not found within the time`
  return new PlayheadError('TIMED_OUT', message, { group, retriable: true })
}

/** Null: the controller is elsewhere. */
async function askToCancel(
  cluster: Cluster,
  { groupId, controller }: LedGroup,
  pending: readonly LedRewind[],
  options: WaitOptions
): Promise<ResponseOf<typeof RewindConsumer> | null> {
  const byTopic = new Map<string, LedRewind[]>()
  for (const one of pending) byTopic.set(one.topic, [...(byTopic.get(one.topic) ?? []), one])
  const offsets = [...byTopic].map(([topic, of]) => ({
    topic,
    partitions: of.map(({ partition, rewindId }) => ({ partition, offset: takeBack, rewindId }))
  }))
  const lane = rewindLane()
  try {
    const body = { groupId, timeoutMs: 0, offsets }
    const to = { node: controller.nodeId }
    const answer = await cluster.request(RewindConsumer, body, { to, lane, ...options })
    if (answer.errorCode === KafkaError.NOT_COORDINATOR) return null
    if (answer.offsets.length > 0) return answer
    const { errorCode, errorMessage } = answer
    throw answerError(errorCode, `rewinds of group '${groupId}': ${errorMessage ?? 'refused'}`)
  } finally {
    cluster.endLane(lane)
  }
}

function cancelledIn(
  { offsets }: ResponseOf<typeof RewindConsumer>,
  pending: readonly LedRewind[]
): readonly CancelledPartition[] {
  const codes = new Map<string, number>()
  for (const { topic, partitions } of offsets) {
    for (const { partition, errorCode } of partitions)
      codes.set(keyOf({ topic, partition }), errorCode)
  }
  return pending.map(({ topic, partition, rewindId }) => {
    const code = codes.get(keyOf({ topic, partition }))
    const late = code === KafkaError.REWIND_SUPERSEDED ? 'superseded' : 'applied'
    return {
      topic,
      partition,
      id: sequenceOf(rewindId),
      state: code === KafkaError.NONE ? 'cancelled' : late
    }
  })
}
