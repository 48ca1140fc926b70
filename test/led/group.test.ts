/** Consumers of groups that a controller leads, on the embedded broker: what applications see. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Broker } from '../../src/broker.ts'
import { type ConsumerRecord, Playhead } from '../../src/index.ts'
import { Crew, reading } from './crew.ts'

describe('a group that a controller leads', () => {
  test('members share the partitions, and go on without stopping when others come and go', async () => {
    await using crew = await Crew.start({ partitions: 4 })
    const a = crew.join()
    await crew.until(() => a.owned.length === 4)
    const b = crew.join()
    await crew.until(() => a.owned.length === 2 && b.owned.length === 2)
    await crew.produce(100)
    await crew.until(() => a.seen.length + b.seen.length === 100)
    await b.consumer.close()
    await crew.until(() => a.owned.length === 4)
    await crew.produce(100)
    await crew.until(() => a.seen.length + b.seen.length === 200)
    crew.assertEachOnce()
  })

  test('a rewind moves its partitions, whoever has them, and nobody else notices', async () => {
    await using crew = await Crew.start({ partitions: 2 })
    const [a, b] = [crew.join(), crew.join()]
    await crew.until(() => a.owned.length === 1 && b.owned.length === 1)
    await crew.produce(60)
    await crew.until(() => a.seen.length + b.seen.length === 60)
    const owner = a.owned[0] === 't/0' ? a : b
    const other = owner === a ? b : a
    const [before, there] = [owner.seen.length, other.seen.length]
    const admin = crew.kafka.admin()
    const plan = await admin.planRewind('g', { to: [{ topic: 't', partition: 0, offset: 10 }] })
    const result = await admin.rewind(plan, { reason: 'bug 123', who: 'ops' })
    assert.equal(result.partitions[0]?.state, 'applied')
    assert.equal(result.partitions[0]?.to, 10)
    await crew.until(() => owner.seen.length === before + 20)
    assert.deepEqual(
      owner.seen.slice(before).map(reading),
      Array.from({ length: 20 }, (_, i) => `t/0@${10 + i}`)
    )
    assert.equal(other.seen.length, there)
    const [rewound] = owner.rewinds
    assert.deepEqual([rewound?.by, rewound?.reason], ['ops', 'bug 123'])
    assert.deepEqual(rewound?.partitions, [
      { topic: 't', partition: 0, from: 30, to: 10, until: null }
    ])
    const [known] = await admin.rewinds('g')
    assert.deepEqual([known?.who, known?.partitions[0]?.state], ['ops', 'applied'])
    const undone = await admin.undoRewind('g')
    assert.equal(undone.partitions[0]?.to, 30)
  })

  test('the loop of the 2013 design: poll, process, rewind from inside', async () => {
    await using crew = await Crew.start({ partitions: 1 })
    await crew.produce(30)
    const consumer = crew.kafka.consumer({ group: 'g', topics: ['t'], protocol: 'controller' })
    const seen: number[] = []
    while (seen.length < 30) {
      for (const { offset } of await consumer.poll({ timeoutMs: 1_000 })) seen.push(offset)
    }
    const { partitions } = await consumer.rewind([{ topic: 't', partition: 0, offset: 25 }])
    assert.equal(partitions[0]?.state, 'applied')
    while (seen.length < 35) {
      for (const { offset } of await consumer.poll({ timeoutMs: 1_000 })) seen.push(offset)
    }
    assert.deepEqual(seen.slice(30), [25, 26, 27, 28, 29])
    await consumer.close()
  })

  test('a rewind that its owner has not taken up is taken back: it goes on where it stood', async () => {
    await using crew = await Crew.start({ partitions: 1 })
    const admin = crew.kafka.admin()
    const a = crew.join()
    await crew.produce(20)
    await crew.until(() => a.seen.length === 20)
    assert.deepEqual(await admin.cancelRewind('g'), [], 'nothing is pending')
    let release = () => {}
    const held = new Promise<void>(resolve => (release = resolve))
    // Told, stopped, about to say so: the last moment.
    const told = new Promise<void>(resolve => {
      crew.broker.control.on('RegisterConsumer', () => {
        resolve()
        return { hold: held }
      })
    })
    const plan = await admin.planRewind('g', { to: [{ topic: 't', partition: 0, offset: 5 }] })
    const called = assert.rejects(admin.rewind(plan), { code: 'ABORTED' })
    await told
    const [pending] = await admin.rewinds('g')
    const other = await admin.cancelRewind('g', { id: '00000000000010000' })
    assert.deepEqual(other, [], 'another one is not pending')
    const [cancelled] = await admin.cancelRewind('g', { id: pending?.id })
    assert.deepEqual(cancelled, { topic: 't', partition: 0, id: pending?.id, state: 'cancelled' })
    await called
    crew.broker.control.clear()
    release()
    await crew.produce(1)
    await crew.until(() => a.seen.length === 21)
    assert.equal(a.seen.at(-1)?.offset, 20)
    assert.deepEqual(a.rewinds, [])
    assert.equal((await admin.rewinds('g'))[0]?.partitions[0]?.state, 'cancelled')
    await assert.rejects(admin.undoRewind('g'), { code: 'REWIND_REFUSED' })
    assert.deepEqual(await admin.cancelRewind('g'), [])
  })

  test('a replay delivers its window once more, then the group goes on where it was', async () => {
    await using crew = await Crew.start({ partitions: 1 })
    const a = crew.join()
    await crew.produce(50)
    await crew.until(() => a.seen.length === 50)
    await a.consumer.commit()
    await crew.kafka.admin().replay('g', {
      from: [{ topic: 't', partition: 0, offset: 10 }],
      until: [{ topic: 't', partition: 0, offset: 20 }]
    })
    await crew.until(() => a.seen.length === 60)
    await crew.produce(5)
    await crew.until(() => a.seen.length === 65)
    assert.deepEqual(
      a.seen.slice(50).map(({ offset }) => offset),
      [...Array.from({ length: 10 }, (_, i) => 10 + i), 50, 51, 52, 53, 54]
    )
  })

  test('topics that appear are read from their beginning, whatever startFrom says', async () => {
    await using crew = await Crew.start({ partitions: 1 })
    await crew.produce(10)
    const a = crew.join({ topics: [/^t.*/], startFrom: 'latest' })
    await crew.until(() => a.owned.length === 1)
    await crew.kafka.admin().createTopics([{ topic: 'tt', partitions: 1 }])
    await crew.produce(7, 'tt')
    await crew.until(() => a.seen.length >= 7)
    assert.deepEqual(
      a.seen.map(({ topic, offset }) => `${topic}@${offset}`),
      Array.from({ length: 7 }, (_, i) => `tt@${i}`)
    )
  })

  test('a controller that moves is found again, and nothing is delivered twice', async () => {
    await using crew = await Crew.start({ partitions: 2, brokers: 3 })
    const [a, b] = [crew.join(), crew.join()]
    await crew.until(() => a.owned.length === 1 && b.owned.length === 1)
    for (const node of [1, 2, 3]) {
      crew.broker.moveController('g', node)
      await crew.produce(20)
      await crew.until(() => a.seen.length + b.seen.length === 20 * node)
      const { partitions } = await a.consumer.rewind([
        { topic: 't', partition: 0, offset: 10 * node }
      ])
      assert.equal(partitions[0]?.state, 'applied')
    }
    crew.assertEachOnce()
  })

  test('by itself a consumer takes this protocol, but not in a group of another one', async () => {
    await using crew = await Crew.start({ partitions: 2 })
    const admin = crew.kafka.admin()
    const a = crew.join({ protocol: 'auto' })
    await crew.until(() => a.owned.length === 2)
    assert.equal((await admin.describeGroups(['g']))[0]?.type, 'controller')
    const other = { group: 'h', topics: ['t'] }
    const b = crew.join({ ...other, protocol: 'consumer' })
    await crew.until(() => b.owned.length === 2)
    const c = crew.join({ ...other, protocol: 'auto' })
    await crew.until(() => b.owned.length === 1 && c.owned.length === 1)
    assert.equal((await admin.describeGroups(['h']))[0]?.type, 'consumer')
  })

  test('a static member comes back to its partitions, and nobody else is told', async () => {
    await using crew = await Crew.start({ partitions: 2 })
    const a = crew.join({ instanceId: 'one' })
    const b = crew.join()
    await crew.until(() => a.owned.length === 1 && b.owned.length === 1)
    const [mine] = a.owned
    await a.consumer.close()
    const again = crew.join({ instanceId: 'one' })
    await crew.until(() => again.owned.length === 1)
    assert.equal(again.owned[0], mine)
    assert.equal(b.changes, 1)
  })
})

test('a broker without these requests refuses the protocol by name', async () => {
  await using broker = await Broker.start({
    topics: { t: 1 },
    maxVersions: { RegisterConsumer: -1 }
  })
  await using kafka = new Playhead({ bootstrap: broker.bootstrap })
  const consumer = kafka.consumer({ group: 'g', topics: ['t'], protocol: 'controller' })
  await assert.rejects(
    async () => {
      for await (const _ of consumer as AsyncIterable<ConsumerRecord>)
        assert.fail('nothing is there')
    },
    { code: 'UNSUPPORTED_VERSION' }
  )
})
