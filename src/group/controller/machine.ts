/** The machine of groups led by a controller; see state.ts for its states. */
import { assert } from '../../base/assert.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { type Decision, type Machine, type Membership, Turn } from '../machine.ts'
import { answerCall, isHeld } from './grants.ts'
import { heard, newsFor, say, wakeBy } from './news.ts'
import { ownerOf } from './of-partition.ts'
import { register, unregister } from './register.ts'
import { rewind } from './rewind.ts'
import {
  afterRemoval,
  beginRound,
  dropTopics,
  openRound,
  recordUnowned,
  removeMember,
  settle,
  topicsChanged,
  unhold
} from './round.ts'
import { type ControllerFact, type ControllerGroup, type Member, applyController } from './state.ts'
import { controllerParts, controllerWrites } from './stored.ts'
import { matches, subscriptions } from './target.ts'
import type {
  Beat,
  ControllerAnswer,
  ControllerEvent,
  ControllerTurn,
  ControllerWorld
} from './world.ts'

type ControllerMachine = Machine<
  ControllerGroup,
  ControllerEvent,
  ControllerFact,
  ControllerAnswer,
  ControllerWorld
> &
  Membership<ControllerGroup>

/** Up to so many members the whole of a group is looked over in each step; larger ones now and then. */
const alwaysCheckedMembers = 64

export const controllerMachine: ControllerMachine = {
  parts: controllerParts,
  writes: controllerWrites,
  apply: applyController,

  decide(group, event, world): Decision<ControllerFact, ControllerAnswer> {
    const turn: ControllerTurn = new Turn(group, world, applyController)
    decide(turn, event)
    return turn
  },

  invariants(group) {
    const { members, head } = group
    if (members.size > alwaysCheckedMembers && head.generation % members.size !== 0) return
    checkLeases(group)
    checkWaiting(group)
  },

  size: group => group.members.size,

  stateName(group) {
    if (group.members.size === 0) return 'Empty'
    // Kafka's name for it: other tools know no other.
    return group.round === null ? 'Stable' : 'PreparingRebalance'
  },

  protocolType: () => 'consumer',

  subscribesTo: (group, topic) => matches(topic, subscriptions(group.members.values())),

  mayCommit(group, { memberId, instanceId, epoch, transactional }) {
    if (epoch < 0 && group.members.size === 0) return KafkaError.NONE
    // A producer of before KIP-447 doesn't say whose offsets it commits.
    if (transactional && epoch === -1 && memberId === '' && instanceId === null) {
      return KafkaError.NONE
    }
    const member = group.members.get(memberId)
    if (member === undefined) {
      const fenced = instanceId !== null && group.statics.has(instanceId)
      return fenced ? KafkaError.FENCED_INSTANCE_ID : KafkaError.UNKNOWN_MEMBER_ID
    }
    if (epoch !== member.generation) return KafkaError.ILLEGAL_GENERATION
    return (topicId, partition) => {
      const mine = member.leases.get(topicId)?.has(partition) ?? false
      return mine ? KafkaError.NONE : KafkaError.ILLEGAL_GENERATION
    }
  },

  mayFetch(group, memberId, epoch) {
    if ((memberId === null || memberId === '') && epoch < 0) return KafkaError.NONE
    const member = group.members.get(memberId ?? '')
    if (member === undefined) return KafkaError.UNKNOWN_MEMBER_ID
    return epoch === member.generation ? KafkaError.NONE : KafkaError.ILLEGAL_GENERATION
  },

  mayDeleteOffsets: () => KafkaError.NONE,

  retainedFrom(group, topic, committedAtMs) {
    if (group.members.size === 0) return Math.max(group.head.emptySinceMs, committedAtMs)
    return controllerMachine.subscribesTo(group, topic) ? null : committedAtMs
  }
}

function decide(turn: ControllerTurn, event: ControllerEvent): void {
  switch (event.kind) {
    case 'register':
      return register(turn, event)
    case 'heartbeat':
      return beat(turn, event)
    case 'rewind':
      return rewind(turn, event)
    case 'unregister':
      return unregister(turn, event)
    case 'create': {
      const { sessionTimeoutMs, startFrom } = event
      const emptySinceMs = turn.world.wallMs
      const { head } = turn.state
      turn.become({ kind: 'head', head: { ...head, sessionTimeoutMs, startFrom, emptySinceMs } })
      return
    }
    case 'closed':
      return closed(turn, event.ticket)
    case 'topics':
      return discover(turn)
    case 'settled':
      return unhold(turn)
    case 'time':
      return passTime(turn)
    case 'loaded':
      return reload(turn)
  }
}

function beat(turn: ControllerTurn, { request, ticket }: Beat): void {
  const { state: group, world } = turn
  const member = group.members.get(request.memberId)
  if (member === undefined) {
    const errorCode = KafkaError.UNKNOWN_MEMBER_ID
    turn.answer(ticket, { errorCode, generationId: -1, rewound: [] })
    return
  }
  const { id: memberId, generation: generationId, parked } = member
  const nothingNew = { errorCode: KafkaError.NONE, generationId, rewound: [] }
  // One is held: a member has one heartbeat, and the older was given up.
  // Perhaps one that comes late, on a connection that was given up: the one that is held goes on being held.
  if (request.generationId !== generationId) {
    heard(turn, memberId)
    const errorCode = KafkaError.ILLEGAL_GENERATION
    turn.answer(ticket, { errorCode, generationId, rewound: [] })
    return
  }
  if (parked !== null) say(turn, member, parked, nothingNew)
  const news = newsFor(group, member)
  if (news !== undefined || request.maxWaitMs <= 0) {
    const now = group.members.get(memberId) as Member
    say(turn, now, { ticket }, news ?? nothingNew)
    return
  }
  // No longer than a session, as a peer may vanish without a word.
  const waitMs = Math.min(request.maxWaitMs, member.registration.sessionTimeoutMs)
  const untilMs = world.monotonicMs + waitMs
  heard(turn, memberId, { parked: { ticket, untilMs } })
  wakeBy(turn, untilMs)
}

/** A connection ended: who waited on it is not heard any more. */
function closed(turn: ControllerTurn, ticket: number): void {
  const { state: group } = turn
  turn.become({ kind: 'callOver', ticket })
  const member = group.members.get(group.tickets.get(ticket) ?? '')
  if (member === undefined) return
  if (member.generation < 0) {
    // It was never told who it is, so it can't come back as that.
    turn.become({ kind: 'gone', memberId: member.id })
    return settle(turn)
  }
  if (member.parked?.ticket === ticket) heard(turn, member.id, { parked: null })
  else if (member.registered?.ticket === ticket) {
    heard(turn, member.id, { registered: { ...member.registered, ticket: null } })
  } else heard(turn, member.id)
}

function discover(turn: ControllerTurn): void {
  const hit = dropTopics(turn)
  if (turn.state.members.size === 0) return
  if (!hit && !topicsChanged(turn)) return
  openRound(turn, 'topics')
  settle(turn)
}

function passTime(turn: ControllerTurn): void {
  const { state: group, world } = turn
  const now = world.monotonicMs
  turn.become({ kind: 'wakes', atMs: Infinity })
  for (const { ticket, untilMs } of group.calls.values()) {
    if (untilMs <= now) answerCall(turn, ticket)
  }
  const { round } = group
  if (round !== null && !round.told && round.startsMs <= now) beginRound(turn)
  let gone = false
  for (const member of group.members.values()) {
    const { id, parked, generation: generationId } = member
    if (parked !== null && parked.untilMs <= now) {
      say(turn, member, parked, { errorCode: KafkaError.NONE, generationId, rewound: [] })
    }
    if (deadlineOf(group, group.members.get(id) ?? member) > now) continue
    removeMember(turn, id, KafkaError.UNKNOWN_MEMBER_ID)
    gone = true
  }
  if (gone) afterRemoval(turn)
  for (const { untilMs } of group.calls.values()) wakeBy(turn, untilMs)
  let nextMs = Infinity
  for (const member of group.members.values()) {
    nextMs = Math.min(nextMs, member.parked?.untilMs ?? Infinity, deadlineOf(group, member))
  }
  if (group.round !== null && !group.round.told) wakeBy(turn, group.round.startsMs)
  wakeBy(turn, nextMs)
}

/** When it is removed: silent for a session, missing in a round, or not giving up what it should. */
function deadlineOf({ round }: ControllerGroup, member: Member): number {
  const { sessionEndsMs, recalledUntilMs, registration, id } = member
  const registerBy = round?.missing.has(id)
    ? round.startsMs + registration.registerTimeoutMs
    : Infinity
  return Math.min(sessionEndsMs, recalledUntilMs, registerBy)
}

/** Every member has its whole session again; what was under way goes on. */
function reload(turn: ControllerTurn): void {
  const { state: group } = turn
  dropTopics(turn)
  for (const { id, leases } of group.members.values()) {
    const target = new Map<string, Set<number>>()
    for (const [topicId, of] of leases) {
      const granted = [...of].filter(([, { moved }]) => !moved).map(([partition]) => partition)
      if (granted.length > 0) target.set(topicId, new Set(granted))
    }
    heard(turn, id, { target })
  }
  if (topicsChanged(turn)) openRound(turn, 'topics')
  else if (unfinished(group)) openRound(turn, 'group')
  if (group.round === null) recordUnowned(turn)
}

/** Who had given up what, and who waited for it, was not stored: a round finds out. */
function unfinished(group: ControllerGroup): boolean {
  for (const { topicId, partitionCount } of group.known.values()) {
    if ((group.owners.get(topicId)?.size ?? 0) < partitionCount) return true
  }
  for (const { leases } of group.members.values()) {
    for (const of of leases.values()) {
      for (const { moved } of of.values()) if (moved) return true
    }
  }
  return false
}

function checkLeases(group: ControllerGroup): void {
  const owners = new Set<string>()
  for (const { id, generation, leases } of group.members.values()) {
    assert(generation <= group.head.generation, 'no member is ahead of its group')
    for (const [topicId, of] of leases) {
      for (const [partition, { since }] of of) {
        const named = `${topicId}:${partition}`
        assert(!owners.has(named), 'a partition has one owner')
        owners.add(named)
        assert(ownerOf(group, topicId, partition)?.id === id, 'who holds a lease is its owner')
        assert(since <= generation, 'a lease is no newer than what its member was told')
      }
    }
  }
  let owned = 0
  for (const of of group.owners.values()) owned += of.size
  assert(owned === owners.size, 'an owner is a member that holds the lease')
}

function checkWaiting(group: ControllerGroup): void {
  const { round, members, promised, statics } = group
  let waiting = 0
  for (const of of group.rewinds.values()) {
    for (const waits of of.values()) {
      const { state, topicId, partition, id } = waits
      assert(id <= group.head.lastRewindId, 'a rewind has an id that was given out')
      if (state !== 'waiting') continue
      waiting++
      const owned = ownerOf(group, topicId, partition) !== undefined
      const held = isHeld(group, waits)
      assert(
        owned || held || round !== null,
        'a rewind waits for an owner, a transaction, or a round'
      )
    }
  }
  assert(waiting === group.waiting, 'waiting rewinds are counted')
  for (const call of group.calls.values()) assert(call.open > 0, 'who waits, waits for something')
  for (const { registered, id, generation } of members.values()) {
    assert(registered === null || round !== null, 'who has registered waits for a round')
    assert(round === null || round.missing.has(id) === (registered === null), 'missing is counted')
    assert(generation >= 0 || registered !== null, 'who was not answered waits')
  }
  for (const memberId of statics.values()) assert(members.has(memberId), 'a static id is a member')
  for (const of of promised.values()) {
    for (const id of of.values()) {
      assert(members.has(id) || round !== null, 'a promise is to a member')
    }
  }
}
