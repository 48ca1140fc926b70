import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  asciiText,
  checkEntry,
  encodeCommit,
  isOfAnother,
  encodeEntry,
  endOf,
  isRewindable,
  maxMetadataUnits,
  nextSequence,
  noSequence,
  parseCommit,
  parseEntry,
  type RewindEntry,
  type Sequence
} from '../../src/protocol/embedded/rewind-envelope.ts'

const offset = fc.oneof(fc.maxSafeNat(), fc.constantFrom(0, 1, Number.MAX_SAFE_INTEGER))
const tag = fc.string({
  unit: fc.constantFrom(...'0123456789abcdefghijklmnopqrstuvwxyz'),
  minLength: 4,
  maxLength: 4
})
const sequence = fc
  .tuple(fc.integer({ min: 1, max: 9_999_999_999_999 }), tag, fc.boolean())
  .map(([ms, end, dot]) => `${String(ms).padStart(13, '0')}${end}${dot ? '.' : ''}`)
const topicId = fc.uint8Array({ minLength: 16, maxLength: 16 }).map(bytes => {
  return Buffer.from(bytes).toString('base64url')
})
const replay = fc.option(fc.tuple(offset, offset))
const entries: fc.Arbitrary<RewindEntry> = fc
  .record({
    sequence,
    state: fc.constantFrom('pending' as const, 'done' as const, 'cancelled' as const),
    topicId,
    created: fc.integer({ min: 0, max: 9_999_999_999_999 }),
    lifetimeS: fc.integer({ min: 1, max: 99_999_999 }),
    target: offset,
    before: fc.option(
      fc
        .record({
          offset,
          sequence: fc.oneof(sequence, fc.constant(noSequence), fc.constant(null))
        })
        .map(before => ({ ...before }))
    ),
    replay,
    who: fc.string({ unit: 'grapheme', maxLength: 30 }),
    reason: fc.string({ unit: 'grapheme', maxLength: 250 })
  })
  .map(({ lifetimeS, replay: window, ...rest }) => ({
    ...rest,
    expires: rest.created + lifetimeS * 1000,
    until: window?.[0] ?? null,
    resume: window?.[1] ?? null
  }))

test('an entry comes back as it was written, in at most 200 characters of ASCII', () => {
  fc.assert(
    fc.property(entries, entry => {
      checkEntry(entry)
      const text = encodeEntry(entry)
      assert.match(text, /^[ -~]{1,200}$/)
      const read = parseEntry(text, entry.target)
      assert.ok(read)
      const { who, reason, ...facts } = entry
      const { who: readWho, reason: readReason, ...readFacts } = read
      assert.deepEqual(readFacts, facts)
      assert.ok(asciiText(who, 20).startsWith(readWho))
      assert.ok(asciiText(reason, 200).startsWith(readReason))
    })
  )
})

test('an entry whose target is not the committed offset is none', () => {
  fc.assert(
    fc.property(entries, offset, (entry, committed) => {
      fc.pre(committed !== entry.target)
      assert.equal(parseEntry(encodeEntry(entry), committed), null)
    })
  )
})

test('one changed, missing or added character never makes another sequence, target or window out of it', () => {
  fc.assert(
    fc.property(entries, fc.nat(), fc.string({ maxLength: 2 }), (entry, at, put) => {
      const text = encodeEntry(entry)
      const head = text.replace(/;[wm]=.*$/, '')
      const cut = at % head.length
      const damaged = head.slice(0, cut) + put + head.slice(cut + 1)
      const read = parseEntry(damaged, entry.target)
      if (read) assert.equal(read.target, entry.target)
    })
  )
})

test('strange text is no entry and no mark', () => {
  const strange = ['', 'ph1', 'ph1;s=0|', 'ph2;s=1764510212345k3f9;pending', '__proto__', '\0']
  for (const text of strange) assert.equal(parseEntry(text, 0), null)
  const known = 'ph1;s=1764510212345k3f9;pending;t=AAAAAAAAAAAAAAAAAAAAAA;c=1764510212345;x=86400'
  assert.ok(parseEntry(`${known};o=42;f=4711@0;u=50;r=4711;w=ops;m=bug 123`, 42))
  for (const wrong of [
    `${known};o=042`,
    `${known};o=42;`,
    `${known};o=42\n`,
    `${known};o=42;u=50`,
    `${known};o=42;r=50;u=50`,
    `${known};o=42;z=1`,
    `${known};o=42;w=a;w=b`,
    `${known};o=9007199254740992`,
    known.replace('pending', 'perhaps')
  ]) {
    assert.equal(parseEntry(wrong, 42), null, wrong)
  }
  fc.assert(fc.property(fc.string(), text => parseEntry(text, 0) === null))
})

test("the application's own metadata come back unchanged, whatever they are", () => {
  fc.assert(
    fc.property(
      fc.oneof(sequence, fc.constant(noSequence)),
      fc.option(offset),
      fc.oneof(
        fc.string(),
        fc.string({ unit: 'binary' }),
        sequence.map(s => `ph1;s=${s}|`)
      ),
      fc.option(topicId),
      fc.option(fc.record({ until: offset, resume: offset }, { noNullPrototype: true })),
      (last, from, application, id, window) => {
        const mark = { sequence: last, from, ...(window && { window }) }
        const read = parseCommit(encodeCommit(mark, application, id ?? undefined))
        assert.deepEqual(read, { mark, application, topicId: id })
      }
    )
  )
})

test("a commit without our mark is somebody else's", () => {
  const foreign = (application: string) => ({ mark: null, application, topicId: null })
  assert.deepEqual(parseCommit(null), foreign(''))
  assert.deepEqual(parseCommit('mine'), foreign('mine'))
  const huge = 'ph1;s=0;f=9999999999999999|'
  assert.deepEqual(parseCommit(huge), foreign(huge))
})

test('a commit is of another topic only when both ids are known, and differ', () => {
  const [none, one, two] = ['A', 'B', 'C'].map(letter => letter.repeat(22))
  assert(none !== undefined && one !== undefined && two !== undefined)
  const of = (id: string) => encodeCommit({ sequence: noSequence, from: null }, 'mine', id)
  assert.equal(isOfAnother(of(one), two), true)
  for (const [metadata, id] of [
    [of(one), one],
    [of(one), none],
    [of(none), one],
    ['mine', one],
    [null, one]
  ] as const) {
    assert.equal(isOfAnother(metadata, id), false, `${metadata} of ${id}`)
  }
})

test('metadata that Kafka would refuse are refused here, by UTF-16 units', () => {
  const room = maxMetadataUnits - 'ph1;s=0|'.length
  const mark = { sequence: noSequence, from: null }
  assert.equal(encodeCommit(mark, '😀'.repeat(room / 2)).length, maxMetadataUnits)
  assert.throws(() => encodeCommit(mark, 'x'.repeat(room + 1)), { code: 'TOO_LARGE' })
})

test('the next sequence is after everything seen and after the clock, also when clocks go wrong', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 4_000_000_000_000 }),
      fc.array(sequence.filter(s => s < '9999999999998')),
      tag,
      (now, seen, chance) => {
        const next = nextSequence(now, seen, chance)
        for (const other of seen) assert.ok(next > other)
        assert.ok(next > String(now).padStart(13, '0'))
        assert.ok(next > noSequence)
      }
    )
  )
  assert.throws(() => nextSequence(0, ['9999999999999aaaa'], 'aaaa'), { code: 'REWIND_REFUSED' })
})

test("a replay's end is after the replay and before whatever comes later", () => {
  fc.assert(
    fc.property(sequence, sequence, (a: Sequence, b: Sequence) => {
      fc.pre(!a.endsWith('.') && a.slice(0, 17) < b.slice(0, 17))
      assert.ok(a < endOf(a) && endOf(a) < b)
    })
  )
})

test('a member says that it can be rewound by its id or its user data', () => {
  assert.equal(isRewindable({ memberId: 'ph1-4f1c' }), true)
  assert.equal(isRewindable({ memberId: 'billing-4f1c', userData: Buffer.from('ph1-') }), true)
  assert.equal(isRewindable({ userData: Buffer.from('\0\0\0\x07ph1-') }), true)
  assert.equal(isRewindable({ userData: Buffer.from('\0\0\0\x07') }), false)
  assert.equal(isRewindable({ memberId: 'billing-4f1c', userData: Buffer.from('ph') }), false)
  assert.equal(isRewindable({ memberId: 'billing-4f1c', userData: null }), false)
})
