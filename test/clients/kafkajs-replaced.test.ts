/** A team moves from kafkajs: its running group is replaced one process at a time, and can be rewound once it is ours. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Consumer } from '../../src/index.ts'
import { Playhead, string } from '../../src/index.ts'
import { unique } from '../broker/group-wire.ts'
import { Agent, clients } from './agent.ts'
import { EmbeddedProcess } from './embedded.ts'

let broker: EmbeddedProcess
let client: Playhead

before(async () => {
  broker = await EmbeddedProcess.start(3)
  client = new Playhead({ bootstrap: broker.bootstrap, clientId: 'playhead' })
})

after(async () => {
  await client.close()
  await broker.close()
})

test('a running kafkajs group is replaced one process at a time, without a word of configuration: each record is handled', async t => {
  const [topic, group] = [unique('orders'), unique('billing')]
  const admin = client.admin()
  await admin.createTopics([{ topic, partitions: 6 }])
  const producer = client.producer()
  let sent = 0
  const produce = async (): Promise<void> => {
    const values = Array.from({ length: 60 }, () => ({ value: String(sent++) }))
    await producer.sendMany(values.map(({ value }, i) => ({ topic, partition: i % 6, value })))
  }
  const theirs = [1, 2, 3].map(
    () => new Agent(clients.kafkajs, broker.bootstrap, { role: 'consume', topic, group })
  )
  t.after(() => Promise.all(theirs.map(agent => agent.kill())))
  await produce()
  for (const agent of theirs) await agent.until('two each', ({ assigned }) => assigned.length === 2)

  const ours: Consumer<Buffer, string>[] = []
  const handled: string[] = []
  const loops: Promise<void>[] = []
  const all = () => new Set([...handled, ...theirs.flatMap(({ got }) => got.map(r => r.value))])
  let heard = (): void => {}
  const allHandled = async (): Promise<void> => {
    const late = new Promise<void>((_, reject) =>
      setTimeout(() => reject(new Error(`${all().size} of ${sent} were handled`)), 60_000).unref()
    )
    for (const agent of theirs) agent.onEvent = () => heard()
    while (all().size < sent) {
      await Promise.race([late, new Promise<void>(resolve => (heard = resolve))])
    }
  }
  for (const agent of theirs) {
    await produce()
    const consumer = client.consumer({ group, topics: [topic], value: string })
    ours.push(consumer)
    const joined = new Promise<void>(resolve => consumer.on('assigned', () => resolve()))
    loops.push(
      consumer.run(record => {
        handled.push(record.value ?? '')
        heard()
      })
    )
    await joined
    assert.equal(consumer.protocol, 'classic', 'as the group is')
    const [described] = await admin.describeGroups([group])
    assert.equal(described?.members.length, 4)
    const plan = await admin.planRewind(group, { topics: [topic], to: 'earliest' })
    await assert.rejects(admin.rewind(plan), { code: 'REWIND_REFUSED', message: /kafkajs/ })
    await produce()
    await agent.stop()
    await produce()
    await allHandled()
  }
  const before = handled.length
  const plan = await admin.planRewind(group, { topics: [topic], to: 'earliest' })
  const { partitions } = await admin.rewind(plan)
  assert.deepEqual(
    partitions.map(({ state }) => state),
    Array(6).fill('applied')
  )
  while (handled.length < before + sent) await new Promise<void>(resolve => (heard = resolve))
  for (const consumer of ours) await consumer.close()
  await Promise.all(loops)
  await producer.close()
  assert.equal(new Set(handled).size, sent, 'all that ever was, once more')
})
