/** The machine of classic groups; see state.ts for its phases. */
import { assert } from '../../base/assert.ts'
import { codec } from '../../protocol/codec.ts'
import { ConsumerProtocolSubscription } from '../../protocol/embedded/subscription.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { Reader } from '../../protocol/reader.ts'
import { type Decision, type Machine, type Membership, Turn } from '../machine.ts'
import { type ClassicAnswer, type ClassicTurn, heard, memberFault, metadataOf } from './answers.ts'
import { type ClassicRequest, beat, join, leave, sync } from './requests.ts'
import { expire, reload } from './rebalance.ts'
import {
  type ClassicFact,
  type ClassicGroup,
  applyClassic,
  classicParts,
  classicWrites
} from './state.ts'

export type ClassicEvent =
  | ClassicRequest
  /** A member committed: a sign of life. */
  | { readonly kind: 'committed'; readonly memberId: string }
  | { readonly kind: 'topics' }
  | { readonly kind: 'time' }
  | { readonly kind: 'loaded' }

type ClassicMachine = Machine<ClassicGroup, ClassicEvent, ClassicFact, ClassicAnswer> &
  Membership<ClassicGroup>

export const classicMachine: ClassicMachine = {
  parts: classicParts,
  writes: classicWrites,
  apply: applyClassic,

  decide(group, event, world): Decision<ClassicFact, ClassicAnswer> {
    const turn: ClassicTurn = new Turn(group, world, applyClassic)
    decide(turn, event)
    return turn
  },

  invariants(group) {
    const { phase, members, leader, protocol, statics } = group
    assert(phase !== 'Empty' || members.size === 0, 'empty is a group without members')
    const formed = phase === 'Stable' || phase === 'CompletingRebalance'
    if (formed) {
      assert(leader !== null && members.has(leader), 'the leader is a member')
      assert(protocol !== null, 'a generation has a protocol')
    }
    for (const member of members.values()) {
      const { joining, syncing } = member
      assert(joining === null || phase === 'PreparingRebalance', 'who joins waits for the others')
      assert(syncing === null || phase === 'CompletingRebalance', 'who syncs waits for the leader')
      if (formed)
        assert(metadataOf(member, protocol) !== undefined, 'all members speak the protocol')
    }
    for (const memberId of statics.values())
      assert(members.has(memberId), 'a static id is a member')
    const waits = phase === 'PreparingRebalance' ? group.joinBy : group.syncByMs
    assert(phase === 'Empty' || phase === 'Stable' || waits !== null, 'a rebalance has a deadline')
  },

  size: group => group.members.size,
  stateName: group => group.phase,
  protocolType: group => group.protocolType ?? '',
  subscribesTo: (group, topic) => subscriptions(group)?.has(topic) ?? false,

  mayCommit(group, { memberId, instanceId, epoch, transactional }) {
    if (epoch < 0 && group.phase === 'Empty') return KafkaError.NONE
    if (epoch >= 0 || memberId !== '' || instanceId !== null) {
      const wrong = memberFault(group, memberId, instanceId)
      if (wrong !== KafkaError.NONE) return wrong
      if (epoch !== group.generation) return KafkaError.ILLEGAL_GENERATION
    } else if (!transactional) return KafkaError.UNKNOWN_MEMBER_ID
    // The generation is right, so the member knows of it: it is to ask for its assignment before it commits.
    if (!transactional && group.phase === 'CompletingRebalance') {
      return KafkaError.REBALANCE_IN_PROGRESS
    }
    return KafkaError.NONE
  },

  mayFetch: () => KafkaError.NONE,

  mayDeleteOffsets({ phase, protocolType }) {
    return phase === 'Empty' || protocolType === 'consumer'
      ? KafkaError.NONE
      : KafkaError.NON_EMPTY_GROUP
  },

  retainedFrom(group, topic, committedAtMs) {
    const { phase, protocolType, sinceMs } = group
    if (protocolType === null) return committedAtMs
    if (phase === 'Empty') return Math.max(sinceMs, committedAtMs)
    if (phase !== 'Stable') return null
    const topics = subscriptions(group)
    return topics === undefined || topics.has(topic) ? null : committedAtMs
  }
}

function decide(turn: ClassicTurn, event: ClassicEvent): void {
  switch (event.kind) {
    case 'join':
      return join(turn, event)
    case 'sync':
      return sync(turn, event)
    case 'heartbeat':
      return beat(turn, event)
    case 'leave':
      return leave(turn, event)
    case 'committed':
      return heard(turn, event.memberId)
    case 'time':
      return expire(turn)
    case 'loaded':
      return reload(turn)
    case 'topics':
      // Members watch topics themselves, and join again.
      return
  }
}

/** Topics that the members of a group of consumers subscribe to; undefined: they don't say so that one could read it. */
function subscriptions(group: ClassicGroup): ReadonlySet<string> | undefined {
  if (group.protocolType !== 'consumer') return undefined
  const topics = new Set<string>()
  for (const member of group.members.values()) {
    const metadata = metadataOf(member, group.protocol) ?? member.protocols[0]?.metadata
    const named = metadata === undefined ? undefined : topicsIn(metadata)
    if (named === undefined) return undefined
    for (const topic of named) topics.add(topic)
  }
  return topics
}

function topicsIn(metadata: Buffer): readonly string[] | undefined {
  try {
    const reader = new Reader(metadata)
    // Later versions begin as version 0 does.
    if (reader.int16() < 0) return undefined
    return codec(ConsumerProtocolSubscription, 0).read(reader).topics
  } catch {
    // What a member says to its leader need not be for us to read.
    return undefined
  }
}
