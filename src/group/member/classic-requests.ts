/** What a member of a classic group asks next, by what it knows. Values from values. */
import { topicsOf } from './classic-leader.ts'
import type { BeatKind, ClassicMember, ClassicRequest, LineKind } from './classic-state.ts'
import { offers } from './classic-words.ts'

type Request<Kind> = Extract<ClassicRequest, { readonly kind: Kind }>

/** The next of the line that rebalances. */
export function lineRequest(member: ClassicMember): Request<LineKind> {
  const { config, memberId, epoch: generationId, phase, leads, plan, assignor } = member
  const { instanceId: groupInstanceId, sessionTimeoutMs, rebalanceTimeoutMs } = config
  if (phase === 'joining') {
    const protocols = offers(member)
    const times = { sessionTimeoutMs, rebalanceTimeoutMs }
    const body = { ...times, memberId, groupInstanceId, protocolType: 'consumer', protocols }
    return { kind: 'join', body }
  }
  if (leads !== null && plan === null) {
    return { kind: 'count', topics: topicsOf(leads), ofGroup: member.skipsAssignment }
  }
  const assignments = plan?.assignments.map(one => ({ ...one })) ?? []
  const group = { protocolType: 'consumer', protocolName: assignor }
  return {
    kind: 'sync',
    body: { generationId, memberId, groupInstanceId, ...group, assignments }
  }
}

/** Brokers log it (KIP-800). */
const reasons = {
  leaving: 'the consumer was closed',
  overdue: 'a handler was too slow',
  failed: 'its assignor failed'
} as const

/** The next of the other line. */
export function beatRequest(member: ClassicMember): Request<BeatKind> {
  const { config, memberId, epoch: generationId, phase } = member
  const { instanceId: groupInstanceId } = config
  if (phase !== 'leaving' && phase !== 'overdue' && phase !== 'failed') {
    return { kind: 'heartbeat', body: { generationId, memberId, groupInstanceId } }
  }
  const reason = reasons[phase]
  const body = { memberId, members: [{ memberId, groupInstanceId, reason }] }
  return { kind: 'leave', body }
}
