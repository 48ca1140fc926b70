/**
 * Handlers at once, in order by key, that are called again when they fail; what fails for good goes to a topic of its own.
 *
 *   npm run build && PLAYHEAD_BOOTSTRAP=127.0.0.1:9092 node build/examples/handlers.js
 *
 * In a project of your own the import is: import { Playhead, string } from 'playhead'
 */
import { Playhead, string } from '../src/index.ts'

const bootstrap = (process.env.PLAYHEAD_BOOTSTRAP ?? '127.0.0.1:9092').split(',')
await using kafka = new Playhead({ bootstrap, clientId: 'handlers' })
const orders = `orders-${process.pid}`
const dead = `${orders}.dead`
await kafka.admin().createTopics([
  { topic: orders, partitions: 2 },
  { topic: dead, partitions: 1 }
])
await using producer = kafka.producer()
await producer.sendMany(
  orders,
  ['good', 'shaky', 'bad'].map(value => ({ key: value, value }))
)

await using consumer = kafka.consumer({ group: orders, topics: [orders], value: string })
const said: string[] = []
let bothAreHandled = (): void => {}
const handled = new Promise<void>(resolve => {
  bothAreHandled = resolve
})
const running = consumer.run(
  ({ value }, { attempt }) => {
    if (value === 'bad') throw new Error('this will never do')
    if (value === 'shaky' && attempt < 3) throw new Error('not now')
    said.push(`${value} is handled, at attempt ${attempt}`)
    if (said.length === 2) bothAreHandled()
  },
  {
    concurrency: 8,
    order: 'key',
    retry: { attempts: 3, firstMs: 10 },
    deadLetters: dead
  }
)

await using reader = kafka.consumer({
  assign: [{ topic: dead, partition: 0, offset: 'earliest' }],
  value: string
})
for await (const { value, headers } of reader) {
  const why = headers.find(({ key }) => key === 'dead-letter.error')?.value
  console.log(`${value} is a dead letter: ${String(why)}`)
  break
}
await handled
await consumer.close()
await running
for (const line of said.sort()) console.log(line)
