import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { cancelled, done, judge, repaired } from '../../../src/group/ledger/caller.ts'
import {
  type Known,
  planPartition,
  planReplay,
  refusals,
  undoTarget
} from '../../../src/group/ledger/plan.ts'
import {
  type Commit,
  effective,
  isNews,
  readCommit,
  readEntry
} from '../../../src/group/ledger/position.ts'
import {
  encodeCommit,
  encodeEntry,
  type RewindEntry,
  type Sequence
} from '../../../src/protocol/embedded/rewind-envelope.ts'

const topicId = 'B'.repeat(22)
const now = 1_764_510_212_345
const hour = 3_600_000
const earlier: Sequence = '1764510212000aaaa'
const ours: Sequence = '1764510212345aaaa'
const later: Sequence = '1764510213000aaaa'

const entryOf = (rest: Partial<RewindEntry> = {}): RewindEntry => ({
  sequence: ours,
  state: 'pending',
  topicId,
  created: now,
  expires: now + hour,
  target: 50,
  before: { offset: 100, sequence: '0' },
  until: null,
  resume: null,
  who: 'ops',
  reason: '',
  ...rest
})
const commitOf = (
  offset: number,
  sequence: Sequence | null,
  from: number | null = null
): Commit => ({
  offset,
  sequence,
  from,
  window: null,
  application: ''
})

test('a pending rewind comes before the commit, and is to be acknowledged with its sequence', () => {
  const at = effective(commitOf(100, '0'), entryOf(), now)
  assert.deepEqual([at.because, at.offset, at.sequence, at.from], ['rewind', 50, ours, 100])
})

test('once applied, the commit is the position again, wherever it is', () => {
  const at = effective(commitOf(7, ours, 100), entryOf(), now)
  assert.deepEqual([at.because, at.offset, at.sequence, at.from], ['commit', 7, ours, 100])
})

test('a late commit under a done rewind does not count', () => {
  for (const sequence of ['0', earlier]) {
    const at = effective(commitOf(100, sequence), entryOf({ state: 'done' }), now + 99 * hour)
    assert.deepEqual([at.because, at.offset, at.sequence], ['rewind', 50, ours])
  }
})

test('a reset by another tool counts, is told apart from the bare commit of before, and stays', () => {
  const before = { offset: 100, sequence: null }
  assert.equal(effective(commitOf(100, null), entryOf({ before }), now).because, 'rewind')
  for (const entry of [entryOf({ before, state: 'done' }), entryOf()]) {
    const at = effective(commitOf(100, null), entry, now)
    assert.deepEqual([at.because, at.offset], ['external', 100])
    const acknowledged = effective(commitOf(101, at.sequence), entry, now)
    assert.deepEqual([acknowledged.because, acknowledged.offset], ['commit', 101])
  }
})

test('nobody takes up an expired or cancelled rewind, and what it replaced is still covered', () => {
  const before = { offset: 30, sequence: earlier }
  for (const entry of [entryOf({ before }), entryOf({ before, state: 'cancelled' })]) {
    assert.equal(effective(commitOf(40, earlier), entry, now + 2 * hour).offset, 40)
    assert.equal(effective(commitOf(100, '0'), entry, now + 2 * hour).offset, 30)
    assert.equal(isNews(entry, earlier, now + 2 * hour), false)
  }
})

test('a group whose offsets are gone starts at a young entry, and by its reset policy after an old one', () => {
  assert.equal(effective(null, entryOf({ state: 'done' }), now).offset, 50)
  const old = effective(null, entryOf({ state: 'done' }), now + 2 * hour)
  assert.equal(old.because, 'nothing')
  assert.equal(effective(commitOf(0, old.sequence), entryOf({ state: 'done' }), now).offset, 0)
})

test('a replay goes on in its window, and never resumes before where the group was', () => {
  const entry = entryOf({ until: 80, resume: 100 })
  const fresh = effective(commitOf(120, '0'), entry, now)
  assert.deepEqual([fresh.offset, fresh.window], [50, { until: 80, resume: 120 }])
  const inside = effective(commitOf(60, ours, 130), entry, now)
  assert.deepEqual([inside.offset, inside.window], [60, { until: 80, resume: 130 }])
  const sought = effective(commitOf(200, ours, 130), entry, now)
  assert.deepEqual([sought.offset, sought.window], [200, { until: 80, resume: 200 }])
  const over = effective(commitOf(130, `${ours}.`, 130), entry, now)
  assert.deepEqual([over.offset, over.window], [130, null])
  const late = effective(commitOf(60, ours, 130), done(entry, commitOf(130, `${ours}.`)), now)
  assert.deepEqual([late.offset, late.window], [130, null])
})

test('a caller is told what became of its rewind', () => {
  const mine = entryOf()
  const state = (commit: Commit | null, inLedger: RewindEntry | null, at = now) =>
    judge(mine, commit, inLedger, at).state
  assert.equal(state(commitOf(100, '0'), mine), 'pending')
  assert.equal(state(null, mine), 'pending')
  assert.equal(state(commitOf(50, ours), mine), 'applied')
  assert.equal(state(commitOf(50, ours), entryOf({ sequence: later })), 'applied')
  assert.equal(state(commitOf(50, later), mine), 'superseded')
  assert.equal(state(commitOf(100, '0'), entryOf({ sequence: later })), 'superseded')
  assert.equal(state(commitOf(10, null), mine), 'superseded')
  assert.equal(state(commitOf(10, `${ours}.`), mine), 'superseded')
  assert.equal(state(commitOf(100, '0'), entryOf({ sequence: earlier })), 'overwritten')
  assert.equal(state(commitOf(100, '0'), null), 'overwritten')
  assert.equal(state(commitOf(100, '0'), entryOf({ state: 'cancelled' })), 'cancelled')
  assert.equal(state(commitOf(100, '0'), entryOf({ state: 'done' })), 'applied')
  assert.equal(state(commitOf(100, '0'), mine, now + 2 * hour), 'expired')
})

test('whoever wrote over a later rewind puts its force back', () => {
  assert.equal(repaired(entryOf(), commitOf(100, '0')), null)
  const applied = commitOf(30, earlier)
  assert.deepEqual(repaired(entryOf(), applied)?.before, { offset: 30, sequence: earlier })
  const stands = repaired(entryOf(), commitOf(20, later))
  assert.ok(stands)
  assert.deepEqual([stands.sequence, stands.state, stands.target], [later, 'done', 20])
})

test('what is written is what is read, through the two slots', () => {
  const entry = cancelled(entryOf(), commitOf(3, earlier), now)
  assert.deepEqual(readEntry(50, encodeEntry(entry), topicId), entry)
  assert.equal(readEntry(50, encodeEntry(entry), 'C'.repeat(22)), null)
  assert.equal(readEntry(-1, '', topicId), null)
  const metadata = encodeCommit({ sequence: ours, from: 9 }, 'mine')
  const commit = { offset: 5, sequence: ours, from: 9, window: null, application: 'mine' }
  assert.deepEqual(readCommit(5, metadata), commit)
  const window = { until: 20, resume: 30 }
  const replaying = encodeCommit({ sequence: ours, from: 9, window }, 'mine')
  assert.deepEqual(readCommit(5, replaying), { ...commit, window })
  assert.equal(readCommit(-1, ''), null)
})

test('a replay goes on where it was to, though another caller wrote over its entry', () => {
  const window = { until: 60, resume: 100 }
  const commit = { ...commitOf(52, ours, 100), window }
  const overwritten = entryOf({ sequence: earlier, target: 7 })
  const inLedger = repaired(overwritten, commit)
  assert.deepEqual([inLedger?.sequence, inLedger?.until, inLedger?.resume], [ours, 60, 100])
  for (const entry of [overwritten, inLedger, null]) {
    const at = effective(commit, entry, now)
    assert.deepEqual([at.offset, at.sequence, at.window], [52, ours, window])
  }
})

test('a replay on top of a rewind back that nobody had taken up goes on where that leads', () => {
  const entry = entryOf({ target: 0, until: 1, resume: 40, before: { offset: 100, sequence: '0' } })
  const late = effective(commitOf(110, '0'), entry, now)
  assert.deepEqual([late.offset, late.window], [0, { until: 1, resume: 40 }])
  const since = effective(commitOf(110, earlier), { ...entry, sequence: ours }, now)
  assert.deepEqual(since.window, { until: 1, resume: 110 })
})

const known: Known = {
  topic: 'orders',
  topicId,
  partition: 0,
  owner: { memberId: 'ph1-1', clientId: 'billing', host: '/127.0.0.1', rewindable: true },
  commit: commitOf(100, '0'),
  entry: null,
  logStart: 10,
  logEnd: 200
}
const plan = (...partitions: ReturnType<typeof planPartition>[]) => ({
  group: 'g',
  ledger: 'g.rewind',
  kind: 'rewind' as const,
  partitions,
  warnings: []
})

test('a plan keeps to the log and counts what comes again or never comes', () => {
  fc.assert(
    fc.property(fc.integer({ min: -1000, max: 1000 }), wish => {
      const { target, clamped, again, skipped } = planPartition(known, wish, now)
      assert.ok(target >= 10 && target <= 200)
      assert.equal(clamped === null, target === wish)
      assert.equal(again - skipped, 100 - target)
      assert.ok(again === 0 || skipped === 0)
    })
  )
})

test('a foreign owner is refused, and so is skipping unless it is allowed', () => {
  const owner = { memberId: 'rdkafka-1', clientId: 'x', host: '/10.0.0.7', rewindable: false }
  const foreign = refusals(plan(planPartition({ ...known, owner }, 50, now)), true)
  assert.match(foreign[0]?.why ?? '', /rdkafka-1 at \/10\.0\.0\.7/)
  const skip = plan(planPartition(known, 150, now))
  assert.match(refusals(skip, false)[0]?.why ?? '', /skip 50 /)
  assert.deepEqual(refusals(skip, true), [])
})

test('a replay lies before the committed offset, or is none', () => {
  fc.assert(
    fc.property(fc.nat(300), fc.nat(300), (from, until) => {
      const replay = planReplay(known, from, until, now)
      if (!replay) return assert.ok(Math.max(10, from) >= Math.min(until, 100))
      const { target, resume } = replay
      assert.ok(target < (replay.until ?? 0) && (replay.until ?? 0) <= 100 && resume === 100)
    })
  )
  assert.equal(planReplay({ ...known, commit: null }, 20, 30, now), null)
})

test('undo goes to where the owner stood, else to what was committed, else nowhere', () => {
  const applied = entryOf({ state: 'done' })
  assert.equal(undoTarget(commitOf(60, ours, 107), applied), 107)
  assert.equal(undoTarget(commitOf(60, ours, null), applied), 100)
  assert.equal(undoTarget(commitOf(99, '0'), applied), 100)
  assert.equal(undoTarget(commitOf(99, '0'), entryOf()), null)
  assert.equal(undoTarget(commitOf(60, ours, 107), entryOf({ state: 'cancelled' })), null)
})
