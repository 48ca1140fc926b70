/**
 * The embedded broker in a test: what does your code do when a broker fails in just this way? Needs no Kafka.
 *
 *   npm run build && node build/examples/faults.js
 *
 * In a project of your own the imports are from 'playhead' and 'playhead/broker'.
 */
import { Broker } from '../src/broker.ts'
import { Playhead } from '../src/index.ts'

await using broker = await Broker.start({ brokers: 2, topics: { orders: 1 } })
await using kafka = new Playhead({ bootstrap: broker.bootstrap, logLevel: 'silent' })
await using producer = kafka.producer()

// It is written, and the answer is lost: the producer sends it again, and the broker knows it already.
broker.control.on('Produce', { topic: 'orders', count: 1 }, 'reset after')
const first = await producer.send('orders', { value: 'a' })
console.log(`a is at ${first.offset}`)

// The leader refuses twice, then another broker leads.
broker.control.on('Produce', { topic: 'orders', count: 2 }, { error: 'NOT_LEADER_OR_FOLLOWER' })
const second = await producer.send('orders', { value: 'b' })
console.log(`b is at ${second.offset}`)
await broker.moveLeader('orders', 0, 2)
const third = await producer.send('orders', { value: 'c' })
console.log(`c is at ${third.offset}`)
