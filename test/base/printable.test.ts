/** Texts for people. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { few } from '../../src/base/printable.ts'

test('of many names a message says the first few, and how many more there are', () => {
  assert.equal(few([]), '')
  assert.equal(few(['a', 'b'], 2), 'a, b')
  assert.equal(few(['a', 'b', 'c', 'd'], 2, '; '), 'a; b and 2 more')
})
