/**
 * How long the rewind of a quiet live group takes: from `admin.rewind` until its owner's acknowledgement was read. The
 * owner looks every rewindCheckMs, so half of that is expected; the goal is rewindCheckMs + 200 ms at the median.
 *
 *   node build/bench/rewind.js [bootstrap = 127.0.0.1:9092] [rounds = 21] [rewindCheckMs = 1000]
 */
import { Playhead } from '../src/index.ts'

const [bootstrap = '127.0.0.1:9092', rounds = '21', check = '1000'] = process.argv.slice(2)
const rewindCheckMs = Number(check)
const partitions = 6
const records = 100

const client = new Playhead({ bootstrap: bootstrap.split(','), clientId: 'bench-rewind' })
const admin = client.admin()
const topic = `bench-rewind-${Date.now()}`
const group = topic
await admin.createTopics([{ topic, partitions }])
const producer = client.producer()
await producer.sendMany(
  Array.from({ length: partitions * records }, (_, n) => ({
    topic,
    partition: n % partitions,
    value: Buffer.from(`${n}`)
  }))
)

let got = 0
const consumer = client.consumer({ group, topics: [topic], rewindCheckMs, commitIntervalMs: 100 })
const reading = (async () => {
  for await (const { offset } of consumer) if (offset >= 0) got++
})()
await quiet(partitions * records)

const took: number[] = []
for (let round = 0; round < Number(rounds); round++) {
  // At any moment between two of the owner's looks.
  await new Promise(resolve => setTimeout(resolve, Math.random() * rewindCheckMs))
  const plan = await admin.planRewind(group, { to: { offset: records - 1 } })
  const before = got
  const startedAt = performance.now()
  await admin.rewind(plan)
  took.push(performance.now() - startedAt)
  await quiet(before + partitions)
}
took.sort((a, b) => a - b)
const at = (share: number) => Math.round(took[Math.floor((took.length - 1) * share)] ?? Number.NaN)
process.stdout.write(
  `rewind of ${partitions} partitions, rewindCheckMs ${rewindCheckMs}, ${rounds} rounds: ` +
    `median ${at(0.5)} ms, 90 % ${at(0.9)} ms, most ${at(1)} ms\n`
)

await consumer.close()
await reading
await producer.close()
await admin.deleteGroups([group])
await admin.deleteTopics([topic])
await client.close()

/** Resolves once `count` records were read and all of it is committed. */
function quiet(count: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = async (): Promise<void> => {
      const lag = got >= count ? await admin.lag(group) : []
      if (lag.length === partitions && lag.every(p => p.committed === records)) return resolve()
      setTimeout(() => look().catch(reject), 20)
    }
    look().catch(reject)
  })
}
