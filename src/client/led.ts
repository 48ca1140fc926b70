/**
 * Groups that a controller leads, as a client asks about them: where the controller is, and which rewinds it knows.
 * It keeps no ledger; what a rewind of another protocol has as its sequence is made from the controller's id
 * (`sequenceOf`).
 */
import { PlayheadError } from '../base/error.ts'
import { ControllerListGroups } from '../protocol/api/controller-list-groups.ts'
import { KafkaError } from '../protocol/errors.ts'
import type { ResponseOf } from '../protocol/schema.ts'
import { answerError } from '../rpc/answer-errors.ts'
import type { Cluster, WaitOptions } from '../rpc/cluster.ts'
import { backoffMs, callBackoff, sleep } from '../rpc/retry.ts'

export type LedGroup = ResponseOf<typeof ControllerListGroups>['groups'][number]
export type LedRewind = LedGroup['rewinds'][number]

/** A broker that cuts every connection is not asked for ever. */
const mostLosses = 10

/** A rewind's state in the controller's list: its caller took it back. */
export const cancelledState = 3

/** 0: there is none. */
export function newestId(rewinds: readonly LedRewind[]): number {
  return rewinds.reduce((id, { rewindId }) => Math.max(id, rewindId), 0)
}

/** Whether a controller leads the group, or would once it has members. */
export async function canBeLed(cluster: Cluster, group: string): Promise<boolean> {
  if (!(await cluster.supports(ControllerListGroups))) return false
  const { errorCode } = await listed(cluster, group, {})
  if (errorCode === KafkaError.NONE) return true
  if (errorCode === KafkaError.INCONSISTENT_GROUP_PROTOCOL) return false
  throw answerError(errorCode, `controller of '${group}'`)
}

/** What the controller knows of a group; null: no controller leads it. */
export async function ledGroup(
  cluster: Cluster,
  group: string,
  options: WaitOptions = {}
): Promise<LedGroup | null> {
  const { versions } = ControllerListGroups
  if (!(await cluster.supports(ControllerListGroups, versions[0], options))) return null
  const answer = await listed(cluster, group, options)
  const { errorCode } = answer
  if (errorCode === KafkaError.INCONSISTENT_GROUP_PROTOCOL) return null
  if (errorCode !== KafkaError.NONE) throw answerError(errorCode, `controller of '${group}'`)
  const [found] = answer.groups
  return found === undefined || found.state === '' ? null : found
}

/** Asks any broker; when the connection is lost once more, as asking does nothing. */
async function listed(
  cluster: Cluster,
  group: string,
  { timeoutMs, signal }: WaitOptions
): Promise<ResponseOf<typeof ControllerListGroups>> {
  const { clock, random } = cluster.env
  for (let losses = 1; ; losses++) {
    try {
      const options = { timeoutMs, signal }
      return await cluster.request(ControllerListGroups, { groupId: group }, options)
    } catch (error) {
      const lost = error instanceof PlayheadError && error.code === 'CONNECTION_LOST'
      if (!lost || losses === mostLosses) throw error
      await sleep(clock, backoffMs(random, callBackoff, losses), [cluster.closing, signal])
    }
  }
}
