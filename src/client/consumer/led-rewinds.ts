/**
 * Rewinds of a group led by a controller, at the owner: its partitions stop, and go on where the controller says. What
 * a rewind is to the application (`onRewind`, events, signals of handlers) is the `Rewinder`'s, as on every protocol;
 * where the partitions go, the controller has recorded.
 */
import { endOf, type RewindEntry, sequenceOf } from '../../protocol/embedded/rewind-envelope.ts'
import type { Clock } from '../../base/env.ts'
import type { Assignment } from './assignment.ts'
import type { Commits } from './commits.ts'
import type { PlacedPartition } from './led-membership.ts'
import type { TopicIdPartition } from './offsets.ts'
import type { Settings, StartFrom } from './options.ts'
import { partitionKey, type Playhead } from './playhead.ts'
import type { Rewinder } from './rewind.ts'

/** For the commit of where a partition stood; a rewind doesn't wait for a broker that is gone. */
const haltMs = 1_000

export interface LedRewindsHost {
  readonly clock: Clock
  readonly settings: Settings
  readonly assignment: Assignment
  readonly commits: Commits
  readonly rewinder: Rewinder | null
}

export class LedRewinds {
  readonly #host: LedRewindsHost

  constructor(host: LedRewindsHost) {
    this.#host = host
  }

  /** They are ours, and start here. */
  assign(partitions: readonly PlacedPartition[]): void {
    const { assignment, settings, rewinder } = this.#host
    const offsets = new Map(partitions.map(p => [partitionKey(p.topic, p.partition), p.offset]))
    assignment.assign(partitions, key => startAt(offsets.get(key) ?? -1, settings.startFrom))
    const entries = new Map<Playhead, RewindEntry>()
    for (const placed of partitions) {
      const playhead = assignment.get(placed)
      if (playhead === undefined) continue
      // Its commits say after which rewind they come, as on every protocol.
      const { lastRewindId: last, window, replayed } = placed
      // Of a replay that is over there is nothing to be told: who owned it before was.
      if (placed.rewind !== null && !replayed) {
        entries.set(playhead, entryOf(placed))
        continue
      }
      const sequence = sequenceOf(last)
      if (last > 0) playhead.mark = { sequence: replayed ? endOf(sequence) : sequence, from: null }
      // Whoever sought as soon as it was assigned, has left the replay.
      const sought = playhead.epoch > 0
      if (window !== null && !sought) rewinder?.bound(playhead, window)
    }
    rewinder?.take(entries)
  }

  async halt(partitions: readonly TopicIdPartition[]): Promise<void> {
    const { assignment, settings, commits, clock } = this.#host
    const playheads = partitions.flatMap(tp => assignment.get(tp) ?? []).filter(canJump)
    if (settings.autoCommit) commits.wantProcessed(playheads)
    commits.pump()
    for (const playhead of playheads) {
      // What is in hand is not processed: it is no part of where we stood.
      const { processed, position } = playhead
      playhead.jump({ offset: Math.max(0, processed < 0 ? position : processed) }, 'rewind', 'held')
    }
    const landed = Promise.all(playheads.map(playhead => commits.landed(playhead)))
    let timer: { cancel(): void } | undefined
    const late = new Promise<void>(resolve => (timer = clock.after(haltMs, resolve)))
    await Promise.race([landed, late])
    timer?.cancel()
  }

  move(partitions: readonly PlacedPartition[]): void {
    const { assignment, commits, rewinder } = this.#host
    const entries = new Map<Playhead, RewindEntry>()
    for (const placed of partitions) {
      const playhead = assignment.get(placed)
      // While it closes: its commit would be let in, as one of the generation that began with the rewind.
      if (playhead?.state === 'revoking') playhead.overtake()
      if (playhead === undefined || !canJump(playhead)) continue
      if (rewinder !== null && isNewsTo(playhead, placed)) {
        entries.set(playhead, entryOf(placed))
        continue
      }
      // Taken back, or taken up before: it goes on where it is committed, and in the replay it may have been in; and
      // not before `onRewind` has ended, where that still runs.
      playhead.jump({ offset: Math.max(0, placed.offset) }, 'rewind', 'held')
      const { window } = placed
      if (window !== null) rewinder?.bound(playhead, window)
      if (rewinder === null) playhead.release(playhead.epoch)
      else rewinder.releaseInTurn(playhead)
    }
    rewinder?.take(entries)
    commits.pump()
  }
}

function startAt(offset: number, startFrom: StartFrom): number | StartFrom {
  return offset >= 0 ? offset : startFrom
}

function canJump({ state }: Playhead): boolean {
  return state !== 'gone' && state !== 'revoking'
}

/** An answer names each rewind once, whichever of its partitions it is news of: some may have taken it up already. */
function isNewsTo({ mark }: Playhead, { rewind }: PlacedPartition): boolean {
  return rewind !== null && mark.sequence < sequenceOf(rewind.id)
}

/** What the ledger of another protocol would have said. */
function entryOf({ topicId, offset, rewind, window }: PlacedPartition): RewindEntry {
  const { id = 0, by = '', reason = '' } = rewind ?? {}
  return {
    sequence: sequenceOf(id),
    state: 'done',
    topicId,
    created: id,
    expires: Infinity,
    target: offset,
    before: null,
    until: window?.until ?? null,
    resume: window?.resume ?? null,
    who: by,
    reason
  }
}
