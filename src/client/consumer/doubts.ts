/**
 * Late commits, put right while their partition's owner lives. commit(100) is sent, its connection breaks, 50 is
 * committed for a rewind on a new one and acknowledged, then the broker gets round to commit(100): the group shows it.
 * (The ledger keeps a new owner from starting there.)
 *
 * So after a commit whose outcome isn't known, the group is read back at each check for a while, and what was
 * last acknowledged is committed again where the group shows something from before it.
 */
import { readCommit } from '../../group/ledger/position.ts'
import { noSequence } from '../../protocol/embedded/rewind-envelope.ts'
import type { Cluster } from '../../rpc/cluster.ts'
import type { Commits, CommitSlot } from './commits.ts'
import { committedOffsets } from './offsets.ts'
import { nameOf, type Playhead } from './playhead.ts'

/** For so long; the ledger covers what comes later still. */
const doubtMs = 300_000

export class Doubts {
  readonly #cluster: Cluster
  readonly #group: string
  readonly #commits: Commits
  /** Until when each is looked out for. */
  readonly #slots = new Map<CommitSlot, number>()
  #looking = false

  constructor(cluster: Cluster, group: string, commits: Commits) {
    this.#cluster = cluster
    this.#group = group
    this.#commits = commits
  }

  /** Something may be committed for these that nobody here will hear of. */
  add(playheads: readonly Playhead[]): void {
    const until = this.#cluster.env.clock.monotonic() + doubtMs
    for (const playhead of playheads) this.#slots.set(this.#commits.slot(playhead), until)
  }

  /** Looks once, unless a look is under way. */
  async look(): Promise<void> {
    const uncertain = this.#commits.uncertain()
    this.add(uncertain.map(({ playhead }) => playhead))
    for (const slot of uncertain) this.#commits.confirmed(slot)
    const now = this.#cluster.env.clock.monotonic()
    for (const [slot, until] of this.#slots) {
      if (now >= until || !slot.playhead.alive) this.#slots.delete(slot)
    }
    if (this.#looking || this.#slots.size === 0 || this.#commits.isInTransaction) return
    this.#looking = true
    try {
      await this.#compare([...this.#slots.keys()])
    } finally {
      this.#looking = false
    }
  }

  close(): void {
    this.#slots.clear()
  }

  async #compare(slots: readonly CommitSlot[]): Promise<void> {
    const asked = slots.map(slot => ({ slot, acked: slot.acked }))
    const playheads = slots.map(({ playhead }) => playhead)
    const { found, unreadable } = await committedOffsets(this.#cluster, this.#group, playheads)
    // A commit of ours that came behind a transaction's offsets would undo them.
    if (this.#commits.isInTransaction) return
    for (const { slot, acked } of asked) {
      // Acknowledged meanwhile: what was read may be older.
      if (acked === null || slot.acked !== acked || !slot.playhead.alive) continue
      if (unreadable.has(slot.playhead.key)) continue
      const held = found.get(slot.playhead.key)
      const commit = held ? readCommit(held.offset, held.metadata) : null
      // Without an envelope it is none of ours: a controller has recorded a rewind, say, and we hear of it next.
      if (commit?.sequence === null) continue
      const shown = commit?.sequence ?? noSequence
      if (commit && shown > acked.mark.sequence) continue
      // Further on: by a commit that wasn't answered, or in a transaction.
      if (commit && shown === acked.mark.sequence && commit.offset >= acked.offset) continue
      this.#cluster.env.log.info(
        `group '${this.#group}': a late commit of ${nameOf(slot.playhead)} is put right`,
        { found: commit?.offset ?? null, committed: acked.offset }
      )
      this.#commits.again(slot)
    }
  }
}
