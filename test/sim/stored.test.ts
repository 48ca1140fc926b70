/** What is stored as gzip is gzip, and damage to it shows. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { gunzipStored, gzipStored } from '../../sim/world/stored.ts'

test('zlib reads what was stored, and so does its own reader', () => {
  for (const length of [0, 1, 1_000, 65_535, 65_536, 200_000]) {
    const bytes = Buffer.alloc(length, 'playhead ')
    const stored = gzipStored(bytes)
    assert.deepEqual(gunzipSync(stored), bytes)
    assert.deepEqual(gunzipStored(stored, length), bytes)
  }
})

test('each byte that is changed, each end that is missing, and a byte too many are seen', () => {
  const bytes = Buffer.from('one two three')
  const stored = gzipStored(bytes)
  assert.throws(() => gunzipStored(stored, bytes.length - 1))
  for (let i = 0; i < stored.length; i++) {
    assert.throws(() => gunzipStored(stored.subarray(0, i), 1_000), `cut at ${i}`)
    // The length in the trailer follows from the blocks.
    if (i >= stored.length - 4) continue
    const damaged = Buffer.from(stored)
    damaged[i] = (damaged[i] ?? 0) ^ 0x10
    assert.throws(() => gunzipStored(damaged, 1_000), `changed at ${i}`)
  }
})
