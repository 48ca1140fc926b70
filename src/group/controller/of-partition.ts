/** What a group's state says of one partition. */
import type { ControllerGroup, Member, Rewind } from './state.ts'

export function ownerOf(
  group: ControllerGroup,
  topicId: string,
  partition: number
): Member | undefined {
  return group.members.get(group.owners.get(topicId)?.get(partition) ?? '')
}

/** The rewind of a partition that its owner has yet to take up. */
export function waitingRewind(
  group: ControllerGroup,
  topicId: string,
  partition: number
): Rewind | undefined {
  if (group.waiting === 0) return undefined
  const rewind = group.rewinds.get(topicId)?.get(partition)
  return rewind?.state === 'waiting' ? rewind : undefined
}

const noRewind = { id: 0, until: -1, resume: -1 } as const

/** The last rewind of a partition that took place, and its window; id 0: none. */
export function lastRewind(
  group: ControllerGroup,
  topicId: string,
  partition: number
): Pick<Rewind, 'id' | 'until' | 'resume'> {
  const rewind = group.rewinds.get(topicId)?.get(partition)
  if (rewind === undefined) return noRewind
  if (rewind.state === 'recorded' || rewind.state === 'done') return rewind
  const { previousId: id, previousUntil: until, previousResume: resume } = rewind
  return { id, until, resume }
}
