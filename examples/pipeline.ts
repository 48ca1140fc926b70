/**
 * Consume, transform, produce, each record exactly once: start as many of these processes as you like, and kill them.
 *
 *   npm run build && PLAYHEAD_BOOTSTRAP=127.0.0.1:9092 node build/examples/pipeline.js
 *
 * In a project of your own the import is: import { json, Playhead, string } from 'playhead'
 */
import { json, Playhead, string } from '../src/index.ts'

interface Order {
  readonly customer: string
  readonly cents: number
}

const bootstrap = (process.env.PLAYHEAD_BOOTSTRAP ?? '127.0.0.1:9092').split(',')
await using kafka = new Playhead({ bootstrap, clientId: 'invoicing' })
const orders = `orders-${process.pid}`
const invoices = `invoices-${process.pid}`
await kafka.admin().createTopics([
  { topic: orders, partitions: 2 },
  { topic: invoices, partitions: 1 }
])
await using source = kafka.producer({ value: json<Order>() })
await source.sendMany(orders, [
  { key: 'ann', value: { customer: 'ann', cents: 250 } },
  { key: 'bob', value: { customer: 'bob', cents: 0 } },
  { key: 'ann', value: { customer: 'ann', cents: 100 } }
])

await using pipeline = kafka.pipeline(
  {
    from: { group: orders, topics: [orders], key: string, value: json<Order>() },
    to: { compression: 'zstd' }
  },
  records =>
    records.flatMap(({ key, value }) => {
      if (value === null || value.cents === 0) return []
      return { topic: invoices, key, value: `${value.customer} owes ${value.cents} cents` }
    })
)
const running = pipeline.run()

await using reader = kafka.consumer({
  assign: [{ topic: invoices, partition: 0, offset: 'earliest' }],
  value: string
})
let read = 0
for await (const { value } of reader) {
  console.log(value)
  if (++read === 2) break
}
await pipeline.close()
await running
