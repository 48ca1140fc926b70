/** Committed offsets: of two commits of a partition the later one counts, however transactions end. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  type OffsetFact,
  type Offsets,
  applyOffset,
  commit,
  endTransaction,
  expire,
  forget,
  noOffsets,
  offsetOf,
  offsetParts,
  offsetWrites,
  undecided
} from '../../src/group/offsets/offsets.ts'
import { readStored, writeStored } from '../../src/broker/stored.ts'

const topicId = 'AAAAAAAAAAAAAAAAAAAAAQ'
const day = 86_400_000

function one(partition: number, offset: number, topic = 't') {
  return { topic, topicId, partition, offset, leaderEpoch: 0, metadata: null }
}

/** Offsets, and what is stored of them. */
class Kept {
  offsets = noOffsets()
  readonly stored = new Map<string, { part: number; value: Buffer }>()

  take(facts: readonly OffsetFact[]): void {
    for (const fact of facts) {
      applyOffset(this.offsets, fact)
      for (const { part, name, message, value } of offsetWrites(fact)) {
        if (value === null) this.stored.delete(`${part}:${name}`)
        else this.stored.set(`${part}:${name}`, { part, value: writeStored(message, value) })
      }
    }
  }

  plain(partition: number, offset: number, nowMs = 0): void {
    this.take(commit(this.offsets, [one(partition, offset)], { nowMs }).facts)
  }

  pending(producerId: bigint, partition: number, offset: number): void {
    this.take(commit(this.offsets, [one(partition, offset)], { nowMs: 0, producerId }).facts)
  }

  end(producerId: bigint, committed: boolean): void {
    this.take(endTransaction(this.offsets, producerId, committed))
  }

  replayed(): Offsets {
    const offsets = noOffsets()
    for (const { part, value } of this.stored.values()) {
      const known = offsetParts.get(part)
      assert(known)
      applyOffset(offsets, known.fact(readStored(known.message, value) as never))
    }
    return offsets
  }

  at(partition: number): number | undefined {
    return offsetOf(this.offsets, 't', partition)?.offset
  }
}

test('a commit in a transaction counts when that is committed, and not when it is aborted', () => {
  const kept = new Kept()
  kept.plain(0, 1)
  kept.pending(7n, 0, 5)
  kept.pending(8n, 1, 6)
  assert.deepEqual([kept.at(0), kept.at(1)], [1, undefined])
  assert(undecided(kept.offsets, 't', 0))
  kept.end(7n, true)
  kept.end(8n, false)
  assert.deepEqual([kept.at(0), kept.at(1)], [5, undefined])
  assert(!undecided(kept.offsets, 't', 0))
})

test('a plain commit made after one in a transaction survives the transaction’s end', () => {
  const kept = new Kept()
  kept.pending(7n, 0, 5)
  kept.plain(0, 3)
  kept.end(7n, true)
  assert.equal(kept.at(0), 3)
})

test('an offset is kept for its retention, and longer while a transaction is undecided or the group says so', () => {
  const kept = new Kept()
  kept.plain(0, 1)
  kept.plain(1, 1, day)
  kept.pending(7n, 0, 5)
  const late = (nowMs: number, from: number | null = null) =>
    expire(kept.offsets, nowMs, 7 * day, (_topic, at) => from ?? at).length
  assert.equal(late(8 * day - 1), 0, 'the first is undecided, the second not old enough')
  assert.equal(late(8 * day), 1)
  kept.end(7n, false)
  assert.equal(late(8 * day), 2)
  assert.equal(late(8 * day, 2 * day), 0, 'from when the group became empty')
  assert.equal(expire(kept.offsets, 99 * day, 7 * day, () => null).length, 0)
})

test('a client of before 2019 says itself how long its offsets are kept', () => {
  const kept = new Kept()
  kept.take(commit(kept.offsets, [one(0, 1)], { nowMs: 0, retentionMs: 10 }).facts)
  assert.equal(expire(kept.offsets, 9, 7 * day, () => 0).length, 0)
  assert.equal(expire(kept.offsets, 10, 7 * day, () => 0).length, 1)
})

test('what is forgotten is gone from transactions too', () => {
  const kept = new Kept()
  kept.plain(0, 1)
  kept.pending(7n, 1, 5)
  kept.take(forget(kept.offsets, ({ topic }) => topic === 't'))
  kept.end(7n, true)
  assert.deepEqual([kept.at(0), kept.at(1), kept.stored.size], [undefined, undefined, 0])
})

const step = fc.oneof(
  fc.record({ do: fc.constant('plain' as const), partition: fc.nat({ max: 2 }), offset: fc.nat() }),
  fc.record({
    do: fc.constant('pending' as const),
    by: fc.nat({ max: 1 }),
    partition: fc.nat({ max: 2 }),
    offset: fc.nat()
  }),
  fc.record({ do: fc.constant('end' as const), by: fc.nat({ max: 1 }), committed: fc.boolean() }),
  fc.record({ do: fc.constant('restart' as const) })
)

test('the last of all commits that count is the one that is there, as a log would have it', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), steps => {
      const kept = new Kept()
      /** Every commit as a record: Kafka's log, where a marker makes what is before it count. */
      const log: { partition: number; offset: number; by: number; counts: boolean }[] = []
      for (const one of steps) {
        if (one.do === 'plain') {
          kept.plain(one.partition, one.offset)
          log.push({ ...one, by: -1, counts: true })
        } else if (one.do === 'pending') {
          kept.pending(BigInt(one.by), one.partition, one.offset)
          log.push({ ...one, counts: false })
        } else if (one.do === 'end') {
          kept.end(BigInt(one.by), one.committed)
          for (const record of log) {
            if (record.by !== one.by || record.counts) continue
            record.counts = one.committed
            record.by = -1
          }
        } else kept.offsets = kept.replayed()
        for (const partition of [0, 1, 2]) {
          const last = log.filter(record => record.partition === partition && record.counts).at(-1)
          assert.equal(kept.at(partition), last?.offset)
        }
        assert.deepEqual(kept.replayed().committed, kept.offsets.committed)
      }
    })
  )
})

test('a retention beyond what can be stored is for ever', () => {
  const kept = new Kept()
  const how = { nowMs: 1_000, retentionMs: Number.MAX_SAFE_INTEGER }
  kept.take(commit(kept.offsets, [one(0, 1)], how).facts)
  assert.equal(expire(kept.offsets, Number.MAX_SAFE_INTEGER - 1, 7 * day, () => 0).length, 0)
})
