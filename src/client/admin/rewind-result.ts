/** What a rewind came to, for each partition, and the error that tells when it isn't what was asked. */
import { type ErrorCode, type ErrorDetails, PlayheadError } from '../../base/error.ts'
import { few } from '../../base/printable.ts'
import type { Owner, PlannedPartition } from '../../group/ledger/plan.ts'
import type { Sequence } from '../../protocol/embedded/rewind-envelope.ts'

/** How far the rewind of a partition has come. */
export type RewoundState =
  /** Delivered from the target on, by whoever owns it. */
  | 'applied'
  /** A later rewind won (`by`), or somebody else's reset (`by` null). */
  | 'superseded'
  /** Nobody took it up yet; the next check, or the next owner, does. */
  | 'pending'
  /** Taken back by somebody else. */
  | 'cancelled'
  /** Nobody took it up in time, and nobody will. */
  | 'expired'
  /** Not rewound: its owner takes no part in rewinds, or it would skip records. */
  | 'refused'

/** What became of one partition. */
export interface RewoundPartition {
  /** The topic's name. */
  readonly topic: string
  /** The partition's number, from 0. */
  readonly partition: number
  /** Who had it when last asked; null: nobody. */
  readonly owner: Owner | null
  /** Where it was, as its owner reported; null: nowhere. */
  readonly from: number | null
  /** The target. */
  readonly to: number
  /** Which end of the log the target was cut to; null: neither. */
  readonly clamped: PlannedPartition['clamped']
  /** From the call until it was known; null: it isn't. */
  readonly ms: number | null
  /** How far it has come. */
  readonly state: RewoundState
  /** The later rewind, when it is superseded by one. */
  readonly by: Sequence | null
}

/** What became of a rewind. */
export interface RewindResult {
  /** The rewind's sequence: later rewinds have greater ones. */
  readonly id: Sequence
  /** The group that was rewound. */
  readonly group: string
  /** The ledger group that it was written to. */
  readonly ledger: string
  /** 'replay': bounded. */
  readonly kind: 'rewind' | 'replay'
  /** Each partition of the plan. */
  readonly partitions: readonly RewoundPartition[]
  /** From the call until now, in milliseconds. */
  readonly ms: number
}

/** A rewind that isn't (wholly) what was asked: `result` says what became of each partition. */
export class RewindError extends PlayheadError {
  /** What became of each partition. */
  readonly result: RewindResult

  constructor(code: ErrorCode, message: string, result: RewindResult, details: ErrorDetails = {}) {
    super(code, message, details)
    this.result = result
  }
}

/** Null when every partition is applied, but for what was left out beforehand. */
export function rewindError(
  result: RewindResult,
  takenBack: string | null,
  trouble: PlayheadError | null
): RewindError | null {
  const { group, partitions } = result
  const of = (state: RewoundState) => partitions.filter(p => p.state === state)
  const pending = of('pending')
  const say = (code: ErrorCode, text: string) =>
    new RewindError(code, `rewind of group '${group}': ${text}`, result, {
      group,
      ...(trouble ? { cause: trouble } : {})
    })
  if (pending.length > 0) {
    const names = few(pending.map(p => `${nameOf(p)} (${ownerName(p)})`))
    const text = `not taken up yet by ${names}; it still will be, unless cancelRewind takes it back`
    return say('REWIND_PENDING', trouble ? `${text} (${trouble.message})` : text)
  }
  const lost = partitions.filter(p => {
    return p.state === 'superseded' || p.state === 'cancelled' || p.state === 'expired'
  })
  if (lost.length === 0 && takenBack === null) return null
  const list = lost.map(p => `${nameOf(p)} ${p.state}${p.by === null ? '' : ` by ${p.by}`}`)
  const text = [
    ...(list.length > 0 ? [few(list)] : []),
    ...(takenBack === null ? [] : [takenBack])
  ].join(', ')
  if (of('applied').length > 0) return say('PARTIALLY_APPLIED', text)
  if (takenBack !== null) return say('REWIND_REFUSED', `taken back: ${text}`)
  return say(of('superseded').length > 0 ? 'REWIND_SUPERSEDED' : 'ABORTED', text)
}

function nameOf({ topic, partition }: RewoundPartition): string {
  return `${topic}:${partition}`
}

function ownerName({ owner }: RewoundPartition): string {
  return owner ? `${owner.memberId} at ${owner.host}` : 'no owner'
}
