/**
 * Offsets that the application keeps with its results, here a file: no group, and nothing is committed to the brokers.
 *
 *   npm run build && PLAYHEAD_BOOTSTRAP=127.0.0.1:9092 node build/examples/own-offsets.js
 *
 * In a project of your own the import is: import { Playhead, string } from 'playhead'
 */
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Playhead, string } from '../src/index.ts'

/** Results, and where they end: written as one, so that they are true together. */
interface Kept {
  readonly sum: number
  readonly offset: number
  readonly leaderEpoch: number
}

const bootstrap = (process.env.PLAYHEAD_BOOTSTRAP ?? '127.0.0.1:9092').split(',')
await using kafka = new Playhead({ bootstrap, clientId: 'own-offsets' })
const topic = `amounts-${process.pid}`
await kafka.admin().createTopics([{ topic, partitions: 1 }])
const folder = mkdtempSync(join(tmpdir(), 'own-offsets-'))
const file = join(folder, 'kept.json')

function load(): Kept {
  if (!existsSync(file)) return { sum: 0, offset: 0, leaderEpoch: -1 }
  return JSON.parse(readFileSync(file, 'utf8')) as Kept
}

function keep(kept: Kept): void {
  writeFileSync(`${file}.new`, JSON.stringify(kept))
  renameSync(`${file}.new`, file)
}

/** One life of the application: from where the last one was, to the end. */
async function live(): Promise<void> {
  let { sum, offset, leaderEpoch } = load()
  const assign = [{ topic, partition: 0, offset, leaderEpoch }]
  await using consumer = kafka.consumer({ assign, value: string })
  const [{ end } = { end: 0 }] = await consumer.ends([{ topic, partition: 0 }])
  console.log(`from ${offset} to ${end}`)
  for await (const batch of consumer.batches({ maxRecords: 2 })) {
    for (const { value } of batch) sum += Number(value)
    ;({ nextOffset: offset, leaderEpoch } = batch)
    keep({ sum, offset, leaderEpoch })
    if (offset >= end) break
  }
}

await using producer = kafka.producer()
for (const amounts of [
  [1, 2, 3],
  [4, 5]
]) {
  await producer.sendMany(
    topic,
    amounts.map(amount => ({ value: `${amount}` }))
  )
  await live()
}
console.log(`the sum is ${load().sum}`)
rmSync(folder, { recursive: true })
