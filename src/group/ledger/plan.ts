/**
 * A rewind before it is carried out: where each partition is, where it would go, and what that means. Targets
 * are absolute from here on; whoever executes the plan asks no log again.
 */
import { endOf, type RewindEntry } from '../../protocol/embedded/rewind-envelope.ts'
import { type Commit, effective } from './position.ts'

/** The member that has a partition. */
export interface Owner {
  /** As the coordinator or the member made it. */
  readonly memberId: string
  /** What it calls itself. */
  readonly clientId: string
  /** Where it connects from, as the broker sees it. */
  readonly host: string
  /** Whether it reads the ledger. */
  readonly rewindable: boolean
}

/** What is known of a partition before the plan. */
export interface Known {
  /** The topic's name. */
  readonly topic: string
  /** Its id, base64url. */
  readonly topicId: string
  /** The partition's number, from 0. */
  readonly partition: number
  /** Who has it; null: nobody. */
  readonly owner: Owner | null
  /** The group's own commit; null: none. */
  readonly commit: Commit | null
  /** What the ledger has for it; null: nothing. */
  readonly entry: RewindEntry | null
  /** Offset of the first record that is still there. */
  readonly logStart: number
  /** Offset after the last record. */
  readonly logEnd: number
}

/** Where a partition is, and where it would go. */
export interface PlannedPartition extends Known {
  /** The effective committed offset; null: none. */
  readonly committed: number | null
  /** The offset that it would go to, cut to the log. */
  readonly target: number
  /** Which end of the log the wish was cut to. */
  readonly clamped: 'start' | 'end' | null
  /** Offsets between target and committed: delivered again, at most so many records. */
  readonly again: number
  /** Offsets between committed and target: never delivered. */
  readonly skipped: number
  /** Time of the first record at or after the target, where the log was asked for it. */
  readonly timestamp: number | null
  /** Bounded replay: where it ends. */
  readonly until: number | null
  /** … and where the group goes on. */
  readonly resume: number | null
}

/** A rewind that has not been carried out. Targets are absolute: time does not change what it means. */
export interface RewindPlan {
  /** The group to be rewound. */
  readonly group: string
  /** The ledger group it will be written to. */
  readonly ledger: string
  /** 'replay': bounded, it goes on where the group was. */
  readonly kind: 'rewind' | 'replay'
  /** Each partition that it names. */
  readonly partitions: readonly PlannedPartition[]
  /** What a person should know before executing it. */
  readonly warnings: readonly string[]
}

/** A partition's part of the plan for a wish: an absolute offset, cut to the log's two ends. */
export function planPartition(
  known: Known,
  wish: number,
  now: number,
  timestamp: number | null = null
): PlannedPartition {
  const committed = effective(known.commit, known.entry, now).offset
  const target = Math.min(Math.max(wish, known.logStart), known.logEnd)
  return {
    ...known,
    committed,
    target,
    clamped: wish < known.logStart ? 'start' : wish > known.logEnd ? 'end' : null,
    again: Math.max(0, (committed ?? target) - target),
    skipped: Math.max(0, target - (committed ?? target)),
    timestamp,
    until: null,
    resume: null
  }
}

/** The same for a bounded replay of [from, until). Null: nothing of it lies before the committed offset. */
export function planReplay(
  known: Known,
  from: number,
  until: number,
  now: number,
  timestamp: number | null = null
): PlannedPartition | null {
  const plan = planPartition(known, from, now, timestamp)
  if (plan.committed === null) return null
  const end = Math.min(until, plan.committed)
  if (plan.target >= end) return null
  return { ...plan, again: end - plan.target, until: end, resume: plan.committed }
}

/**
 * Where undo would take a partition: to where its owner said it stood when it jumped; else to what was
 * committed before. Null: there is nothing to go back to, or the rewind was never taken up.
 */
export function undoTarget(commit: Commit | null, entry: RewindEntry): number | null {
  const shown = commit?.sequence
  const applied = shown === entry.sequence || shown === endOf(entry.sequence)
  if (entry.state === 'cancelled' || !(applied || entry.state === 'done')) return null
  return (applied ? commit?.from : null) ?? entry.before?.offset ?? null
}

export interface Refusal {
  readonly topic: string
  readonly partition: number
  /** Null: it is refused for skipping, not for its owner. */
  readonly owner: Owner | null
  readonly why: string
}

/** Why a plan must not be carried out as it is. Empty: it may. */
export function refusals(plan: RewindPlan, allowSkip: boolean): Refusal[] {
  const found: Refusal[] = []
  for (const { topic, partition, owner, skipped } of plan.partitions) {
    if (owner && !owner.rewindable) {
      const why = `${topic}:${partition} belongs to ${owner.memberId} at ${owner.host}, which does not take part in rewinds`
      found.push({ topic, partition, owner, why })
    } else if (skipped > 0 && !allowSkip) {
      const why = `${topic}:${partition} would skip ${skipped} offsets that were not consumed yet`
      found.push({ topic, partition, owner: null, why })
    }
  }
  return found
}
