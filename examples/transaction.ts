/**
 * Read, process, write, each record once: what is written and how far it was read become true together, or not at all.
 *
 *   npm run build && PLAYHEAD_BOOTSTRAP=127.0.0.1:9092 node build/examples/transaction.js
 *
 * In a project of your own the import is: import { Playhead, string } from 'playhead'
 */
import { Playhead, string } from '../src/index.ts'

const bootstrap = (process.env.PLAYHEAD_BOOTSTRAP ?? '127.0.0.1:9092').split(',')
await using kafka = new Playhead({ bootstrap, clientId: 'invoicing' })
const orders = `orders-${process.pid}`
const invoices = `invoices-${process.pid}`
await kafka.admin().createTopics([
  { topic: orders, partitions: 1 },
  { topic: invoices, partitions: 1 }
])
await using source = kafka.producer()
await source.sendMany(
  orders,
  ['a', 'b', 'c'].map(value => ({ value }))
)

await using producer = kafka.producer({ transactionalId: `invoicing-${process.pid}` })
await using consumer = kafka.consumer({
  group: orders,
  topics: [orders],
  value: string,
  commit: 'manual'
})
let done = 0
while (done < 3) {
  const records = await consumer.poll({ timeoutMs: 1_000 })
  if (records.length === 0) continue
  await producer.transaction(async tx => {
    await tx.sendMany(
      invoices,
      records.map(({ value }) => ({ value: `invoice for ${value}` }))
    )
    await tx.commitOffsets(consumer)
  })
  done += records.length
}
console.log(`${done} orders are invoiced`)

await using reader = kafka.consumer({
  assign: [{ topic: invoices, partition: 0, offset: 'earliest' }],
  value: string
})
let read = 0
for await (const { value } of reader) {
  console.log(value)
  if (++read === done) break
}
