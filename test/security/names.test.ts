/** Names that are legal in Kafka and have a meaning in JavaScript. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Broker } from '../../src/broker.ts'
import { Playhead, string } from '../../src/index.ts'

test('topics and groups named __proto__, constructor and 0 are topics and groups like others', async () => {
  await using broker = await Broker.start()
  await using kafka = new Playhead({ bootstrap: broker.bootstrap, logLevel: 'silent' })
  const names = ['__proto__', 'constructor', '0', 'toString']
  const admin = kafka.admin()
  await admin.createTopics(names.map(topic => ({ topic, partitions: 1 })))
  await using producer = kafka.producer()
  await producer.sendMany(names.map(topic => ({ topic, key: topic, value: topic })))
  for (const name of names) {
    await using consumer = kafka.consumer({ group: name, topics: [name], value: string })
    for await (const record of consumer) {
      assert.deepEqual([record.topic, record.value], [name, name])
      break
    }
    await consumer.close()
    const plan = await admin.planRewind(name, { topics: [name], to: { offset: 0 } })
    const { partitions } = await admin.rewind(plan)
    assert.deepEqual(
      partitions.map(({ topic, to, state }) => [topic, to, state]),
      [[name, 0, 'applied']]
    )
    const [lag] = await admin.lag(name)
    assert.deepEqual([lag?.topic, lag?.committed, lag?.lag], [name, 0, 1])
  }
  const listed = (await admin.listTopics()).map(({ topic }) => topic)
  assert.deepEqual(
    names.filter(name => !listed.includes(name)),
    []
  )
})
