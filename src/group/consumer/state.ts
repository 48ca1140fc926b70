/**
 * The state of a KIP-848 group, and the facts that change it.
 *
 * States of a group, as it is shown:
 *   Empty        no members. A heartbeat of a new member leads on; offsets may be committed by anybody.
 *   Assigning    never seen from outside: the target is computed in the turn that raised the epoch.
 *   Reconciling  some member is not yet where its target wants it.
 *   Stable       every member is.
 *
 * States of a member:
 *   stable       at the target's epoch (or about to be told of a new one): each heartbeat compares.
 *   unrevoked    it holds partitions that its target doesn't give it. It keeps its epoch until a heartbeat says that
 *                it has given them up, which it must before its rebalance timeout; else it is removed.
 *   unreleased   at the target's epoch, lacking partitions that others have yet to give up: each heartbeat looks
 *                whether they are free.
 *
 * A partition belongs to a member from the turn that assigns it until the turn that knows that the member has given it
 * up or is gone (`owners`): nobody else gets it before. With each partition goes the epoch in which it was assigned:
 * a commit with an older epoch of the member is taken for partitions that were already assigned then (KIP-1251).
 */
import { type Read, array, int32, int8, message, string, uuid } from '../../protocol/schema.ts'
import type { Partitions } from '../assign/assignor.ts'
import { type Part, type Write, part, write } from '../machine.ts'

const memberStates = ['stable', 'unrevoked', 'unreleased'] as const
export type MemberState = (typeof memberStates)[number]

/** The epoch of a static member that left for a while. */
export const awayEpoch = -2
export const leftEpoch = -1

/** Partitions, and the epoch in which each was assigned, by topic id. */
export type Held = ReadonlyMap<string, ReadonlyMap<number, number>>

export interface Member {
  readonly id: string
  readonly subscription: Subscription
  /** What it subscribes to, as one string: most members of a group have the same. */
  readonly wishes: string
  readonly epoch: number
  /** A lost answer: the member may still say this one. */
  readonly previousEpoch: number
  readonly state: MemberState
  readonly assigned: Held
  /** It holds them and is to give them up. */
  readonly revoking: Held
  readonly target: Partitions
  /** Monotonic; volatile. */
  readonly sessionEndsMs: number
  /** Until when it has to have revoked; null: nothing to revoke. Volatile. */
  readonly revokeByMs: number | null
}

export const StoredGroupEpoch = message({
  name: 'StoredGroupEpoch',
  versions: [0, 0],
  flexible: 0,
  fields: { epoch: int32() }
})

export const StoredMember = message({
  name: 'StoredMember',
  versions: [0, 0],
  flexible: 0,
  fields: {
    memberId: string(),
    instanceId: string({ nullable: 0 }),
    rackId: string({ nullable: 0 }),
    clientId: string(),
    clientHost: string(),
    rebalanceTimeoutMs: int32(),
    topics: array(string()),
    pattern: string({ nullable: 0 }),
    assignor: string({ nullable: 0 })
  }
})

export const StoredTarget = message({
  name: 'StoredTarget',
  versions: [0, 0],
  flexible: 0,
  fields: {
    memberId: string(),
    partitions: array({ topicId: uuid(), partitions: array(int32()) })
  }
})

const held = () =>
  array({ topicId: uuid(), partitions: array({ partition: int32(), epoch: int32() }) })

export const StoredCurrent = message({
  name: 'StoredCurrent',
  versions: [0, 0],
  flexible: 0,
  fields: {
    memberId: string(),
    epoch: int32(),
    previousEpoch: int32(),
    /** Index of MemberState. */
    state: int8(),
    assigned: held(),
    revoking: held()
  }
})

export type Subscription = Read<typeof StoredMember.fields>

export type ConsumerFact =
  /** The group's epoch; its target is always of that epoch. */
  | { readonly kind: 'epoch'; readonly epoch: number }
  | { readonly kind: 'member'; readonly subscription: Subscription }
  | { readonly kind: 'gone'; readonly memberId: string }
  | { readonly kind: 'target'; readonly memberId: string; readonly partitions: Partitions }
  | {
      readonly kind: 'current'
      readonly memberId: string
      readonly epoch: number
      readonly previousEpoch: number
      readonly state: MemberState
      readonly assigned: Held
      readonly revoking: Held
    }
  | { readonly kind: 'heard'; readonly memberId: string; readonly sessionEndsMs: number }
  | { readonly kind: 'revokeBy'; readonly memberId: string; readonly revokeByMs: number | null }

export interface ConsumerGroup {
  /** Rises when members, subscriptions or topics change; 0: nothing was ever assigned. */
  epoch: number
  readonly members: Map<string, Member>
  /** Member id by instance id. */
  readonly statics: Map<string, string>
  /** Who holds a partition, by topic id: derived from the members. */
  readonly owners: Map<string, Map<number, string>>
}

export function newConsumerGroup(): ConsumerGroup {
  return { epoch: 0, members: new Map(), statics: new Map(), owners: new Map() }
}

const nothing: ReadonlyMap<string, never> = new Map<string, never>()

function blank(memberId: string): Member {
  return {
    id: memberId,
    subscription: {
      memberId,
      instanceId: null,
      rackId: null,
      clientId: '',
      clientHost: '',
      rebalanceTimeoutMs: -1,
      topics: [],
      pattern: null,
      assignor: null
    },
    wishes: '',
    epoch: 0,
    previousEpoch: 0,
    state: 'stable',
    assigned: nothing,
    revoking: nothing,
    target: nothing,
    sessionEndsMs: Infinity,
    revokeByMs: null
  }
}

export function applyConsumer(group: ConsumerGroup, fact: ConsumerFact): ConsumerGroup {
  switch (fact.kind) {
    case 'epoch':
      group.epoch = fact.epoch
      return group
    case 'member': {
      const { memberId, instanceId, topics, pattern } = fact.subscription
      const wishes = JSON.stringify([topics, pattern])
      const past = group.members.get(memberId)?.subscription.instanceId ?? null
      if (past !== null && group.statics.get(past) === memberId) group.statics.delete(past)
      change(group, memberId, { subscription: fact.subscription, wishes })
      if (instanceId !== null) group.statics.set(instanceId, memberId)
      return group
    }
    case 'gone': {
      const member = group.members.get(fact.memberId)
      if (member === undefined) return group
      group.members.delete(fact.memberId)
      const { instanceId } = member.subscription
      if (instanceId !== null && group.statics.get(instanceId) === fact.memberId) {
        group.statics.delete(instanceId)
      }
      disown(group, member)
      return group
    }
    case 'target':
      return change(group, fact.memberId, { target: fact.partitions })
    case 'current': {
      const { memberId, epoch, previousEpoch, state, assigned, revoking } = fact
      const before = group.members.get(memberId)
      if (before !== undefined) disown(group, before)
      change(group, memberId, { epoch, previousEpoch, state, assigned, revoking })
      own(group, memberId, assigned)
      own(group, memberId, revoking)
      return group
    }
    case 'heard':
      return change(group, fact.memberId, { sessionEndsMs: fact.sessionEndsMs })
    case 'revokeBy':
      return change(group, fact.memberId, { revokeByMs: fact.revokeByMs })
  }
}

function change(group: ConsumerGroup, memberId: string, to: Partial<Member>): ConsumerGroup {
  group.members.set(memberId, { ...(group.members.get(memberId) ?? blank(memberId)), ...to })
  return group
}

function own(group: ConsumerGroup, memberId: string, partitions: Held): void {
  for (const [topicId, epochs] of partitions) {
    let owners = group.owners.get(topicId)
    if (owners === undefined) group.owners.set(topicId, (owners = new Map()))
    for (const partition of epochs.keys()) owners.set(partition, memberId)
  }
}

function disown(group: ConsumerGroup, { id, assigned, revoking }: Member): void {
  for (const [topicId, epochs] of [...assigned, ...revoking]) {
    const owners = group.owners.get(topicId)
    if (owners === undefined) continue
    for (const partition of epochs.keys()) {
      if (owners.get(partition) === id) owners.delete(partition)
    }
    if (owners.size === 0) group.owners.delete(topicId)
  }
}

// Parts of the store: 0x10 to 0x1f are this machine's.
const epochPart = 0x10
const memberPart = 0x11
const targetPart = 0x12
const currentPart = 0x13

export function consumerWrites(fact: ConsumerFact): readonly Write[] {
  switch (fact.kind) {
    case 'epoch':
      return [write(epochPart, '', StoredGroupEpoch, fact)]
    case 'member':
      return [write(memberPart, fact.subscription.memberId, StoredMember, fact.subscription)]
    case 'gone':
      return [
        write(memberPart, fact.memberId, StoredMember, null),
        write(targetPart, fact.memberId, StoredTarget, null),
        write(currentPart, fact.memberId, StoredCurrent, null)
      ]
    case 'target': {
      const { memberId } = fact
      const value = { memberId, partitions: listOf(fact.partitions) }
      return [write(targetPart, memberId, StoredTarget, value)]
    }
    case 'current': {
      const { memberId, epoch, previousEpoch, assigned, revoking } = fact
      const value = {
        memberId,
        epoch,
        previousEpoch,
        state: memberStates.indexOf(fact.state),
        assigned: heldList(assigned),
        revoking: heldList(revoking)
      }
      return [write(currentPart, memberId, StoredCurrent, value)]
    }
    case 'heard':
    case 'revokeBy':
      return []
  }
}

export const consumerParts: ReadonlyMap<number, Part<ConsumerFact>> = new Map([
  [epochPart, part(StoredGroupEpoch, (value): ConsumerFact => ({ kind: 'epoch', ...value }))],
  [
    memberPart,
    part(StoredMember, (subscription): ConsumerFact => ({ kind: 'member', subscription }))
  ],
  [
    targetPart,
    part(StoredTarget, ({ memberId, partitions }): ConsumerFact => {
      const byTopic = partitions.map(
        ({ topicId, partitions: list }) => [topicId, new Set(list)] as const
      )
      return { kind: 'target', memberId, partitions: new Map(byTopic) }
    })
  ],
  [
    currentPart,
    part(
      StoredCurrent,
      ({ state, assigned, revoking, ...value }): ConsumerFact => ({
        kind: 'current',
        ...value,
        state: memberStates[state] ?? 'stable',
        assigned: heldMap(assigned),
        revoking: heldMap(revoking)
      })
    )
  ]
])

/** As messages carry partitions. */
export function listOf(
  partitions: ReadonlyMap<string, ReadonlySet<number> | ReadonlyMap<number, unknown>>
): { topicId: string; partitions: number[] }[] {
  return [...partitions].map(([topicId, of]) => ({
    topicId,
    partitions: [...of.keys()].sort((a, b) => a - b)
  }))
}

function heldList(partitions: Held) {
  return [...partitions].map(([topicId, epochs]) => ({
    topicId,
    partitions: [...epochs].map(([partition, epoch]) => ({ partition, epoch }))
  }))
}

function heldMap(list: Read<typeof StoredCurrent.fields>['assigned']): Held {
  return new Map(
    list.map(({ topicId, partitions }) => [
      topicId,
      new Map(partitions.map(({ partition, epoch }) => [partition, epoch]))
    ])
  )
}
