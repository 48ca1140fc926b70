/**
 * The committed offsets of one group, with those that a transaction has yet to decide on.
 *
 * A commit has a position, as its record would have in Kafka's log: of two commits of a partition the one with the
 * higher position counts. That matters when a transaction ends: TxnOffsetCommit (position 7), a plain commit
 * (position 8), EndTxn: the plain one stays.
 *
 * Offsets are kept by topic name, as clients ask by it. When a topic is deleted its offsets vanish; the topic's id
 * is stored beside each offset, so that a name that was used again doesn't inherit them after a crash.
 */
import { KafkaError } from '../../protocol/errors.ts'
import { type Read, int32, int64, message, opaque64, string, uuid } from '../../protocol/schema.ts'
import { type Part, type Write, part, write } from '../machine.ts'

/** Kafka's offset.metadata.max.bytes, which it compares with String.length(): UTF-16 units. */
export const maxMetadataUnits = 4096

const fields = {
  topic: string(),
  topicId: uuid(),
  partition: int32(),
  offset: int64(),
  leaderEpoch: int32(),
  metadata: string(),
  committedAtMs: int64(),
  /** From when on it is forgotten, as a client of before 2019 may ask for; -1: by the broker's retention. */
  expiresAtMs: int64(),
  position: int64()
} as const

export const StoredOffset = message({
  name: 'StoredOffset',
  versions: [0, 0],
  flexible: 0,
  fields
})

export const StoredPendingOffset = message({
  name: 'StoredPendingOffset',
  versions: [0, 0],
  flexible: 0,
  fields: { producerId: opaque64(), ...fields }
})

export type Committed = Read<typeof StoredOffset.fields>

type ByPartition = Map<number, Committed>
type ByTopic = Map<string, ByPartition>

export interface Offsets {
  readonly committed: ByTopic
  /** By producer id: what its open transaction would commit. */
  readonly pending: Map<bigint, ByTopic>
  /** Of the last commit. */
  position: number
}

export type OffsetFact =
  | { readonly kind: 'committed'; readonly commit: Committed }
  | { readonly kind: 'forgotten'; readonly topic: string; readonly partition: number }
  | { readonly kind: 'pending'; readonly producerId: bigint; readonly commit: Committed }
  | {
      readonly kind: 'decided'
      readonly producerId: bigint
      readonly topic: string
      readonly partition: number
    }

export interface CommitOf {
  readonly topic: string
  readonly topicId: string
  readonly partition: number
  readonly offset: number
  readonly leaderEpoch: number
  readonly metadata: string | null
}

export function noOffsets(): Offsets {
  return { committed: new Map(), pending: new Map(), position: 0 }
}

/** What is kept of a commit. */
export function committedAs(
  one: CommitOf,
  position: number,
  { nowMs, retentionMs }: { readonly nowMs: number; readonly retentionMs?: number | undefined }
): Committed {
  const { topic, topicId, partition, offset, leaderEpoch, metadata } = one
  // A retention of 2^53 is for ever, not a number that cannot be stored.
  const expiresAtMs =
    retentionMs === undefined ? -1 : Math.min(nowMs + retentionMs, Number.MAX_SAFE_INTEGER)
  return {
    topic,
    topicId,
    partition,
    offset,
    leaderEpoch,
    metadata: metadata ?? '',
    committedAtMs: nowMs,
    expiresAtMs,
    position
  }
}

/** Facts of a commit, and the error code of each; a partition with a wrong one doesn't hold back the others. */
export function commit(
  offsets: Offsets,
  asked: readonly CommitOf[],
  how: {
    readonly nowMs: number
    readonly retentionMs?: number | undefined
    readonly producerId?: bigint | undefined
  }
): { readonly facts: readonly OffsetFact[]; readonly codes: readonly number[] } {
  const facts: OffsetFact[] = []
  const { producerId } = how
  let { position } = offsets
  const codes = asked.map(one => {
    if ((one.metadata?.length ?? 0) > maxMetadataUnits) return KafkaError.OFFSET_METADATA_TOO_LARGE
    const made = committedAs(one, ++position, how)
    facts.push(
      producerId === undefined
        ? { kind: 'committed', commit: made }
        : { kind: 'pending', producerId, commit: made }
    )
    return KafkaError.NONE
  })
  return { facts, codes }
}

/** A transaction ended: what it would commit is committed, where nothing later was, or dropped. */
export function endTransaction(
  offsets: Offsets,
  producerId: bigint,
  committed: boolean
): readonly OffsetFact[] {
  const facts: OffsetFact[] = []
  for (const commit of each(offsets.pending.get(producerId))) {
    const { topic, partition, position } = commit
    const there = offsetOf(offsets, topic, partition)
    if (committed && (there === undefined || there.position < position)) {
      facts.push({ kind: 'committed', commit })
    }
    facts.push({ kind: 'decided', producerId, topic, partition })
  }
  return facts
}

/** Of one topic, or all. */
export function forget(
  offsets: Offsets,
  which: (commit: Committed) => boolean = () => true
): readonly OffsetFact[] {
  const facts: OffsetFact[] = []
  for (const commit of each(offsets.committed)) {
    const { topic, partition } = commit
    if (which(commit)) facts.push({ kind: 'forgotten', topic, partition })
  }
  for (const [producerId, pending] of offsets.pending) {
    for (const commit of each(pending)) {
      const { topic, partition } = commit
      if (which(commit)) facts.push({ kind: 'decided', producerId, topic, partition })
    }
  }
  return facts
}

/** Forgets what is older than its retention. `retainedFrom`: see Membership. */
export function expire(
  offsets: Offsets,
  nowMs: number,
  retentionMs: number,
  retainedFrom: (topic: string, committedAtMs: number) => number | null
): readonly OffsetFact[] {
  const facts: OffsetFact[] = []
  for (const { topic, partition, committedAtMs, expiresAtMs } of each(offsets.committed)) {
    if (undecided(offsets, topic, partition)) continue
    const from = retainedFrom(topic, committedAtMs)
    if (from === null) continue
    const at = expiresAtMs >= 0 ? expiresAtMs : from + retentionMs
    if (at <= nowMs) facts.push({ kind: 'forgotten', topic, partition })
  }
  return facts
}

export function offsetOf(
  offsets: Offsets,
  topic: string,
  partition: number
): Committed | undefined {
  return offsets.committed.get(topic)?.get(partition)
}

/** Whether an open transaction may yet change it: UNSTABLE_OFFSET_COMMIT to who wants it stable. */
export function undecided(offsets: Offsets, topic: string, partition: number): boolean {
  for (const pending of offsets.pending.values()) {
    if (pending.get(topic)?.has(partition)) return true
  }
  return false
}

/** Whether an open transaction would change it by its commit: what was committed after its offsets stands. */
export function unsettled(offsets: Offsets, topic: string, partition: number): boolean {
  const since = offsetOf(offsets, topic, partition)?.position ?? -1
  for (const pending of offsets.pending.values()) {
    const commit = pending.get(topic)?.get(partition)
    if (commit !== undefined && commit.position > since) return true
  }
  return false
}

export function applyOffset(offsets: Offsets, fact: OffsetFact): Offsets {
  switch (fact.kind) {
    case 'committed':
      set(offsets.committed, fact.commit)
      offsets.position = Math.max(offsets.position, fact.commit.position)
      return offsets
    case 'pending': {
      let pending = offsets.pending.get(fact.producerId)
      if (pending === undefined) offsets.pending.set(fact.producerId, (pending = new Map()))
      set(pending, fact.commit)
      offsets.position = Math.max(offsets.position, fact.commit.position)
      return offsets
    }
    case 'forgotten':
      remove(offsets.committed, fact.topic, fact.partition)
      return offsets
    case 'decided': {
      const pending = offsets.pending.get(fact.producerId)
      if (pending === undefined) return offsets
      remove(pending, fact.topic, fact.partition)
      if (pending.size === 0) offsets.pending.delete(fact.producerId)
      return offsets
    }
  }
}

const committedPart = 0x20
const pendingPart = 0x21

export function offsetWrites(fact: OffsetFact): readonly Write[] {
  switch (fact.kind) {
    case 'committed': {
      const { topic, partition } = fact.commit
      return [write(committedPart, `${partition}:${topic}`, StoredOffset, fact.commit)]
    }
    case 'forgotten':
      return [write(committedPart, `${fact.partition}:${fact.topic}`, StoredOffset, null)]
    case 'pending': {
      const { producerId, commit } = fact
      const name = `${producerId}:${commit.partition}:${commit.topic}`
      return [write(pendingPart, name, StoredPendingOffset, { producerId, ...commit })]
    }
    case 'decided': {
      const name = `${fact.producerId}:${fact.partition}:${fact.topic}`
      return [write(pendingPart, name, StoredPendingOffset, null)]
    }
  }
}

export const offsetParts: ReadonlyMap<number, Part<OffsetFact>> = new Map([
  [committedPart, part(StoredOffset, (commit): OffsetFact => ({ kind: 'committed', commit }))],
  [
    pendingPart,
    part(
      StoredPendingOffset,
      ({ producerId, ...commit }): OffsetFact => ({ kind: 'pending', producerId, commit })
    )
  ]
])

function* each(byTopic: ByTopic | undefined): Generator<Committed, void, undefined> {
  for (const partitions of byTopic?.values() ?? []) yield* partitions.values()
}

function set(byTopic: ByTopic, commit: Committed): void {
  const partitions = byTopic.get(commit.topic)
  if (partitions === undefined) byTopic.set(commit.topic, new Map([[commit.partition, commit]]))
  else partitions.set(commit.partition, commit)
}

function remove(byTopic: ByTopic, topic: string, partition: number): void {
  const partitions = byTopic.get(topic)
  partitions?.delete(partition)
  if (partitions?.size === 0) byTopic.delete(topic)
}
