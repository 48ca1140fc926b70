/** Why a consumer delivers nothing although something is there, as far as it knows. A value from values. */
import { few } from '../../base/printable.ts'
import type { Reader } from './delivery.ts'
import type { StallReason } from './events.ts'
import type { Settings } from './options.ts'
import { nameOf, type Playhead } from './playhead.ts'

export interface StallFacts {
  readonly now: number
  /** Since something was last handed out. */
  readonly forMs: number
  readonly settings: Settings
  readonly reader: Reader | null
  /** Somebody waits for a record. */
  readonly wanted: boolean
  readonly playheads: readonly Playhead[]
  /** The group counts this consumer as a member. */
  readonly joined: boolean
  /** Its session is not over. */
  readonly alive: boolean
  /** Partitions without a leader. */
  readonly homeless: number
  readonly longestFetchMs: number
}

/** Whom the facts are asked of. */
export interface StallWitnesses {
  readonly settings: Settings
  readonly delivery: { readonly reader: Reader | null; readonly wanted: boolean }
  readonly assignment: { kept(): readonly Playhead[] }
  readonly group: { readonly joined: boolean; readonly aliveUntil: number } | null
  readonly fetcher: { readonly homeless: ReadonlySet<Playhead>; longestWaitMs(): number }
}

export function stallFactsOf(of: StallWitnesses, now: number, forMs: number): StallFacts {
  const { settings, delivery, assignment, group, fetcher } = of
  return {
    now,
    forMs,
    settings,
    reader: delivery.reader,
    wanted: delivery.wanted,
    playheads: assignment.kept(),
    joined: group?.joined ?? true,
    alive: now <= (group?.aliveUntil ?? Infinity),
    homeless: fetcher.homeless.size,
    longestFetchMs: fetcher.longestWaitMs()
  }
}

/** Undefined: nothing is wrong, there is just nothing to read. */
export function stallOf(
  facts: StallFacts
): { readonly reason: StallReason; readonly detail: string } | undefined {
  const { playheads, reader, now } = facts
  const inHandMs = now - (reader?.inHandSince() ?? Infinity)
  if (inHandMs > 0) {
    return { reason: 'handler running', detail: `for ${Math.round(inHandMs / 1000)} s` }
  }
  if (!facts.joined)
    return { reason: 'not in the group', detail: 'the coordinator has not accepted it' }
  if (!facts.alive) return { reason: 'session expired', detail: 'no heartbeat was answered' }
  if (playheads.length === 0) return { reason: 'no partitions', detail: 'none is assigned' }
  const behind = playheads.filter(isBehind)
  if (playheads.every(p => p.paused)) {
    if (behind.length === 0) return undefined
    return { reason: 'all partitions paused', detail: `${behind.length} of them have records` }
  }
  const locating = playheads.filter(p => p.state === 'locating')
  if (locating.length > 0)
    return { reason: 'start offset not found', detail: few(locating.map(nameOf), 3) }
  if (facts.homeless > 0) return { reason: 'no leader', detail: `${facts.homeless} partitions` }
  if (!facts.wanted && behind.length > 0) {
    return { reason: 'nobody asks for records', detail: few(behind.map(nameOf), 3) }
  }
  if (facts.longestFetchMs > facts.settings.fetchMaxWaitMs + facts.settings.stalledAfterMs / 2) {
    return {
      reason: 'fetch not answered',
      detail: `for ${Math.round(facts.longestFetchMs / 1000)} s`
    }
  }
  return undefined
}

function isBehind({ loaded, highWatermark, position }: Playhead): boolean {
  return loaded || (position >= 0 && highWatermark > position)
}
