/** How a member gets from what it holds to what its target gives it, one heartbeat at a time. */
import type { ConsumerGroup, Held, Member, MemberState } from './state.ts'

/** What a member says it owns; null: this heartbeat doesn't say. */
export type Owned = readonly { readonly topicId: string; readonly partitions: readonly number[] }[]

export interface Current {
  readonly epoch: number
  readonly previousEpoch: number
  readonly state: MemberState
  readonly assigned: Held
  readonly revoking: Held
}

/** What the member has after this heartbeat; undefined: what it had. */
export function reconcile(
  group: ConsumerGroup,
  member: Member,
  owned: Owned | null
): Current | undefined {
  if (member.state === 'stable' && member.epoch === group.epoch) return undefined
  if (member.state === 'unrevoked' && stillOwns(member.revoking, owned)) return undefined
  const { kept, revoking, free, taken } = compare(group, member)
  if (revoking.size > 0 && stillOwns(revoking, owned)) {
    return moved(member, member.epoch, 'unrevoked', kept, revoking)
  }
  const assigned = new Map([...kept].map(([topicId, epochs]) => [topicId, new Map(epochs)]))
  for (const [topicId, partition] of free) put(assigned, topicId, partition, group.epoch)
  return moved(member, group.epoch, taken ? 'unreleased' : 'stable', assigned, new Map())
}

function moved(
  { epoch: previousEpoch }: Member,
  epoch: number,
  state: MemberState,
  assigned: Held,
  revoking: Held
): Current {
  return { epoch, previousEpoch, state, assigned, revoking }
}

/** Of the member's target: what it has, what nobody has; and what it has beside. `taken`: others have of it. */
function compare(group: ConsumerGroup, { id, assigned, target }: Member) {
  const kept = new Map<string, Map<number, number>>()
  const revoking = new Map<string, Map<number, number>>()
  for (const [topicId, epochs] of assigned) {
    for (const [partition, epoch] of epochs) {
      put(target.get(topicId)?.has(partition) ? kept : revoking, topicId, partition, epoch)
    }
  }
  const free: (readonly [topicId: string, partition: number])[] = []
  let taken = false
  for (const [topicId, partitions] of target) {
    for (const partition of partitions) {
      if (kept.get(topicId)?.has(partition)) continue
      const owner = group.owners.get(topicId)?.get(partition)
      if (owner === undefined || owner === id) free.push([topicId, partition])
      else taken = true
    }
  }
  return { kept, revoking, free, taken }
}

/** Who doesn't say what it owns may still own it all. */
function stillOwns(revoking: Held, owned: Owned | null): boolean {
  if (owned === null) return true
  return owned.some(({ topicId, partitions }) =>
    partitions.some(partition => revoking.get(topicId)?.has(partition))
  )
}

/** Whether all that the member says it owns is assigned to it. */
export function ownsOnly(owned: Owned | null, assigned: Held): boolean {
  if (owned === null) return false
  return owned.every(({ topicId, partitions }) =>
    partitions.every(partition => assigned.get(topicId)?.has(partition))
  )
}

export function sameHeld(one: Held, other: Held): boolean {
  if (one.size !== other.size) return false
  for (const [topicId, epochs] of one) {
    const others = other.get(topicId)
    if (others === undefined || others.size !== epochs.size) return false
    for (const [partition, epoch] of epochs) if (others.get(partition) !== epoch) return false
  }
  return true
}

/** Whether the member has just what its target gives it. */
export function reached({ assigned, revoking, target }: Member): boolean {
  if (revoking.size > 0 || assigned.size !== target.size) return false
  return [...target].every(([topicId, partitions]) => {
    const epochs = assigned.get(topicId)
    return epochs?.size === partitions.size && subset(partitions, epochs)
  })
}

function subset(partitions: ReadonlySet<number>, of: ReadonlyMap<number, number>): boolean {
  for (const partition of partitions) if (!of.has(partition)) return false
  return true
}

function put(
  to: Map<string, Map<number, number>>,
  topicId: string,
  partition: number,
  epoch: number
): void {
  const epochs = to.get(topicId)
  if (epochs === undefined) to.set(topicId, new Map([[partition, epoch]]))
  else epochs.set(partition, epoch)
}
