/**
 * A running group is rewound from outside: plan, look at it, carry it out with progress, list, undo.
 *
 *   npm run build && PLAYHEAD_BOOTSTRAP=127.0.0.1:9092 node build/examples/rewind.js
 *
 * In a project of your own the import is: import { Playhead, string } from 'playhead'
 */
import { Playhead, string } from '../src/index.ts'

const bootstrap = (process.env.PLAYHEAD_BOOTSTRAP ?? '127.0.0.1:9092').split(',')
await using kafka = new Playhead({ bootstrap, clientId: 'operator' })
const admin = kafka.admin()

const topic = `payments-${process.pid}`
const group = topic
await admin.createTopics([{ topic, partitions: 2 }])
await using producer = kafka.producer()
await producer.sendMany(
  topic,
  Array.from({ length: 20 }, (_, i) => ({ value: `payment ${i}`, partition: i % 2 }))
)

await using consumer = kafka.consumer({
  group,
  topics: [topic],
  value: string,
  rewindCheckMs: 100,
  commitIntervalMs: 100
})
let seen = 0
const { promise: allSeen, resolve: gotAll } = withResolvers()
const running = consumer.run(() => {
  if (++seen === 20) gotAll()
})
await allSeen
// The last handler may not have returned yet.
while ((await admin.lag(group)).some(({ lag }) => lag !== 0)) await consumer.commit()

const plan = await admin.planRewind(group, {
  partitions: [{ topic, partition: 0 }],
  to: { offset: 4 }
})
for (const { partition, committed, target, again } of plan.partitions) {
  console.log(`partition ${partition}: from ${committed} to ${target}, ${again} again`)
}
const result = await admin.rewind(plan, { reason: 'wrong rate', timeoutMs: 10_000 })
console.log(result.partitions.map(({ partition, state }) => `partition ${partition} ${state}`))

const [last] = await admin.rewinds(group)
console.log(`the newest rewind is by ${last?.who}: ${last?.reason}`)

const undone = await admin.undoRewind(group)
console.log(`undone: partition 0 goes on at ${undone.partitions[0]?.to}`)

await consumer.close()
await running

function withResolvers() {
  let resolve = () => {}
  const promise = new Promise<void>(settle => {
    resolve = settle
  })
  return { promise, resolve }
}
