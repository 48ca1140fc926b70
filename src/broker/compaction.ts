/**
 * Compaction: of each key only the last record stays. Batches keep their offsets and their place; records go out of
 * them, and a batch goes when none is left. (Cleaner.java)
 *
 * First the keys of what is new are read, each with its last offset; then all batches below are gone through. Bounded
 * memory: when too many keys are new, it is done in several rounds. The newest batch is never touched, as it says where
 * the log ends. What is not decided yet, behind an open transaction, waits; what was aborted goes.
 */
import type { Env } from '../base/env.ts'
import { Changes, type Store } from '../base/store.ts'
import { AbortedTransactions } from '../protocol/records/aborted.ts'
import type { BatchView } from '../protocol/records/batch.ts'
import { RecordCursor } from '../protocol/records/cursor.ts'
import { filterBatch } from '../protocol/records/filter.ts'
import { RecordSource } from '../protocol/records/source.ts'
import type { Topic } from './catalog.ts'
import { decompressedBytes } from './limits.ts'
import type { Partition } from './partition.ts'

/** Keys that are remembered in one round. */
const keysPerRound = 200_000
/** Written at once; others run in between. */
const chunkBytes = 1024 * 1024

export interface CompactionContext {
  readonly env: Env
  readonly store: Store
  /** Whether the partition is still the one that exists. */
  readonly exists: () => boolean
}

/** Whether enough is new: `min.cleanable.dirty.ratio`. */
export function isDirty({ log }: Partition, topic: Topic, to: number): boolean {
  if (to <= Math.max(log.compactedTo, log.startOffset)) return false
  const dirty = log.positionOf(to) - log.positionOf(Math.max(log.compactedTo, log.startOffset))
  return dirty > 0 && dirty / log.sizeBytes >= topic.number('min.cleanable.dirty.ratio')
}

/** Where compaction ends: before the newest batch, an open transaction, and what is younger than it may touch. */
export function compactionEnd(
  { log, lastStableOffset }: Partition,
  topic: Topic,
  now: number
): number {
  const newest = log.batchAt(log.endOffset - 1)
  if (newest === undefined) return log.startOffset
  const end = Math.min(lastStableOffset, newest.baseOffset)
  const lagMs = topic.number('min.compaction.lag.ms')
  if (lagMs === 0) return end
  return Math.min(end, log.batchByTime(now - lagMs, end)?.baseOffset ?? end)
}

export async function compact(
  partition: Partition,
  topic: Topic,
  context: CompactionContext
): Promise<void> {
  const { log } = partition
  const now = context.env.clock.now()
  const end = compactionEnd(partition, topic, now)
  while (log.compactedTo < end) {
    const last = new Map<string, number>()
    const to = await readKeys(
      partition,
      Math.max(log.compactedTo, log.startOffset),
      end,
      last,
      context
    )
    const oldest = now - topic.number('delete.retention.ms')
    await rewrite(partition, to, last, oldest, context)
    if (!context.exists()) return
    const changes = new Changes()
    partition.compacted(to, changes)
    await context.store.commit(changes)
  }
}

/** Where each key was last, from `from` on; returns where it ended, at `to` or before. */
async function readKeys(
  partition: Partition,
  from: number,
  to: number,
  last: Map<string, number>,
  context: CompactionContext
): Promise<number> {
  const aborted = abortedIn(partition, from, to)
  for (const batch of partition.log.batches(from, to)) {
    if (last.size >= keysPerRound) return batch.baseOffset
    const dropped = aborted.drops(batch)
    if (batch.isControl || dropped) continue
    const payload = await payloadOf(batch, context)
    const cursor = new RecordCursor(new RecordSource(batch, payload, '', -1))
    while (cursor.advance()) {
      const { keyStart, keyLength, offset } = cursor
      if (keyLength >= 0)
        last.set(payload.toString('latin1', keyStart, keyStart + keyLength), offset)
    }
  }
  return to
}

async function rewrite(
  partition: Partition,
  to: number,
  last: ReadonlyMap<string, number>,
  /** Tombstones of before go. */
  oldest: number,
  context: CompactionContext
): Promise<void> {
  const { log } = partition
  const aborted = abortedIn(partition, log.startOffset, to)
  let changes = new Changes()
  let bytes = 0
  for (const batch of log.batches(log.startOffset, to)) {
    const dropped = aborted.drops(batch)
    if (batch.isControl) continue
    const payload = await payloadOf(batch, context)
    const keeps = (cursor: RecordCursor): boolean => {
      if (dropped || cursor.keyLength < 0) return false
      const key = payload.toString('latin1', cursor.keyStart, cursor.keyStart + cursor.keyLength)
      if (cursor.offset < (last.get(key) ?? -1)) return false
      return cursor.valueLength >= 0 || batch.maxTimestamp >= oldest
    }
    const kept = await filterBatch(batch, payload, keeps, context.env.cpu)
    if (kept === 'all') continue
    if (!context.exists() || batch.baseOffset < log.startOffset) return
    log.replace(batch, kept, changes)
    bytes += kept?.length ?? 100
    if (bytes < chunkBytes) continue
    await context.store.commit(changes)
    changes = new Changes()
    bytes = 0
  }
  await context.store.commit(changes)
}

function abortedIn(partition: Partition, from: number, to: number): AbortedTransactions {
  return new AbortedTransactions(partition.abortedBetween(from, to))
}

async function payloadOf(batch: BatchView, { env }: CompactionContext): Promise<Buffer> {
  // Others get their turn, also where nothing has to be decompressed.
  await new Promise<void>(resolve => {
    env.clock.soon(resolve)
  })
  return batch.compression === 'none' ? batch.payload : batch.decompress(env.cpu, decompressedBytes)
}
