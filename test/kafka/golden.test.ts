/**
 * The golden files are only worth what they say of Kafka. Kafka's own code, in `scripts/kafka/Golden.java`,
 * writes each of their lines again.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { goldenLines } from '../golden/golden.ts'
import { java } from './cluster.ts'

for (const file of [
  'messages.jsonl',
  'vectors.jsonl',
  'records.jsonl',
  'murmur2.tsv',
  'assignments.jsonl',
  'subscriptions.jsonl'
]) {
  test(`each line of ${file} is what Kafka's own code says`, async () => {
    const lines = goldenLines(file)
    const [name = ''] = file.split('.')
    const again = await java('Golden.java', [name], `${lines.join('\n')}\n`)
    assert.deepEqual(again.trimEnd().split('\n'), lines)
  })
}
