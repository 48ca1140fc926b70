/**
 * What a caller does with what it reads: whether its rewind is applied, what another caller did to it, and
 * what it leaves behind in the ledger. Commits know no compare-and-set, so two callers both write and both
 * look again; the higher sequence wins, and the loser repairs what it may have covered.
 */
import {
  endOf,
  noSequence,
  type RewindEntry,
  type Sequence
} from '../../protocol/embedded/rewind-envelope.ts'
import { type Commit, effective } from './position.ts'

/** How a caller's entry stands for one partition. */
export type Standing =
  /** The owner took it up; `from` is where it stood. */
  | { readonly state: 'applied'; readonly from: number | null }
  /** A later rewind won, or (null) somebody else's reset. */
  | { readonly state: 'superseded'; readonly by: Sequence | null }
  | { readonly state: 'cancelled' }
  | { readonly state: 'expired' }
  | { readonly state: 'pending' }
  /** A caller with a lower sequence wrote over it: it has to be written again. */
  | { readonly state: 'overwritten' }

export function judge(
  mine: RewindEntry,
  commit: Commit | null,
  inLedger: RewindEntry | null,
  now: number
): Standing {
  const shown = commit?.sequence
  if (commit && shown === mine.sequence) return { state: 'applied', from: commit.from }
  if (commit && shown === endOf(mine.sequence)) {
    return mine.until === null
      ? { state: 'superseded', by: null }
      : { state: 'applied', from: commit.from }
  }
  if (shown && shown > mine.sequence) return { state: 'superseded', by: shown }
  if (
    shown === null &&
    !(mine.before?.sequence === null && mine.before.offset === commit?.offset)
  ) {
    return { state: 'superseded', by: null }
  }
  if (inLedger && inLedger.sequence > mine.sequence) {
    return { state: 'superseded', by: inLedger.sequence }
  }
  // Applied and marked so by somebody else, and a late commit has covered the owner's: the entry holds.
  if (inLedger?.sequence === mine.sequence && inLedger.state === 'done') {
    return { state: 'applied', from: commit?.from ?? null }
  }
  if (inLedger?.sequence === mine.sequence && inLedger.state === 'cancelled') {
    return { state: 'cancelled' }
  }
  if (now >= mine.expires) return { state: 'expired' }
  return { state: inLedger?.sequence === mine.sequence ? 'pending' : 'overwritten' }
}

/** The entry as it is to be written over `inLedger`: it covers what that one covered. */
export function over(
  mine: RewindEntry,
  commit: Commit | null,
  inLedger: RewindEntry | null,
  now: number
): RewindEntry {
  const before = beforeOf(commit, inLedger, now)
  const later = (before?.sequence ?? noSequence) > (mine.before?.sequence ?? noSequence)
  return later ? { ...mine, before } : mine
}

/** What the entry becomes once it is applied. It keeps its force against late commits. */
export function done(entry: RewindEntry, commit: Commit | null): RewindEntry {
  if (commit?.sequence === undefined || commit.sequence === entry.sequence) {
    return { ...entry, state: 'done' }
  }
  return commit.sequence === endOf(entry.sequence) ? standIn(entry, commit, commit.sequence) : entry
}

/** What an entry takes down of the partition when it is written: where the group stands without it. */
export function beforeOf(
  commit: Commit | null,
  inLedger: RewindEntry | null,
  now: number
): RewindEntry['before'] {
  // A rewind that is still pending, and that this one supersedes, must not come true through it.
  const applied =
    inLedger?.state === 'pending' ? { ...inLedger, state: 'cancelled' as const } : inLedger
  const { because, offset, sequence } = effective(commit, applied, now)
  if (commit?.sequence === null && because !== 'rewind') {
    return { offset: commit.offset, sequence: null }
  }
  return offset === null ? null : { offset, sequence }
}

/** What the entry becomes when it is taken back: it goes on covering what it replaced, as that is by now. */
export function cancelled(entry: RewindEntry, commit: Commit | null, now: number): RewindEntry {
  const taken: RewindEntry = { ...entry, state: 'cancelled', until: null, resume: null }
  return { ...taken, before: beforeOf(commit, taken, now) }
}

/**
 * What to write over the entry just written, when the group, read after it, shows a commit that the entry does
 * not cover. Later than the entry: a caller that lost wrote after the one that won. Later than what the entry
 * replaced: another rewind was applied between this caller's read and its write. Without it a late commit, or
 * a cancellation, could bring back what that rewind had undone. Null: nothing to repair.
 */
export function repaired(written: RewindEntry, commit: Commit | null): RewindEntry | null {
  const shown = commit?.sequence
  if (!commit || !shown) return null
  if (shown > written.sequence) return standIn(written, commit, shown)
  if (shown === written.sequence || shown <= (written.before?.sequence ?? noSequence)) return null
  return { ...written, before: { offset: commit.offset, sequence: shown } }
}

/** The later rewind that was carried out, and that our commit for a group without members covers; null: none is. */
export function coveredBy(
  mine: RewindEntry,
  commit: Commit | null,
  inLedger: RewindEntry | null
): RewindEntry | null {
  if (inLedger?.state !== 'done' || commit?.sequence !== mine.sequence) return null
  return inLedger.sequence > endOf(mine.sequence) ? inLedger : null
}

function standIn(entry: RewindEntry, commit: Commit, sequence: Sequence): RewindEntry {
  const target = commit.offset
  // A replay under way is told by its owner's commits, too.
  const { until = null, resume = null } = commit.window ?? {}
  return { ...entry, sequence, state: 'done', target, before: null, until, resume }
}
