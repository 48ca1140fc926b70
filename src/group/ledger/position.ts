/**
 * Where a partition of a group stands, decided from two slots: the group's own commit, and the entry in its
 * ledger (live-rewind.md). Never by comparing offsets: a sequence says which of the two is the later word.
 *
 * Why the ledger outlives its own application: a broker keeps the order within one connection only. An owner
 * sends commit(100), its connection breaks, it commits 50 for the rewind on a new one and is answered; then
 * the broker gets round to commit(100). The group shows 100 with the old sequence, and the entry still says 50.
 */
import {
  endOf,
  noSequence,
  parseCommit,
  parseEntry,
  type ReplayWindow,
  type RewindEntry,
  type Sequence
} from '../../protocol/embedded/rewind-envelope.ts'

/** A partition's commit in the group. */
export interface Commit {
  /** The next record to be processed. */
  readonly offset: number
  /** Null: bare, so not by a Playhead consumer. */
  readonly sequence: Sequence | null
  /** Where the owner stood when it took up that sequence. */
  readonly from: number | null
  /** Of the bounded replay that it is in; null: in none, or its entry says so. */
  readonly window: ReplayWindow | null
  /** The application's part of the metadata. */
  readonly application: string
}

/** The commit in an answer to OffsetFetch; null: nothing is committed. */
export function readCommit(offset: number, metadata: string | null): Commit | null {
  if (offset < 0) return null
  const { mark, application } = parseCommit(metadata)
  const { sequence = null, from = null, window = null } = mark ?? {}
  return { offset, sequence, from, window, application }
}

/** The entry in an answer to OffsetFetch for the ledger; null: none, or one for another topic of that name. */
export function readEntry(
  offset: number,
  metadata: string | null,
  topicId: string
): RewindEntry | null {
  const entry = offset < 0 ? null : parseEntry(metadata ?? '', offset)
  return entry?.topicId === topicId ? entry : null
}

/** Where a new owner starts, and what its commits carry. */
export interface Position {
  /** Null: nothing is committed, the reset policy decides. */
  readonly offset: number | null
  /**
   * commit: the group's own. rewind: the entry's target, to be acknowledged by a commit of `offset` with
   * `sequence`. external: somebody else's commit, on purpose: to be reported, and acknowledged likewise.
   */
  readonly because: 'nothing' | 'commit' | 'external' | 'rewind'
  /** What the owner's commits carry from here on. */
  readonly sequence: Sequence
  readonly from: number | null
  readonly window: ReplayWindow | null
  /** The entry behind it, when `because` is 'rewind'. */
  readonly entry: RewindEntry | null
}

/** Whether an entry waits to be taken up, or keeps its force after it was. */
export function isInForce(entry: RewindEntry, now: number): boolean {
  return entry.state === 'done' || (entry.state === 'pending' && now < entry.expires)
}

/** The effective committed offset of a partition. */
export function effective(commit: Commit | null, entry: RewindEntry | null, now: number): Position {
  if (!entry) return fromCommit(commit, commit?.sequence ?? noSequence, null)
  const inForce = isInForce(entry, now)
  // What a commit must at least carry in order to count.
  const floor = inForce ? entry.sequence : (entry.before?.sequence ?? noSequence)
  if (!commit) {
    // Kafka drops the offsets of a group without members; just after a rewind the entry still knows better:
    // a group that was empty for a week loses a commit from outside at the next sweep. A done entry older
    // than its lifetime gives way, so that a group deleted on purpose begins anew.
    return inForce && now < entry.expires
      ? fromEntry(entry, null)
      : fromCommit(null, endOf(floor), entry)
  }
  if (commit.sequence === null) {
    // Bare. Either it was there before the rewind (a group that comes from another client), or it is a reset
    // by somebody else after it. Once the entry is done, the group has had a mark: then it is the latter.
    const old = entry.before?.sequence === null && entry.before.offset === commit.offset
    return inForce && entry.state === 'pending' && old
      ? fromEntry(entry, commit)
      : fromCommit(commit, endOf(floor), entry)
  }
  if (inForce) {
    return commit.sequence >= entry.sequence
      ? fromCommit(commit, commit.sequence, entry)
      : fromEntry(entry, commit)
  }
  // An entry that was cancelled, or expired before anybody took it up, still covers what it replaced.
  const { before } = entry
  return before?.sequence && commit.sequence < before.sequence
    ? {
        ...fromEntry(entry, commit),
        offset: before.offset,
        sequence: before.sequence,
        window: null
      }
    : fromCommit(commit, commit.sequence, entry)
}

function fromCommit(
  commit: Commit | null,
  sequence: Sequence,
  entry: RewindEntry | null
): Position {
  if (!commit) {
    return { offset: null, because: 'nothing', sequence, from: null, window: null, entry: null }
  }
  const because = commit.sequence === null && entry ? 'external' : 'commit'
  const told = entry?.sequence === sequence ? windowOf(entry, commit.from) : null
  const its = commit.window ?? told
  const window = its && behind(its, commit.offset)
  return { offset: commit.offset, because, sequence, from: commit.from, window, entry: null }
}

/** An owner that sought out of the replay has gone on from there: behind it the group is no lower. */
function behind(window: ReplayWindow, offset: number): ReplayWindow {
  return offset < window.until ? window : { ...window, resume: Math.max(window.resume, offset) }
}

/** `commit` is what the entry overrides: where the owner is taken to have stood. */
function fromEntry(entry: RewindEntry, commit: Commit | null): Position {
  const from = isOverruled(entry, commit)
    ? entry.resume
    : ((commit ?? entry.before)?.offset ?? null)
  return {
    offset: entry.target,
    because: 'rewind',
    sequence: entry.sequence,
    from,
    window: windowOf(entry, from),
    entry
  }
}

/**
 * A rewind back that nobody had taken up when the replay was planned: the replay goes on where that leads, whatever was
 * committed from before both of them.
 */
function isOverruled({ before, resume }: RewindEntry, commit: Commit | null): boolean {
  if (before === null || resume === null || resume >= before.offset) return false
  return (commit?.sequence ?? noSequence) <= (before.sequence ?? noSequence)
}

/** The replay's window for an owner that stood at `from`: it never resumes before that. */
export function windowOf(entry: RewindEntry, from: number | null): ReplayWindow | null {
  if (entry.until === null || entry.resume === null) return null
  return { until: entry.until, resume: Math.max(entry.resume, from ?? 0) }
}

/** Whether a running owner, whose commits carry `sequence`, has to jump for what it read in the ledger. */
export function isNews(entry: RewindEntry, sequence: Sequence, now: number): boolean {
  return isInForce(entry, now) && entry.sequence > sequence
}
