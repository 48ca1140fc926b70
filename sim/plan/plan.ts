/**
 * A plan: all that a run is, as data, drawn from a seed. Lists of small independent things, so that a plan that breaks
 * a rule can be shrunk by leaving some out; each actor draws from a stream of its own name, so that the others behave
 * as they did.
 */
import type { Compression } from '../../src/base/env.ts'
import type { WireFaults } from '../world/wire.ts'

export interface Plan {
  /** '0x5f3a': of everything by chance in the run. */
  readonly seed: string
  readonly world: WorldName
  /** Brokers of the cluster: listeners of one process. */
  readonly brokers: number
  readonly durability: 'fsync' | 'os'
  /** The broker's own journal on a simulated disk, or a simulated store. */
  readonly store: 'journal' | 'simulated'
  /** Of groups. */
  readonly sessionTimeoutMs: number
  readonly heartbeatIntervalMs: number
  readonly topics: readonly TopicPlan[]
  readonly wire: WireFaults
  readonly producers: readonly ProducerPlan[]
  readonly members: readonly MemberPlan[]
  readonly actions: readonly Action[]
  /** Faults go on for so long; then all heals. */
  readonly faultsMs: number
  /** Of each node that is named: how far its wall clock is off. */
  readonly wallOffsetsMs: Readonly<Record<string, number>>
}

export const worldNames = ['log', 'groups', 'classic', 'controller'] as const
export type WorldName = (typeof worldNames)[number]

export interface TopicPlan {
  readonly name: string
  readonly partitions: number
  /** Written by members in mode 'transact' only: what they make of what they read. */
  readonly results?: boolean
}

export interface ProducerPlan {
  readonly name: string
  readonly everyMs: number
  /** Records at once. */
  readonly burst: number
  readonly bytes: number
  readonly compression: Compression
  readonly lingerMs: number
  readonly batchBytes: number
  readonly maxInFlight: number
  readonly maxBufferedBytes: number
  readonly deliveryTimeoutMs: number
  readonly requestTimeoutMs: number
  readonly idempotent: boolean
  readonly transactional: boolean
}

export interface MemberPlan {
  readonly name: string
  readonly group: string
  readonly mode: 'iterate' | 'batches' | 'run' | 'poll' | 'transact'
  readonly topics: readonly string[]
  readonly commit: 'auto' | 'manual'
  readonly commitIntervalMs: number
  readonly rewindCheckMs: number
  readonly fetchMaxBytes: number
  readonly partitionMaxBytes: number
  readonly fetchMaxWaitMs: number
  readonly bufferMaxBytes: number
  readonly concurrency: number
  /** A handler takes up to so long. */
  readonly handlerMs: number
  /** Of handlers: throw. */
  readonly handlerThrows: number
  readonly isStatic: boolean
  readonly joinAtMs: number
  /** Closes then, in order, and comes back after `awayMs`. */
  readonly leaveAtMs: number
  readonly awayMs: number
  // Plans that were kept before there were these have none of them.
  /** Where the group begins. Default 'earliest'. */
  readonly startFrom?: 'earliest' | 'latest'
  /** Each quarter of a second: to seek in one of its partitions. */
  readonly seeks?: number
  /** Of records: their handler hangs, until all heals. */
  readonly handlerHangs?: number
  /** What its `onRewind` does. Default: it has none. */
  readonly onRewind?: 'quick' | 'slow' | 'throws' | 'hangs'
  readonly maxProcessingMs?: number
  readonly rewindHandlerWaitMs?: number
}

/** What happens at a moment. */
export type Action = { readonly atMs: number } & (
  | { readonly do: 'crash'; readonly node: string; readonly forMs: number }
  | { readonly do: 'power'; readonly node: string; readonly forMs: number }
  | { readonly do: 'pause'; readonly node: string; readonly forMs: number }
  | { readonly do: 'slow'; readonly node: string; readonly forMs: number; readonly eachMs: number }
  | { readonly do: 'cut'; readonly from: string; readonly to: string; readonly forMs: number }
  /** What the node asks on some of its connections comes so late; the others, and those that it opens meanwhile, are well. */
  | { readonly do: 'strand'; readonly node: string; readonly forMs: number }
  | { readonly do: 'disk full'; readonly forMs: number }
  | {
      readonly do: 'rewind'
      /** A node with a member, or 'admin'. */
      readonly by: string
      readonly group: string
      readonly topics: readonly string[]
      /** Where to, of what is in the log: 0 its start, 1 its end. */
      readonly to: number
      /** A bounded replay: up to here, of what is in the log. By the admin only. */
      readonly until: number | null
      readonly timeoutMs: number
    }
  | {
      readonly do: 'move leader'
      readonly topic: string
      readonly partition: number
      readonly to: number
    }
  | { readonly do: 'move coordinator'; readonly group: string; readonly to: number }
  | { readonly do: 'stop listener' | 'start listener'; readonly broker: number }
  /** What is before `to` of the log is deleted, as by retention. */
  | {
      readonly do: 'cut log'
      readonly topic: string
      readonly partition: number
      readonly to: number
    }
  | { readonly do: 'clock jump'; readonly node: string; readonly byMs: number }
  | { readonly do: 'create topic'; readonly topic: string; readonly partitions: number }
  | { readonly do: 'grow topic'; readonly topic: string; readonly partitions: number }
  | { readonly do: 'delete topic'; readonly topic: string }
)
