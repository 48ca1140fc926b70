/**
 * The README's first example, whole: produce, consume in a group, and rewind the group while it runs.
 *
 *   npm run build && PLAYHEAD_BOOTSTRAP=127.0.0.1:9092 node build/examples/quickstart.js
 *
 * In a project of your own the import is: import { Playhead, json, string } from 'playhead'
 */
import { Playhead, json, string } from '../src/index.ts'

interface Order {
  readonly sum: number
}

const bootstrap = (process.env.PLAYHEAD_BOOTSTRAP ?? '127.0.0.1:9092').split(',')
await using kafka = new Playhead({ bootstrap, clientId: 'billing' })

const topic = `orders-${process.pid}`
await kafka.admin().createTopics([{ topic, partitions: 3 }])

await using producer = kafka.producer({ compression: 'zstd' })
const orders = Array.from({ length: 10 }, (_, i) => ({
  key: `customer-${i % 4}`,
  value: JSON.stringify({ sum: i })
}))
const written = await producer.sendMany(topic, orders)
console.log(`wrote ${written.length} orders`)

await using consumer = kafka.consumer({
  group: topic,
  topics: [topic],
  startFrom: 'earliest',
  key: string,
  value: json<Order>(),
  rewindCheckMs: 100,
  onRewind: ({ partitions, by, reason }) => {
    console.log(`rewound ${partitions.length} partitions, by ${by}: ${reason}`)
  }
})

let billed = 0
let sum = 0
let rewinding: Promise<unknown> = Promise.resolve()
for await (const record of consumer) {
  billed++
  sum += record.value?.sum ?? 0
  if (billed === 10) {
    console.log(`billed ${billed} orders, sum ${sum}`)
    const plan = await kafka.admin().planRewind(topic, { topics: [topic], to: 'earliest' })
    // Not awaited here: the owner of the partitions is this very loop.
    rewinding = kafka.admin().rewind(plan, { reason: 'bug 123' })
  }
  if (billed === 20) break
}
await rewinding
console.log(`billed them once more: ${billed}, sum ${sum}`)
