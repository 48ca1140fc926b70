/** What the application is told of a rewind: `onRewind`, which is awaited, and the `rewound` event. */
import { onAbort } from '../../base/abort.ts'
import type { Timer } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import {
  noSequence,
  type RewindEntry,
  type Sequence
} from '../../protocol/embedded/rewind-envelope.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import type { Events } from './events.ts'
import type { TopicPartition } from '../partition.ts'
import type { Playhead } from './playhead.ts'

/** A rewind that took effect at this consumer. */
export interface Rewound {
  /** The rewind's: later ones have greater ones. */
  readonly id: Sequence
  /** Those of this consumer that jump, and where. */
  readonly partitions: readonly RewoundPlace[]
  /** Who asked, and why: as they said. */
  readonly by: string
  /** Why, as the caller said; '': not said. */
  readonly reason: string
}

/** A partition that jumps. */
export interface RewoundPlace extends TopicPartition {
  /** Where this consumer stood: what was before is processed. Null: nowhere yet. */
  readonly from: number | null
  /** Where it goes on. */
  readonly to: number
  /** Of a bounded replay: up to here it is delivered again. */
  readonly until: number | null
}

/** Called before the first record from the target; what it resolves to is waited for. */
export type OnRewind = (rewound: Rewound) => unknown

/** One partition on its way to an entry's target. */
export interface Move {
  readonly playhead: Playhead
  readonly epoch: number
  readonly entry: RewindEntry
  readonly from: number | null
  /** What its commits said before it jumped. */
  readonly before: Sequence
}

/** Not lost, and not rewound again since. */
export function isCurrent({ playhead, entry }: Move): boolean {
  if (playhead.state === 'gone' || playhead.state === 'revoking') return false
  const { sequence } = playhead.mark
  return sequence === entry.sequence || sequence === noSequence || sequence < entry.sequence
}

export interface HeraldHost {
  readonly cluster: Cluster
  readonly events: Events
  readonly settings: {
    readonly group: string
    readonly onRewind: OnRewind | null
    readonly onRewindTimeoutMs: number
  }
}

export class Herald {
  readonly #host: HeraldHost
  readonly #closing: AbortSignal

  constructor(host: HeraldHost, closing: AbortSignal) {
    this.#host = host
    this.#closing = closing
  }

  /** Awaits the application's `onRewind`, once for the moves of one rewind. */
  async announce(moves: readonly Move[]): Promise<void> {
    const { onRewind, onRewindTimeoutMs, group } = this.#host.settings
    const current = moves.filter(isCurrent)
    if (onRewind === null || current.length === 0) return
    for (const same of bySequence(current)) {
      let why: string | null = `did not end within ${onRewindTimeoutMs} ms`
      const call = async (): Promise<unknown> => onRewind(rewoundOf(same))
      const done = call().then(
        () => (why = null),
        (error: unknown) => (why = `threw: ${String(error)}`)
      )
      await this.within(onRewindTimeoutMs, done)
      if (why === null) continue
      const message = `group '${group}': onRewind ${why}. The rewind goes on`
      this.#host.events.emit('error', {
        error: new PlayheadError('BROKER_ERROR', message, { group })
      })
    }
  }

  /** The `rewound` event. */
  say(moves: readonly Move[]): void {
    for (const same of bySequence(moves)) this.#host.events.emit('rewound', rewoundOf(same))
  }

  /** Whether `work` ended in time. Rejects when the consumer is closed. */
  async within(ms: number, work: Promise<unknown>): Promise<boolean> {
    const { clock } = this.#host.cluster.env
    const signal = this.#closing
    signal.throwIfAborted()
    let timer: Timer | undefined
    let deafen: (() => void) | undefined
    const late = new Promise<boolean>((resolve, reject) => {
      timer = clock.after(ms, () => resolve(false))
      deafen = onAbort(signal, () => {
        timer?.cancel()
        reject(signal.reason as PlayheadError)
      })
    })
    try {
      return await Promise.race([work.then(() => true), late])
    } finally {
      timer?.cancel()
      deafen?.()
    }
  }
}

/** The moves of each rewind. */
export function bySequence(moves: readonly Move[]): Iterable<readonly Move[]> {
  const groups = new Map<Sequence, Move[]>()
  for (const move of moves) {
    const { sequence } = move.entry
    groups.set(sequence, [...(groups.get(sequence) ?? []), move])
  }
  return groups.values()
}

function rewoundOf(moves: readonly Move[]): Rewound {
  const [first] = moves
  const { sequence: id = noSequence, who: by = '', reason = '' } = first?.entry ?? {}
  const partitions = moves.map(({ playhead: { topic, partition }, entry, from }) => {
    return { topic, partition, from, to: entry.target, until: entry.until }
  })
  return { id, partitions, by, reason }
}
