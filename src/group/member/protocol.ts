/**
 * What a member of a group is to the rest of the client, whatever the group's protocol: the events that a member's
 * machine is told, and the actions that it asks for. The machines (consumer.ts for KIP-848; classic and controller
 * speak the same vocabulary) are pure: `decide` says what became true and what is to be done, `apply` alone changes
 * state. A driver with a clock and a network runs any of them.
 */

import type { PlayheadError } from '../../base/error.ts'

/** A partition that a member owns. `topic` is the topic's id in KIP-848, its name in the other protocols. */
export interface Lease {
  readonly topic: string
  readonly partition: number
}

export type LeaseKey = string

export function leaseKey(lease: Lease): LeaseKey {
  return `${lease.topic}/${lease.partition}`
}

export type Leases = ReadonlyMap<LeaseKey, Lease>

export const noLeases: Leases = new Map()

export function leasesOf(leases: Iterable<Lease>): Leases {
  const map = new Map<LeaseKey, Lease>()
  for (const lease of leases) map.set(leaseKey(lease), lease)
  return map
}

/** Those of `a` that `b` doesn't have. */
export function without(a: Leases, b: Leases): Leases {
  const rest = new Map<LeaseKey, Lease>()
  for (const [key, lease] of a) if (!b.has(key)) rest.set(key, lease)
  return rest
}

/** What a member wants to read: names, and patterns that the broker resolves (RE2, matched as a whole). */
export interface Subscription {
  readonly topics: readonly string[]
  readonly regex: string | null
}

/** What a machine is told. `Answer` is the protocol's response. */
export type MemberEvent<Answer> =
  /** Join the group. Told once. */
  | { readonly on: 'start' }
  /** The moment that `wakeAt` or `giveUpBy` named has come. */
  | { readonly on: 'wake' }
  /** The request in flight was answered. */
  | { readonly on: 'answered'; readonly answer: Answer }
  /** The request in flight will have no answer; whether it took effect is unknown. */
  | { readonly on: 'unanswered' }
  /** A request cannot be sent, now or later: brokers don't speak it, or let nobody in. Nothing follows. */
  | { readonly on: 'unable'; readonly error: PlayheadError }
  /** Leases of a `revoke` are free: their handlers are done, what they processed is committed. */
  | { readonly on: 'released'; readonly leases: readonly Lease[] }
  /** Other topics from now on. */
  | { readonly on: 'subscribed'; readonly subscription: Subscription }
  /** A handler has been running for longer than `maxProcessingMs`. */
  | { readonly on: 'overdue' }
  /** That handler has come to its end. */
  | { readonly on: 'caughtUp' }
  /** Leave: everything that can be committed is. */
  | { readonly on: 'close' }

/** What a machine wants done, in this order. `Request` is the protocol's request. */
export type MemberAction<Request> =
  /** Send it to the group's coordinator; `answered` or `unanswered` must follow. At most one is in flight. */
  | { readonly do: 'request'; readonly request: Request }
  /** The coordinator is elsewhere: forget where it was. */
  | { readonly do: 'findCoordinator' }
  /** These are ours: find each one's start, then deliver. */
  | { readonly do: 'assign'; readonly leases: readonly Lease[] }
  /** Give these up in order: deliver no more, let handlers end, commit what they processed, then tell `released`. */
  | { readonly do: 'revoke'; readonly leases: readonly Lease[] }
  /** These are another's by now, or may be: deliver no more, commit nothing. Comes before whatever follows. */
  | { readonly do: 'lose'; readonly leases: readonly Lease[]; readonly why: string }
  /** The membership ended by the coordinator's or our own decision; a new one is asked for. For the log. */
  | { readonly do: 'rejoin'; readonly why: string }
  /** The group cannot be joined as configured: `code` is Kafka's; `error`: our own decision. Nothing follows. */
  | {
      readonly do: 'fail'
      readonly code: number
      readonly message: string
      readonly error?: PlayheadError
    }
  /** The membership is over, as asked. Nothing follows. */
  | { readonly do: 'left' }

export interface Decision<Fact, Request> {
  /** What became true, to be applied in order. */
  readonly facts: readonly Fact[]
  /** What is to be done once the facts are applied. */
  readonly actions: readonly MemberAction<Request>[]
}

/** Why a member gives everything up at `giveUpBy`. */
export const tooSlow = 'what it was to give up took longer than maxProcessingMs'

/** What a driver needs of a member, whatever its protocol. */
export interface MemberView {
  readonly memberId: string
  /** The epoch or generation to commit with; -1 while not a member. */
  readonly epoch: number
  readonly owned: Leases
  /** Moment (monotonic, ms) at which `wake` is due; Infinity: nothing to wait for. */
  readonly wakeAt: number
  /** When the last request that the coordinator accepted was sent; -Infinity: none was in this membership. */
  readonly lastGoodAt: number
  /**
   * Moment (monotonic, ms) at which `wake` is due, too: by then the coordinator may give to others what this member was
   * asked to give up, or all that it has; Infinity: it was asked for nothing. It waits from when it found that out, which
   * was after the request was sent that it accepted last without saying so.
   */
  readonly giveUpBy: number
  /** How many requests in a row went wrong. */
  readonly failures: number
}

/** As requests name them, where the topic of a lease is its id. */
export function byTopicId(leases: Leases): { topicId: string; partitions: number[] }[] {
  const topics = new Map<string, number[]>()
  for (const { topic, partition } of leases.values()) {
    const partitions = topics.get(topic)
    if (partitions) partitions.push(partition)
    else topics.set(topic, [partition])
  }
  return [...topics].map(([topicId, partitions]) => ({ topicId, partitions }))
}
