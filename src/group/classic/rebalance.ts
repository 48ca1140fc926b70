/** How a classic group gets from one generation to the next. */
import { KafkaError } from '../../protocol/errors.ts'
import {
  type ClassicTurn,
  generationAnswer,
  groupFact,
  heard,
  noBytes,
  refusedSync,
  remove
} from './answers.ts'
import type { ClassicGroup, ClassicMember } from './state.ts'

/** A new member whose client doesn't wait any more is found out after so long, as its JoinGroup counts as alive. */
const freshMemberMs = 300_000

/** The rebalance begins: everybody is to join again. */
export function prepare(turn: ClassicTurn): void {
  const { state: group, world } = turn
  const { initialRebalanceDelayMs: delayMs } = world.config
  const first = group.phase === 'Empty'
  for (const member of group.members.values()) {
    // The leader may already have made an assignment: it never comes to be.
    if (group.phase === 'CompletingRebalance' && member.assignment.length > 0) {
      turn.become({ kind: 'member', member: { ...member, assignment: noBytes } })
    }
    if (member.syncing !== null) {
      turn.answer(member.syncing, refusedSync(KafkaError.REBALANCE_IN_PROGRESS))
      // While it waited its session may have passed, as who waits counts as alive.
      heard(turn, member.memberId)
    }
    turn.become({ kind: 'waits', memberId: member.memberId, syncing: null, unsynced: false })
  }
  turn.become({ kind: 'syncBy', syncByMs: null })
  const sinceMs = world.wallMs
  turn.become({ ...groupFact(group), phase: 'PreparingRebalance', sinceMs })
  const timeoutMs = rebalanceTimeoutMs(group)
  if (first) {
    const initial = { leftMs: Math.max(0, timeoutMs - delayMs), more: false }
    waitForJoins(turn, world.monotonicMs + delayMs, initial)
  } else waitForJoins(turn, world.monotonicMs + timeoutMs, null)
}

function waitForJoins(
  turn: ClassicTurn,
  atMs: number,
  initial: { readonly leftMs: number; readonly more: boolean } | null
): void {
  turn.become({ kind: 'joinBy', joinBy: { atMs, initial } })
  turn.wake(atMs)
}

function rebalanceTimeoutMs(group: ClassicGroup): number {
  let most = 0
  for (const { rebalanceTimeoutMs: each } of group.members.values()) most = Math.max(most, each)
  return most
}

/** Members are gone: those that are left share anew. */
export function prepareIfFormed(turn: ClassicTurn): void {
  const { phase } = turn.state
  if (phase === 'Stable' || phase === 'CompletingRebalance') prepare(turn)
}

/** All have joined, and nobody is about to: the next generation begins. */
export function completeIfJoined(turn: ClassicTurn): void {
  const { state: group } = turn
  if (group.phase !== 'PreparingRebalance') return
  if (group.joinBy?.initial && group.members.size > 0) {
    // The first members wait for the delay and nothing else; without one they begin at once.
    if (group.joinBy.atMs <= turn.world.monotonicMs) complete(turn)
    return
  }
  if (group.promised.size > 0) return
  for (const { joining } of group.members.values()) if (joining === null) return
  complete(turn)
}

function complete(turn: ClassicTurn): void {
  const { state: group, world } = turn
  for (const member of group.members.values()) {
    // A static member may be away for its session without costing a rebalance when it is back.
    if (member.joining === null && member.instanceId === null) remove(turn, member)
  }
  const joined = [...group.members.values()].filter(({ joining }) => joining !== null)
  if (joined.length === 0 && group.members.size > 0) {
    // Nobody to lead: wait until sessions end, or somebody comes.
    return waitForJoins(turn, world.monotonicMs + rebalanceTimeoutMs(group), null)
  }
  turn.become({ kind: 'joinBy', joinBy: null })
  const generation = group.generation + 1
  const next = { ...groupFact(group), generation, sinceMs: world.wallMs }
  if (group.members.size === 0) {
    return turn.become({ ...next, phase: 'Empty', protocol: null, leader: null })
  }
  const led = joined.some(({ memberId }) => memberId === group.leader)
  const leader = led ? group.leader : (joined[0]?.memberId ?? null)
  const protocol = selectProtocol(group)
  turn.become({ ...next, phase: 'CompletingRebalance', protocol, leader })
  for (const { memberId, joining } of joined) {
    if (joining !== null) turn.answer(joining, generationAnswer(group, memberId))
    turn.become({ kind: 'waits', memberId, joining: null, unsynced: true, fresh: false })
    heard(turn, memberId)
  }
  const syncByMs = world.monotonicMs + rebalanceTimeoutMs(group)
  turn.become({ kind: 'syncBy', syncByMs })
  turn.wake(syncByMs)
}

/** Each member votes for the first of its protocols that all speak; ties go to the one voted for first. */
export function selectProtocol(group: ClassicGroup): string {
  const members = [...group.members.values()]
  const common = (name: string) =>
    members.every(({ protocols }) => protocols.some(protocol => protocol.name === name))
  const votes = new Map<string, number>()
  for (const { protocols } of members) {
    const choice = protocols.find(({ name }) => common(name))?.name
    if (choice !== undefined) votes.set(choice, (votes.get(choice) ?? 0) + 1)
  }
  let best = ''
  for (const [name, count] of votes) if (count > (votes.get(best) ?? 0)) best = name
  return best
}

/** Everybody who waits for its assignment gets it. */
export function handOut(turn: ClassicTurn): void {
  const { state: group } = turn
  const { protocolType, protocol: protocolName } = group
  for (const { memberId, syncing, assignment } of group.members.values()) {
    if (syncing === null) continue
    const errorCode = KafkaError.NONE
    turn.answer(syncing, { throttleTimeMs: 0, errorCode, protocolType, protocolName, assignment })
    turn.become({ kind: 'waits', memberId, syncing: null })
    heard(turn, memberId)
  }
  if (group.syncByMs === null) return
  for (const { unsynced } of group.members.values()) if (unsynced) return
  turn.become({ kind: 'syncBy', syncByMs: null })
}

/** A deadline may have passed: of a session, of a promised id, of the joins or of the syncs. */
export function expire(turn: ClassicTurn): void {
  const { state: group, world } = turn
  const now = world.monotonicMs
  let promises = false
  let gone = false
  for (const [memberId, untilMs] of group.promised) {
    if (untilMs > now) continue
    turn.become({ kind: 'promised', memberId, untilMs: null })
    promises = true
  }
  const late = group.syncByMs !== null && group.syncByMs <= now
  for (const member of group.members.values()) {
    if (!(late && member.unsynced) && aliveUntil(member) > now) continue
    remove(turn, member)
    gone = true
  }
  if (late) turn.become({ kind: 'syncBy', syncByMs: null })
  if (gone) prepareIfFormed(turn)
  if (gone || promises) completeIfJoined(turn)
  endJoins(turn)
  wakeNext(turn)
}

/** Who waits for an answer is alive; but a new one's client may have given up. */
function aliveUntil({ joining, syncing, fresh, sessionEndsMs, sessionTimeoutMs }: ClassicMember) {
  if (joining === null && syncing === null) return sessionEndsMs
  return fresh ? sessionEndsMs - sessionTimeoutMs + freshMemberMs : Infinity
}

function endJoins(turn: ClassicTurn): void {
  const { state: group, world } = turn
  const { joinBy } = group
  if (joinBy === null || joinBy.atMs > world.monotonicMs) return
  const { initial } = joinBy
  if (initial?.more && initial.leftMs > 0) {
    const delayMs = Math.min(world.config.initialRebalanceDelayMs, initial.leftMs)
    const leftMs = initial.leftMs - delayMs
    return waitForJoins(turn, world.monotonicMs + delayMs, { leftMs, more: false })
  }
  complete(turn)
}

function wakeNext(turn: ClassicTurn): void {
  const { members, promised, joinBy, syncByMs } = turn.state
  let next = Math.min(joinBy?.atMs ?? Infinity, syncByMs ?? Infinity, ...promised.values())
  for (const member of members.values()) next = Math.min(next, aliveUntil(member))
  if (next !== Infinity) turn.wake(next)
}

/** Everybody has its time again. Requests that waited are lost with their connections; their clients ask again. */
export function reload(turn: ClassicTurn): void {
  const { state: group, world } = turn
  for (const { memberId } of group.members.values()) {
    const unsynced = group.phase === 'CompletingRebalance'
    turn.become({ kind: 'waits', memberId, unsynced })
    heard(turn, memberId)
  }
  const byMs = world.monotonicMs + rebalanceTimeoutMs(group)
  if (group.phase === 'PreparingRebalance') waitForJoins(turn, byMs, null)
  if (group.phase !== 'CompletingRebalance') return
  turn.become({ kind: 'syncBy', syncByMs: byMs })
  turn.wake(byMs)
}
