/** Rewinds after their call: what the ledger holds, and taking back what nobody took up yet. */
import { cancelled, done, judge } from '../../group/ledger/caller.ts'
import type { RewindEntry, Sequence } from '../../protocol/embedded/rewind-envelope.ts'
import type { Cluster, WaitOptions } from '../../rpc/cluster.ts'
import { sleep } from '../../rpc/retry.ts'
import { ledGroup } from '../led.ts'
import { keyOf, ledgerOf, type PartitionEntry, readSlots, writeEntries } from '../ledger.ts'
import type { TopicPartition } from '../partition.ts'
import { describeGroups } from './groups.ts'
import { cancelLed } from './led-cancel.ts'
import { ledRewinds } from './led-rewind.ts'
import { cancelGraceMs } from './rewind.ts'

/** Where a group keeps its rewinds. */
export interface LedgerOptions extends WaitOptions {
  /** The ledger group. Default: the group's name and '.rewind'. */
  readonly ledger?: string | undefined
}

/** A rewind that the ledger knows. */
export interface KnownRewind {
  /** Which one. */
  readonly id: Sequence
  /** Who asked for it. */
  readonly who: string
  /** Why; '': not said. */
  readonly reason: string
  /** Epoch ms. */
  readonly created: number
  /** Epoch ms: it isn't taken up from then on. */
  readonly expires: number
  /** Those of which it is the newest rewind. */
  readonly partitions: readonly KnownRewoundPartition[]
}

/** What became of a partition. */
export interface KnownRewoundPartition extends TopicPartition {
  /** How far it has come. */
  readonly state: 'pending' | 'applied' | 'superseded' | 'cancelled' | 'expired'
  /** Where it was when its owner took the rewind up; null: unknown, or not taken up. */
  readonly from: number | null
  /** The target. */
  readonly to: number
  /** The group's own commit; null: none. */
  readonly committed: number | null
  /** Of a bounded replay: where it ends, and where the group goes on. */
  readonly until: number | null
  /** … and where the group goes on. */
  readonly resume: number | null
  /** Of a bounded replay that is applied: whether the group is still inside. */
  readonly replaying: boolean
}

interface Found {
  readonly topic: string
  readonly partition: number
  readonly entry: RewindEntry
  readonly known: KnownRewoundPartition
}

/** The newest rewind of each partition, by call, newest first. Older ones are not kept. */
export async function listRewinds(
  cluster: Cluster,
  group: string,
  options: LedgerOptions = {}
): Promise<readonly KnownRewind[]> {
  const led = await ledGroup(cluster, group, options)
  if (led !== null) return ledRewinds(led)
  const byId = new Map<Sequence, Found[]>()
  for (const found of await readLedger(cluster, group, options)) {
    const id = idOf(found.entry)
    byId.set(id, [...(byId.get(id) ?? []), found])
  }
  return [...byId]
    .sort(([a], [b]) => (a < b ? 1 : -1))
    .map(([id, all]) => {
      const { who = '', reason = '', created = 0, expires = 0 } = all[0]?.entry ?? {}
      return { id, who, reason, created, expires, partitions: all.map(({ known }) => known) }
    })
}

/** Without the '.' of a replay that is over. */
function idOf(entry: RewindEntry): Sequence {
  return entry.sequence.replace('.', '')
}

async function readLedger(
  cluster: Cluster,
  group: string,
  options: LedgerOptions
): Promise<readonly Found[]> {
  const { ledger = ledgerOf(group) } = options
  const topics = new Map((await cluster.listTopics(options)).map(t => [t.topic, t.topicId]))
  const topicId = (topic: string) => topics.get(topic) ?? null
  const slots = await readSlots(cluster, group, ledger, null, topicId, options)
  const now = cluster.env.clock.now()
  return [...slots.values()].flatMap(({ topic, partition, commit, entry }): Found[] => {
    if (!entry) return []
    const standing = judge(entry, commit, entry, now)
    // 'overwritten' is by a lower sequence: it cannot be, of the entry that is there.
    const state = standing.state === 'overwritten' ? 'pending' : standing.state
    const known = {
      topic,
      partition,
      state,
      from: standing.state === 'applied' ? standing.from : null,
      to: entry.target,
      committed: commit?.offset ?? null,
      until: entry.until,
      resume: entry.resume,
      replaying: state === 'applied' && entry.until !== null && commit?.sequence === entry.sequence
    }
    return [{ topic, partition, entry, known }]
  })
}

/** Which rewinds to take back. */
export interface CancelOptions extends LedgerOptions {
  /** Only this rewind. Default: all that are pending. */
  readonly id?: Sequence | undefined
}

/** What became of a partition that was to be cancelled. */
export interface CancelledPartition extends TopicPartition {
  /** The rewind it was part of. */
  readonly id: Sequence
  /** applied: its owner was faster. */
  readonly state: 'cancelled' | 'applied' | 'superseded'
}

/**
 * Takes back what no owner took up yet. Resolves once it is sure which it is: an owner that read the entry just
 * before may still be at it, which is waited for. One that hangs for longer than 2 s in between isn't seen.
 */
export async function cancelRewinds(
  cluster: Cluster,
  group: string,
  options: CancelOptions = {}
): Promise<readonly CancelledPartition[]> {
  const led = await ledGroup(cluster, group, options)
  if (led !== null) return await cancelLed(cluster, led, options)
  const { ledger = ledgerOf(group), id } = options
  const pending = (await readLedger(cluster, group, options)).filter(({ entry, known }) => {
    return known.state === 'pending' && (id === undefined || idOf(entry) === id)
  })
  if (pending.length === 0) return []
  const ids = new Map(pending.map(({ topic, entry }) => [topic, entry.topicId]))
  const topicId = (topic: string) => ids.get(topic) ?? null
  const read = () =>
    readSlots(
      cluster,
      group,
      ledger,
      pending.map(({ topic, partition, entry }) => ({ topic, partition, topicId: entry.topicId })),
      topicId,
      options
    )
  const { clock } = cluster.env
  const slots = await read()
  const entries = pending.map(({ topic, partition, entry }): PartitionEntry => {
    const { commit = null } = slots.get(keyOf({ topic, partition })) ?? {}
    return { topic, partition, entry: cancelled(entry, commit, clock.now()) }
  })
  await writeEntries(cluster, ledger, entries, options)
  const [description] = await describeGroups(cluster, [group], options)
  if (description && description.members.length > 0) {
    await sleep(clock, cancelGraceMs, [cluster.closing, options.signal])
  }
  const after = await read()
  const repairs: PartitionEntry[] = []
  const results = pending.map(({ topic, partition, entry }): CancelledPartition => {
    const { commit = null, entry: inLedger = null } = after.get(keyOf({ topic, partition })) ?? {}
    const { state } = judge(entry, commit, inLedger, clock.now())
    if (state === 'applied') repairs.push({ topic, partition, entry: done(entry, commit) })
    const final = state === 'applied' || state === 'superseded' ? state : 'cancelled'
    return { topic, partition, id: idOf(entry), state: final }
  })
  await writeEntries(cluster, ledger, repairs, options)
  return results
}
