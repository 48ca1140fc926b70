/**
 * What a consumer says while it works, typed by name. Unlike Node's emitter, an `error` that nobody listens to ends
 * no process: it is logged. A listener that throws is logged too, and stops nothing.
 */
import type { Log } from '../../base/env.ts'
import type { PlayheadError } from '../../base/error.ts'
import type { TopicPartition, TopicPartitionOffset } from '../partition.ts'
import type { GroupProtocol } from './options.ts'
import type { Rewound } from './rewound.ts'

/** Why nothing is delivered although something is there, as far as this consumer knows. */
export type StallReason =
  | 'not in the group'
  | 'no partitions'
  | 'all partitions paused'
  | 'handler running'
  | 'nobody asks for records'
  | 'start offset not found'
  | 'no leader'
  | 'session expired'
  | 'fetch not answered'

/** What a consumer tells of, by `on`. Listeners are called at once; one that throws is logged. */
export interface ConsumerEvents {
  /** The group counts this consumer as a member: at the start, and again whenever it had to join anew. */
  readonly joined: {
    readonly protocol: GroupProtocol
    /** How the coordinator calls it. */
    readonly memberId: string
  }
  /** These partitions are this consumer's from now on. */
  readonly assigned: { readonly partitions: readonly TopicPartition[] }
  /** These were given up in order: what was processed of them is committed. */
  readonly revoked: { readonly partitions: readonly TopicPartition[] }
  /** These were taken away: another may read them already. What was processed since the last commit comes again there. */
  readonly lost: { readonly partitions: readonly TopicPartition[]; readonly why: string }
  /** The coordinator has these offsets from this consumer, but for those that went into transactions. */
  readonly committed: { readonly offsets: readonly TopicPartitionOffset[] }
  /** A rewind of the group took effect here. */
  readonly rewound: Rewound
  /** A position moved without being asked: the log was cut below it, or it was outside the log. */
  readonly moved: TopicPartition & {
    readonly from: number
    readonly to: number
    readonly why: 'out of range' | 'truncated'
  }
  /** A poison record or corrupt batch was passed over (`poison: 'skip'`). */
  readonly skipped: { readonly error: PlayheadError }
  /** Nothing was delivered for `stalledAfterMs`. Said once until something is. */
  readonly stalled: {
    readonly reason: StallReason
    readonly forMs: number
    readonly detail: string
  }
  /** Something went wrong that the consumer goes on after, unless iterating it rejects with the same. */
  readonly error: { readonly error: PlayheadError }
}

/** The names of the events. */
export type ConsumerEventName = keyof ConsumerEvents
type Listener<N extends ConsumerEventName> = (event: ConsumerEvents[N]) => void

export class Events {
  readonly #listeners = new Map<ConsumerEventName, Set<Listener<never>>>()
  readonly #log: Log
  readonly #name: string

  constructor(log: Log, name: string) {
    this.#log = log
    this.#name = name
  }

  on<N extends ConsumerEventName>(name: N, listener: Listener<N>): () => void {
    const listeners = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, listeners)
    listeners.add(listener)
    return () => {
      listeners.delete(listener)
    }
  }

  /** Whether anybody listens. */
  has(name: ConsumerEventName): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0
  }

  emit<N extends ConsumerEventName>(name: N, event: ConsumerEvents[N]): void {
    const listeners = this.#listeners.get(name)
    if (name === 'error' && (listeners === undefined || listeners.size === 0)) {
      const { error } = event as ConsumerEvents['error']
      this.#log.warn(`${this.#name}: ${error.message}`, { code: error.code })
    }
    if (listeners === undefined) return
    for (const listener of [...listeners] as Listener<N>[]) {
      this.call(`a listener of '${name}'`, () => listener(event))
    }
  }

  /** Calls what is the application's: what it throws is logged, and stops nothing. */
  call(what: string, work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#log.error(`${this.#name}: ${what} threw`, { error: String(error) })
    }
  }
}
