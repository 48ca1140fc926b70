import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { SeededRandom } from '../../sim/world/random.ts'
import { murmur2, partitionOfKey, StickyPartition } from '../../src/client/producer/partitioner.ts'

test('keys hash, and choose of 12 partitions, as in Kafka’s own code', () => {
  const lines = readFileSync('test/golden/murmur2.tsv', 'utf8').trimEnd().split('\n')
  assert.equal(lines.length, 300)
  for (const line of lines) {
    const [hex = '', hash, partition] = line.split('\t')
    const key = Buffer.from(hex, 'hex')
    assert.equal(murmur2(key), Number(hash), hex)
    assert.equal(partitionOfKey(key, 12), Number(partition), hex)
  }
})

test('a key as a string goes where its UTF-8 goes', () => {
  for (const key of ['', 'a', 'größer', '日本', '🦊fox', 'x'.repeat(5000), 'ü'.repeat(1365)]) {
    assert.equal(partitionOfKey(key, 1009), partitionOfKey(Buffer.from(key), 1009))
  }
})

test('the sticky partition moves on only after its share, and only when a batch has ended', () => {
  const sticky = new StickyPartition({ next: () => 0 }, 100)
  const other = [7, 8]
  assert.equal(sticky.choose([3, 4]), 3)
  sticky.grew(99)
  sticky.batchEnded(3)
  assert.equal(sticky.choose(other), 3, 'a small batch ended: it stays')
  sticky.grew(1)
  assert.equal(sticky.choose(other), 3, 'the share is reached in the midst of a batch: it stays')
  sticky.batchEnded(4)
  assert.equal(sticky.choose(other), 3, 'a batch of another partition says nothing')
  sticky.batchEnded(3)
  assert.equal(sticky.choose(other), 7)
})

test('sticky choices spread evenly over the partitions', () => {
  const sticky = new StickyPartition(new SeededRandom(1), 1)
  const counts = [0, 0, 0, 0]
  for (let i = 0; i < 8000; i++) {
    const partition = sticky.choose([0, 1, 2, 3])
    counts[partition] = (counts[partition] ?? 0) + 1
    sticky.grew(1)
    sticky.batchEnded(partition)
  }
  for (const count of counts) assert.ok(count > 1800 && count < 2200, `${counts}`)
})
