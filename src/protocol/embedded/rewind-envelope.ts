/**
 * What a live rewind writes into the metadata of committed offsets. Two slots, each with one class of writer:
 *
 *   the ledger, group `G.rewind`, written by callers only: an entry
 *     ph1;s=1764510212345k3f9;pending;t=<topic id>;c=1764510212345;x=86400;o=42;f=4711@0;u=50;r=4711;w=ops;m=bug 123
 *   the group `G`, written by owners only: a mark, then `|`, then the application's own metadata, unchanged
 *     ph1;s=1764510212345k3f9;f=4711;u=50;r=4711;t=<topic id>|whatever the application wrote
 *
 *   s sequence   t topic id     c created, ms   x lifetime, s   o target          f before: offset @ sequence (- : bare)
 *   u until      r resume       w who           m reason        f (in a mark) where the owner stood when it jumped
 *
 * A mark says until and resume, too: of two callers at once the later write may cover the entry of the one who won, and
 * what is written in its place can only say what the group shows.
 *
 * Fields stand in this order and each but s, state, t, c, x and o may be absent. Reading is strict: what isn't
 * exactly this is no envelope, and is ignored (security.md S18). A later format has another first word.
 */
import { PlayheadError } from '../../base/error.ts'

/**
 * Which rewind: 13 digits of milliseconds, and 4 characters of chance, so that two callers in one millisecond
 * differ. Ordered by plain string comparison. '0' is before all of them: no rewind yet. With a '.' behind it:
 * that rewind is over (its replay came to the end, or somebody else reset the offset): after it, and before
 * anything later.
 */
export type Sequence = string

export const noSequence: Sequence = '0'

/** What stands for a topic's id where brokers have none (before 2.8). */
const noTopicId = 'AAAAAAAAAAAAAAAAAAAAAA'

/** Kafka's default for `offset.metadata.max.bytes`, which it compares with Java's String.length(). */
export const maxMetadataUnits = 4096
/** An entry has at most so many characters, all of them printable ASCII. */
export const maxEntryLength = 200
/** Longest `who`; the reason gets what is left. */
const maxWhoLength = 20
const maxTime = 9_999_999_999_999
const maxLifetimeS = 99_999_999

/** Whether an entry is still to be taken up. */
export type EntryState = 'pending' | 'done' | 'cancelled'

/** A partition's entry in the ledger; the offset committed with it is `target`. */
export interface RewindEntry {
  /** Which rewind. */
  readonly sequence: Sequence
  /** Whether it is still to be taken up. */
  readonly state: EntryState
  /** base64url. An entry for a topic that was deleted and made anew means nothing. */
  readonly topicId: string
  /** Wall-clock milliseconds. */
  readonly created: number
  /** Wall-clock milliseconds, whole seconds after `created`: it isn't taken up from then on. */
  readonly expires: number
  /** Where the partition goes. */
  readonly target: number
  /** What `G` had for the partition when the entry was written (or cancelled); null: nothing. */
  readonly before: { readonly offset: number; readonly sequence: Sequence | null } | null
  /** Bounded replay: at this offset it ends … */
  readonly until: number | null
  /** … and the group goes on here, or where it was when it jumped if that is further. */
  readonly resume: number | null
  /** Who asked, for a person to read: up to 20 characters of ASCII. */
  readonly who: string
  /** Why, for a person to read: ASCII; '': not said. */
  readonly reason: string
}

/** A bounded replay under way: at `until`, go on at `resume`. */
export interface ReplayWindow {
  readonly until: number
  readonly resume: number
}

/** What an owner writes with each commit. */
export interface CommitMark {
  /** The last sequence applied to the partition. */
  readonly sequence: Sequence
  /** Where the owner stood when it jumped; null when nothing was applied, or it had no position. */
  readonly from: number | null
  /** Of the bounded replay that it is in; null or left out: in none. */
  readonly window?: ReplayWindow | null
}

/** A sequence greater than `seen`, and than the time. `tag`: 4 characters of 0-9a-z, by chance. */
export function nextSequence(now: number, seen: Iterable<Sequence>, tag: string): Sequence {
  let last = now
  for (const sequence of seen) last = Math.max(last, timeOf(sequence))
  const sequence = String(last + 1).padStart(13, '0') + tag
  if (!isSequence(sequence)) {
    throw new PlayheadError(
      'REWIND_REFUSED',
      `no sequence after ${last}: the ledger holds one that lies beyond the year 2286; delete its group`
    )
  }
  return sequence
}

/** The sequence of commits after the rewind `sequence` is over. */
export function endOf(sequence: Sequence): Sequence {
  return sequence === noSequence || sequence.endsWith('.') ? sequence : `${sequence}.`
}

/** Of a rewind by a controller, which counts: 17 characters, ordered as its ids are. */
export function sequenceOf(rewindId: number): Sequence {
  return `${String(rewindId).padStart(13, '0')}0000`
}

function timeOf(sequence: Sequence): number {
  return Number(sequence.slice(0, 13))
}

export function isSequence(text: string): boolean {
  return text === noSequence || /^[0-9]{13}[0-9a-z]{4}\.?$/.test(text)
}

/** The metadata of an entry: at most 200 characters. `reason` is cut to what fits; see `asciiText`. */
export function encodeEntry(entry: RewindEntry): string {
  const lifetimeS = Math.round((entry.expires - entry.created) / 1000)
  let text = `ph1;s=${entry.sequence};${entry.state};t=${entry.topicId};c=${entry.created}`
  text += `;x=${lifetimeS};o=${entry.target}`
  if (entry.before) text += `;f=${entry.before.offset}@${entry.before.sequence ?? '-'}`
  if (entry.until !== null) text += `;u=${entry.until}`
  if (entry.resume !== null) text += `;r=${entry.resume}`
  const who = asciiText(entry.who, Math.min(maxWhoLength, maxEntryLength - text.length - 3))
  if (who !== '') text += `;w=${who}`
  const reason = asciiText(entry.reason, maxEntryLength - text.length - 3)
  if (reason !== '') text += `;m=${reason}`
  return text
}

const offsetPattern = '(?:0|[1-9][0-9]{0,15})'
const topicIdPattern = '[A-Za-z0-9_-]{22}'
const sequencePattern = '(?:0|[0-9]{13}[0-9a-z]{4}\\.?)'
const entryPattern = new RegExp(
  `^ph1;s=(${sequencePattern});(pending|done|cancelled);t=(${topicIdPattern})` +
    `;c=([0-9]{1,13});x=([0-9]{1,8});o=(${offsetPattern})` +
    `(?:;f=(${offsetPattern})@(${sequencePattern}|-))?` +
    `(?:;u=(${offsetPattern}))?(?:;r=(${offsetPattern}))?` +
    `(?:;w=([ -:<-~]{1,${maxWhoLength}}))?(?:;m=([ -:<-~]{1,${maxEntryLength}}))?$`
)

/** The entry in a metadata string; null when it is anything else, or doesn't belong to `committedOffset`. */
export function parseEntry(metadata: string, committedOffset: number): RewindEntry | null {
  if (metadata.length > maxEntryLength) return null
  const match = entryPattern.exec(metadata)
  if (!match) return null
  const [, sequence = '', state, topicId = '', created, lifetimeS, target] = match
  const [before, beforeSequence, until, resume, who = '', reason = ''] = match.slice(7)
  const entry: RewindEntry = {
    sequence,
    state: state as EntryState,
    topicId,
    created: Number(created),
    expires: Number(created) + Number(lifetimeS) * 1000,
    target: Number(target),
    before:
      before === undefined || beforeSequence === undefined
        ? null
        : { offset: Number(before), sequence: beforeSequence === '-' ? null : beforeSequence },
    until: until === undefined ? null : Number(until),
    resume: resume === undefined ? null : Number(resume),
    who,
    reason
  }
  const offsets = [entry.target, entry.before?.offset ?? 0, entry.until ?? 0, entry.resume ?? 0]
  if (!offsets.every(Number.isSafeInteger) || entry.target !== committedOffset) return null
  if (sequence === noSequence || (until === undefined) !== (resume === undefined)) return null
  return entry
}

/** Throws INVALID_ARGUMENT for values that no entry can hold. The caller's first check, before any I/O. */
export function checkEntry(entry: RewindEntry): void {
  const fits =
    entry.expires > entry.created &&
    entry.expires - entry.created <= maxLifetimeS * 1000 &&
    entry.created >= 0 &&
    entry.created <= maxTime
  if (!fits || parseEntry(encodeEntry(entry), entry.target) === null) {
    throw new PlayheadError(
      'INVALID_ARGUMENT',
      `a rewind of ${entry.topicId} to ${entry.target} cannot be written down: ${encodeEntry(entry)}`
    )
  }
}

/**
 * The metadata of an owner's commit. With the topic's id, as brokers before 4.1 take commits by the topic's name: one that
 * comes late may be stored for another topic of that name. Throws TOO_LARGE when mark and application's metadata together are more
 * than 4,096 UTF-16 units: Kafka would refuse just that partition.
 */
export function encodeCommit(mark: CommitMark, application = '', topicId = noTopicId): string {
  const from = mark.from === null ? '' : `;f=${mark.from}`
  const window = mark.window ? `;u=${mark.window.until};r=${mark.window.resume}` : ''
  const topic = topicId === noTopicId ? '' : `;t=${topicId}`
  const text = `ph1;s=${mark.sequence}${from}${window}${topic}|${application}`
  if (text.length > maxMetadataUnits) {
    const room = maxMetadataUnits - (text.length - application.length)
    throw new PlayheadError(
      'TOO_LARGE',
      `commit metadata has ${application.length} UTF-16 units, at most ${room} fit beside Playhead's own`
    )
  }
  return text
}

const markPattern = new RegExp(
  `^ph1;s=(${sequencePattern})(?:;f=(${offsetPattern}))?` +
    `(?:;u=(${offsetPattern});r=(${offsetPattern}))?(?:;t=(${topicIdPattern}))?\\|`
)

/** Splits the metadata of a commit. `mark` null: somebody else's commit, all of it is the application's. */
export function parseCommit(metadata: string | null): {
  readonly mark: CommitMark | null
  readonly application: string
  /** Of the topic that was read; null: not told. */
  readonly topicId: string | null
} {
  const match = markPattern.exec(metadata ?? '')
  const foreign = { mark: null, application: metadata ?? '', topicId: null }
  if (!match) return foreign
  const [whole, sequence = noSequence, ...rest] = match
  const topicId = rest.pop() ?? null
  const numbers = rest.map(text => (text === undefined ? null : Number(text)))
  if (!numbers.every(n => n === null || Number.isSafeInteger(n))) return foreign
  const [from = null, until = null, resume = null] = numbers
  const window = until === null || resume === null ? {} : { window: { until, resume } }
  const mark = { sequence, from, ...window }
  return { mark, application: (metadata ?? '').slice(whole.length), topicId }
}

/** Whether a commit says that it is of another topic than the one with this id, deleted before that had its name. */
export function isOfAnother(metadata: string | null, topicId: string): boolean {
  const { topicId: of } = parseCommit(metadata)
  return of !== null && topicId !== noTopicId && of !== topicId
}

/** `text` as an envelope can hold it: other characters become '?', ';' becomes ',', cut to `length`. */
export function asciiText(text: string, length: number): string {
  return text
    .replace(/;/g, ',')
    .replace(/[^ -~]/gu, '?')
    .slice(0, Math.max(0, length))
}

/**
 * How a caller sees that a member can be rewound. KIP-848: the client makes the member id, ours begin with
 * this. Classic: the subscription's user data begin with it, or, of 'cooperative-sticky', with the generation (as
 * Java's clients expect) and then it. A consumer with `rewindable: false` has neither.
 */
export const rewindableMark = 'ph1-'

/** Whether a member, by its id (KIP-848) or its subscription's user data (classic), takes part in rewinds. */
export function isRewindable(member: {
  readonly memberId?: string
  readonly userData?: Uint8Array | null
}): boolean {
  if (member.memberId?.startsWith(rewindableMark)) return true
  const { userData } = member
  if (!userData) return false
  const end = userData.subarray(-rewindableMark.length)
  return Buffer.from(end).toString('latin1') === rewindableMark
}
