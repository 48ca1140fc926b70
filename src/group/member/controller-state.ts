/**
 * The state of a member of a group led by a controller, what happens to it, what it asks for, and the facts that change
 * it. What it decides is in controller.ts. Times are monotonic milliseconds.
 */
import { assert, unreachable } from '../../base/assert.ts'
import type { ControllerHeartbeat } from '../../protocol/api/controller-heartbeat.ts'
import type { RegisterConsumer } from '../../protocol/api/register-consumer.ts'
import type { UnregisterConsumer } from '../../protocol/api/unregister-consumer.ts'
import type { RequestOf, ResponseOf } from '../../protocol/schema.ts'
import {
  type Lease,
  leasesOf,
  type Leases,
  type MemberAction,
  type MemberEvent,
  type MemberView,
  noLeases,
  type Subscription,
  without
} from './protocol.ts'

export type LedRequest =
  | {
      readonly kind: 'register'
      readonly body: Omit<RequestOf<typeof RegisterConsumer>, 'groupId'>
    }
  | {
      readonly kind: 'heartbeat'
      readonly body: Omit<RequestOf<typeof ControllerHeartbeat>, 'groupId'>
    }
  | { readonly kind: 'leave'; readonly body: Omit<RequestOf<typeof UnregisterConsumer>, 'groupId'> }
export type LedRequestKind = LedRequest['kind']

export type LedAnswer =
  | { readonly kind: 'register'; readonly body: ResponseOf<typeof RegisterConsumer> }
  | { readonly kind: 'heartbeat'; readonly body: ResponseOf<typeof ControllerHeartbeat> }
  | { readonly kind: 'leave'; readonly body: ResponseOf<typeof UnregisterConsumer> }

/** A partition with where it starts. */
export interface LedLease extends Lease {
  readonly name: string
  /** -1: nothing is committed, and the controller knows no policy for it. */
  readonly offset: number
  /** The last rewind that took place; 0: none was. */
  readonly lastRewindId: number
  /** The rewind that led here, which is news to us; null: none is. */
  readonly rewind: { readonly id: number; readonly by: string; readonly reason: string } | null
  /** Of a bounded replay that is not over yet. */
  readonly window: { readonly until: number; readonly resume: number } | null
  /** The last rewind was a bounded replay, and it is over. */
  readonly replayed: boolean
}

export type LedEvent =
  | Exclude<MemberEvent<LedAnswer>, { on: 'unanswered' }>
  | { readonly on: 'unanswered'; readonly kind: LedRequestKind }
  /** Leases of a `halt` are stopped. */
  | { readonly on: 'halted'; readonly leases: readonly Lease[] }

export type LedAction =
  | Exclude<MemberAction<LedRequest>, { do: 'assign' }>
  | { readonly do: 'assign'; readonly leases: readonly LedLease[] }
  /** Stop these where they are and commit that, then tell `halted`: they are about to be moved. */
  | { readonly do: 'halt'; readonly leases: readonly Lease[] }
  /** What was halted goes on here. */
  | { readonly do: 'move'; readonly leases: readonly LedLease[] }

export interface LedConfig {
  readonly instanceId: string | null
  readonly sessionTimeoutMs: number
  /** How long the controller waits for this member. */
  readonly registerTimeoutMs: number
  /** As RegisterConsumer numbers it. */
  readonly startFrom: number
}

export type LedPhase =
  /** Nothing was asked yet. `start` leads to joining. */
  | 'idle'
  /** Owns nothing and registers without a membership, until answered. Success leads to member. */
  | 'joining'
  /** Heartbeats, registers as it is told, owns. UNKNOWN_MEMBER_ID leads to joining, `overdue` to overdue. */
  | 'member'
  /** A handler was too slow: everything was given up, the leave is on its way. `caughtUp` leads to joining. */
  | 'overdue'
  /** `close` was told; the leave is sent until it is answered. Leads to left. */
  | 'leaving'
  /** Final. */
  | 'left'
  /** The controller refused for good. Final, but for `close`, which leads to left. */
  | 'failed'

export interface LedMember extends MemberView {
  readonly config: LedConfig
  readonly subscription: Subscription
  readonly phase: LedPhase
  /** Of `owned`: another's from the last round on, not yet given up. */
  readonly recalled: Leases
  /** Of `owned`: stopped, or being stopped, to be moved by a rewind. */
  readonly halted: Leases
  /** Of `halted`: not yet stopped. */
  readonly stopping: Leases
  /** There is something to register for. */
  readonly mustRegister: boolean
  /** What the registration that is out keeps; null: none is out. */
  readonly registering: Leases | null
  readonly registeredAt: number
  /** The registration that is out is of a membership that was given up since: what it brings is not taken up. */
  readonly outlived: boolean
  /** Until when a round waits for this member; until when it may still have what the last one gave to others. */
  readonly roundBy: number
  readonly recalledBy: number
  readonly beatOut: boolean
  readonly beatAt: number
  readonly leaveOut: boolean
  readonly heartbeatIntervalMs: number
  /** When the next heartbeat is due; when requests may be sent again after a failure. */
  readonly nextBeatAt: number
  readonly retryAt: number
}

export type LedFact =
  | { readonly is: 'changed'; readonly to: Partial<LedMember> }
  | { readonly is: 'granted'; readonly leases: readonly Lease[] }
  | { readonly is: 'gone'; readonly leases: Leases }
  | { readonly is: 'failed'; readonly at: number }

const retryBackoffMs = 50
const retryBackoffMaxMs = 2_000
/** Between heartbeats, until the controller says how often. */
export const firstIntervalMs = 5_000
export const never = Infinity

/** Of whoever is no member. */
export const nothingOwned = {
  owned: noLeases,
  recalled: noLeases,
  halted: noLeases,
  stopping: noLeases,
  epoch: -1,
  nextBeatAt: never,
  lastGoodAt: -Infinity,
  outlived: true,
  roundBy: never,
  recalledBy: never
} as const

export function ledMember(config: LedConfig, subscription: Subscription): LedMember {
  return {
    config,
    subscription,
    memberId: '',
    phase: 'idle',
    epoch: -1,
    owned: noLeases,
    recalled: noLeases,
    halted: noLeases,
    stopping: noLeases,
    mustRegister: false,
    registering: null,
    registeredAt: -Infinity,
    outlived: false,
    roundBy: never,
    recalledBy: never,
    beatOut: false,
    beatAt: -Infinity,
    leaveOut: false,
    heartbeatIntervalMs: firstIntervalMs,
    nextBeatAt: never,
    retryAt: -Infinity,
    lastGoodAt: -Infinity,
    giveUpBy: never,
    wakeAt: never,
    failures: 0
  }
}

export function applyLed(member: LedMember, fact: LedFact): LedMember {
  switch (fact.is) {
    case 'changed':
      return { ...member, ...fact.to }
    case 'granted':
      return { ...member, owned: new Map([...member.owned, ...leasesOf(fact.leases)]) }
    case 'gone': {
      const { owned, recalled, halted, stopping } = member
      return {
        ...member,
        owned: without(owned, fact.leases),
        recalled: without(recalled, fact.leases),
        halted: without(halted, fact.leases),
        stopping: without(stopping, fact.leases)
      }
    }
    case 'failed': {
      const backoff = Math.min(retryBackoffMaxMs, retryBackoffMs * 2 ** member.failures)
      return { ...member, failures: member.failures + 1, retryAt: fact.at + backoff }
    }
    default:
      return unreachable(fact)
  }
}

/** What holds after every step. */
export function checkLed(member: LedMember): void {
  const { phase, owned, recalled, halted, stopping, epoch } = member
  for (const key of recalled.keys()) assert(owned.has(key), 'what is recalled is owned')
  for (const key of halted.keys()) assert(owned.has(key), 'what is halted is owned')
  for (const key of stopping.keys()) assert(halted.has(key), 'what is stopping is halted')
  assert(phase === 'member' || owned.size === 0, 'only a member owns partitions')
  assert((phase === 'member') === epoch >= 0, 'a member has a generation, and nobody else')
}
