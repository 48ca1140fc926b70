import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseDuration, parseTarget, parseTime, timestampOf } from '../../src/client/time.ts'

const now = Date.UTC(2026, 10, 30, 13, 45, 20)
const wrong = { code: 'INVALID_ARGUMENT' }

test('durations are what people write', () => {
  assert.equal(parseDuration('2h'), 7_200_000)
  assert.equal(parseDuration('1.5m'), 90_000)
  assert.equal(parseDuration('250ms'), 250)
  assert.equal(parseDuration('1w'), 7 * parseDuration('1d'))
  assert.equal(parseDuration(42), 42)
  for (const text of ['2', '-2h', '2 h', 'h', '', '2y', '1e3s']) {
    assert.throws(() => parseDuration(text), wrong, text)
  }
  assert.throws(() => parseDuration(-1), wrong)
  assert.throws(() => parseDuration(Number.NaN), wrong)
})

test('a time has a zone, or is refused', () => {
  const noon = Date.UTC(2026, 9, 1, 12)
  const same = ['2026-10-01T12:00Z', '2026-10-01 12:00:00.000Z', '2026-10-01T14:00:00+02:00']
  for (const text of [...same, '2026-10-01T14:00+0200', '2026-10-01t14:00+02', `@${noon}`]) {
    assert.equal(parseTime(text, now), noon, text)
  }
  assert.equal(parseTime('2026-10-01Z', now), Date.UTC(2026, 9, 1))
  assert.throws(() => parseTime('2026-10-01T12:00', now), /of which zone\? .*2026-10-01T12:00Z/)
  for (const text of ['2026-02-30T12:00Z', 'yesterday', '', '1764510212345', '2026-13-01Z']) {
    assert.throws(() => parseTime(text, now), wrong, text)
  }
})

test('a time round trips through ISO 8601', () => {
  const dates = fc.date({ min: new Date(0), max: new Date('9999-01-01'), noInvalidDate: true })
  fc.assert(fc.property(dates, date => parseTime(date.toISOString(), now) === date.getTime()))
})

test('a time of day is the last time that this clock showed it', () => {
  fc.assert(
    fc.property(fc.nat(23), fc.nat(59), (hours, minutes) => {
      const text = `${hours}:${String(minutes).padStart(2, '0')}`
      const ms = parseTime(text, now)
      assert.ok(ms <= now && now - ms < 25 * 3_600_000)
      assert.deepEqual([new Date(ms).getHours(), new Date(ms).getMinutes()], [hours, minutes])
    })
  )
  assert.throws(() => parseTime('24:00', now), wrong)
})

test('a moment is a time or a while ago', () => {
  assert.equal(timestampOf({ ago: '2h' }, now), now - 7_200_000)
  assert.equal(timestampOf({ ago: '99999w' }, now), 0)
  assert.equal(timestampOf({ time: new Date(5) }, now), 5)
  assert.throws(() => timestampOf({ time: new Date(Number.NaN) }, now), wrong)
})

test('a target on the command line means one thing', () => {
  assert.deepEqual(parseTarget('2h', now), { ago: '2h' })
  assert.deepEqual(parseTarget('4711', now), { offset: 4711 })
  assert.deepEqual(parseTarget('-100', now), { shift: -100 })
  assert.deepEqual(parseTarget('+5', now), { shift: 5 })
  assert.deepEqual(parseTarget('@5', now), { time: 5 })
  assert.equal(parseTarget('earliest', now), 'earliest')
  assert.deepEqual(parseTarget('2026-10-01Z', now), { time: Date.UTC(2026, 9, 1) })
  for (const text of ['9007199254740993', '2y', '', 'Earliest', '--5']) {
    assert.throws(() => parseTarget(text, now), wrong, text)
  }
})
