/** What the controller has to say to a member, and how it says it: by the answer to the heartbeat that it holds. */
import { waitingRewind } from './of-partition.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { type ControllerGroup, type Member, type Parked, type Waiting, ticketOf } from './state.ts'
import type { ControllerTurn, HeartbeatAnswer } from './world.ts'

/** The machine wants to be told the time then. */
export function wakeBy(turn: ControllerTurn, atMs: number): void {
  const { state: group } = turn
  // Looking costs a walk over the members, so the deadlines of a large group are looked at together.
  const tickMs = Math.min(50, Math.floor(group.members.size / 100))
  const at = tickMs <= 1 ? atMs : Math.ceil(atMs / tickMs) * tickMs
  if (at >= group.wakeAtMs || at === Infinity) return
  turn.become({ kind: 'wakes', atMs: at })
  turn.wake(at)
}

export function change(turn: ControllerTurn, memberId: string, to: Partial<Waiting>): void {
  turn.become({ kind: 'changes', memberId, to })
}

/**
 * A sign of life: its session begins anew, unless a request of it waits here, which is life itself. With it the member
 * changes `to`.
 */
export function heard(turn: ControllerTurn, memberId: string, to: Partial<Waiting> = {}): void {
  const member = turn.state.members.get(memberId)
  if (member === undefined) return
  const { parked = member.parked, registered = member.registered } = to
  const waits = parked !== null || ticketOf(registered) !== null
  const sessionEndsMs = waits
    ? Infinity
    : turn.world.monotonicMs + member.registration.sessionTimeoutMs
  change(turn, memberId, { ...to, sessionEndsMs })
  wakeBy(turn, sessionEndsMs)
}

/** Undefined: there is nothing to say. */
export function newsFor(group: ControllerGroup, member: Member): HeartbeatAnswer | undefined {
  const { round } = group
  const rewound = rewoundOf(group, member)
  const toRegister =
    round === null
      ? member.due.size > 0 || member.isUnaware
      : round.told && round.missing.has(member.id)
  const { generation: generationId } = member
  if (toRegister) {
    const errorCode = round?.why === 'topics' ? KafkaError.TOPICS_CHANGED : KafkaError.GROUP_CHANGED
    return { errorCode, generationId, rewound }
  }
  // Who waits for the end of a round has stopped, or learns of it then.
  if (rewound.length === 0 || member.registered !== null) return undefined
  return { errorCode: KafkaError.PARTITIONS_REWOUND, generationId, rewound }
}

function rewoundOf(group: ControllerGroup, { leases }: Member): HeartbeatAnswer['rewound'] {
  if (group.waiting === 0) return []
  const rewound: { topicId: string; topic: string; partitions: number[] }[] = []
  for (const [topicId, of] of leases) {
    const partitions: number[] = []
    let topic = ''
    for (const [partition, { moved }] of of) {
      const rewind = moved ? undefined : waitingRewind(group, topicId, partition)
      if (rewind === undefined) continue
      topic = rewind.topic
      partitions.push(partition)
    }
    if (partitions.length > 0) rewound.push({ topicId, topic, partitions })
  }
  return rewound
}

/** Says the news, if there are any, to a member whose heartbeat is held. */
export function tell(turn: ControllerTurn, memberId: string): void {
  const member = turn.state.members.get(memberId)
  if (member === undefined || member.parked === null) return
  const news = newsFor(turn.state, member)
  if (news !== undefined) say(turn, member, member.parked, news)
}

/** Answers a heartbeat: one that is held, or one that has just come. */
export function say(
  turn: ControllerTurn,
  member: Member,
  { ticket }: Pick<Parked, 'ticket'>,
  answer: HeartbeatAnswer
): void {
  turn.answer(ticket, answer)
  const parked = member.parked?.ticket === ticket ? null : member.parked
  heard(turn, member.id, { parked, told: toldBy(answer, member.told) })
}

function toldBy({ errorCode }: HeartbeatAnswer, before: Member['told']): Member['told'] {
  switch (errorCode) {
    case KafkaError.GROUP_CHANGED:
    case KafkaError.TOPICS_CHANGED:
      return 'changed'
    case KafkaError.PARTITIONS_REWOUND:
      return before === 'changed' ? 'changed' : 'rewound'
    default:
      return before
  }
}
