/** The machine of KIP-848 groups ("consumer" groups); see state.ts for its states. */
import { assert } from '../../base/assert.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { type Decision, type Machine, type Membership, Turn } from '../machine.ts'
import { topicPattern } from '../pattern.ts'
import { type Heartbeat, type HeartbeatAnswer, heartbeat } from './heartbeat.ts'
import { reached } from './reconcile.ts'
import {
  type ConsumerFact,
  type ConsumerGroup,
  type Member,
  applyConsumer,
  consumerParts,
  consumerWrites
} from './state.ts'
import { retarget } from './target.ts'

export type ConsumerEvent =
  | Heartbeat
  /** Topics came, grew or went. */
  | { readonly kind: 'topics' }
  /** A deadline may have passed. */
  | { readonly kind: 'time' }
  /** The group was loaded: every member has its whole time again. */
  | { readonly kind: 'loaded' }

type ConsumerMachine = Machine<ConsumerGroup, ConsumerEvent, ConsumerFact, HeartbeatAnswer> &
  Membership<ConsumerGroup>

export const consumerMachine: ConsumerMachine = {
  parts: consumerParts,
  writes: consumerWrites,
  apply: applyConsumer,

  decide(group, event, world): Decision<ConsumerFact, HeartbeatAnswer> {
    const turn = new Turn<ConsumerGroup, ConsumerFact, HeartbeatAnswer>(group, world, applyConsumer)
    switch (event.kind) {
      case 'heartbeat':
        heartbeat(turn, event)
        break
      case 'topics':
        retarget(turn, false)
        break
      case 'time':
        expire(turn)
        break
      case 'loaded':
        reload(turn)
        break
    }
    return turn
  },

  invariants(group) {
    let held = 0
    for (const member of group.members.values()) held += holds(group, member)
    let owned = 0
    for (const partitions of group.owners.values()) owned += partitions.size
    assert(owned === held, 'a partition has one owner, which holds it')
    for (const [instanceId, memberId] of group.statics) {
      const known = group.members.get(memberId)?.subscription.instanceId
      assert(known === instanceId, 'an instance id is that of its member')
    }
  },

  size: group => group.members.size,

  stateName(group) {
    if (group.members.size === 0) return 'Empty'
    for (const member of group.members.values()) {
      if (member.epoch !== group.epoch || !reached(member)) return 'Reconciling'
    }
    return 'Stable'
  },

  protocolType: () => 'consumer',

  subscribesTo(group, topic) {
    // Most members of a group say the same.
    const seen = new Set<string>()
    for (const { subscription, wishes } of group.members.values()) {
      if (seen.has(wishes)) continue
      seen.add(wishes)
      if (subscription.topics.includes(topic)) return true
      if (subscription.pattern === null) continue
      const pattern = topicPattern(subscription.pattern)
      if (typeof pattern === 'object' && pattern.matches(topic)) return true
    }
    return false
  },

  mayCommit(group, { memberId, instanceId, epoch, transactional, knowsEpochs }) {
    if (epoch < 0 && group.members.size === 0) return KafkaError.NONE
    // A producer of before KIP-447 doesn't say whose offsets it commits.
    const anonymous = epoch === -1 && memberId === '' && instanceId === null
    if (transactional && anonymous) return KafkaError.NONE
    const member = group.members.get(memberId)
    if (member === undefined) return KafkaError.UNKNOWN_MEMBER_ID
    if (!transactional && !knowsEpochs) return KafkaError.UNSUPPORTED_VERSION
    if (epoch === member.epoch) return KafkaError.NONE
    if (epoch > member.epoch) return KafkaError.STALE_MEMBER_EPOCH
    // KIP-1251: the member moved on while its commit was on the way. What was its own then, and still is, is taken.
    return (topicId, partition) => {
      const since =
        member.assigned.get(topicId)?.get(partition) ?? member.revoking.get(topicId)?.get(partition)
      return since !== undefined && since <= epoch ? KafkaError.NONE : KafkaError.STALE_MEMBER_EPOCH
    }
  },

  mayFetch(group, memberId, epoch) {
    if (memberId === null && epoch < 0) return KafkaError.NONE
    const member = memberId === null ? undefined : group.members.get(memberId)
    if (member === undefined) return KafkaError.UNKNOWN_MEMBER_ID
    return epoch === member.epoch ? KafkaError.NONE : KafkaError.STALE_MEMBER_EPOCH
  },

  mayDeleteOffsets: () => KafkaError.NONE,

  retainedFrom(group, topic, committedAtMs) {
    return consumerMachine.subscribesTo(group, topic) ? null : committedAtMs
  }
}

type ConsumerTurn = Turn<ConsumerGroup, ConsumerFact, HeartbeatAnswer>

/** Members whose time is over are gone. */
function expire(turn: ConsumerTurn): void {
  const { state: group, world } = turn
  let next = Infinity
  let gone = false
  for (const { id, sessionEndsMs, revokeByMs } of group.members.values()) {
    const endsMs = Math.min(sessionEndsMs, revokeByMs ?? Infinity)
    if (endsMs <= world.monotonicMs) {
      turn.become({ kind: 'gone', memberId: id })
      gone = true
    } else next = Math.min(next, endsMs)
  }
  if (gone) retarget(turn, true)
  if (next !== Infinity) turn.wake(next)
}

function reload(turn: ConsumerTurn): void {
  const { state: group, world } = turn
  for (const { id, state, subscription } of group.members.values()) {
    const sessionEndsMs = world.monotonicMs + world.config.sessionTimeoutMs
    turn.become({ kind: 'heard', memberId: id, sessionEndsMs })
    turn.wake(sessionEndsMs)
    if (state !== 'unrevoked') continue
    const revokeByMs = world.monotonicMs + subscription.rebalanceTimeoutMs
    turn.become({ kind: 'revokeBy', memberId: id, revokeByMs })
    turn.wake(revokeByMs)
  }
  // Topics may have changed between the last that was stored of them and of the group.
  retarget(turn, false)
}

/** How many partitions the member holds; it owns each of them, so nobody else does. */
function holds(group: ConsumerGroup, { id, epoch, state, assigned, revoking }: Member): number {
  assert(epoch <= group.epoch, 'no member is ahead of its group')
  assert((state === 'unrevoked') === revoking.size > 0, 'unrevoked is who has something to revoke')
  let count = 0
  for (const held of [assigned, revoking]) {
    for (const [topicId, epochs] of held) {
      const owners = group.owners.get(topicId)
      for (const [partition, since] of epochs) {
        assert(owners?.get(partition) === id, 'who holds a partition owns it')
        assert(since <= group.epoch, 'a partition was not assigned in an epoch to come')
      }
      count += epochs.size
    }
  }
  return count
}
