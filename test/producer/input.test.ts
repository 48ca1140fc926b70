/** What a producer takes: options, records, serdes and a partitioner of one's own. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PlayheadError } from '../../src/base/error.ts'
import { partitionOfKey } from '../../src/client/producer/partitioner.ts'
import { Producer } from '../../src/client/producer/producer.ts'
import { json } from '../../src/client/serde.ts'
import { World } from './brokers.ts'

const code = (expected: string) => (error: unknown) =>
  error instanceof PlayheadError && error.code === expected

test('keys and values go through serdes or functions; null stays null; a throw sends nothing', async () => {
  const world = new World({ topics: { t: 1 } })
  const upper = (value: string, topic: string) => `${topic}:${value.toUpperCase()}`
  const producer = new Producer(world.cluster, {
    key: upper,
    value: json<{ n: number | bigint }>()
  })
  await world.play(producer.send('t', { key: 'k', value: { n: 1 } }))
  await world.play(producer.sendMany('t', [{ key: null as never }, { value: { n: 2 } }]))
  const bad = producer.sendMany('t', [{ value: { n: 3 } }, { value: { n: 4n } }])
  await world.play(assert.rejects(bad, code('INVALID_ARGUMENT')))
  assert.deepEqual(world.log('t', 0).values, ['{"n":1}', 'null', '{"n":2}'])
})

test('a partitioner of one’s own is asked about records without partition, and may pass', async () => {
  const world = new World({ topics: { t: 8 } })
  const asked: (string | null)[] = []
  const producer = new Producer(world.cluster, {
    partitioner({ topic, value, partitionCount, available }) {
      asked.push(String(value))
      assert.deepEqual([topic, partitionCount, available.length], ['t', 8, 8])
      if (value === 'broken') throw new Error('no idea')
      return value === 'pass' ? undefined : Number(value)
    }
  })
  const records = [{ value: '5' }, { value: 'x', partition: 2 }, { value: 'pass', key: 'k' }]
  const sent = await world.play(producer.sendMany('t', records))
  assert.deepEqual(
    sent.map(({ partition }) => partition),
    [5, 2, partitionOfKey('k', 8)]
  )
  assert.deepEqual(asked, ['5', 'pass'])
  await world.play(
    assert.rejects(producer.send('t', { value: 'broken' }), code('INVALID_ARGUMENT'))
  )
  await world.play(assert.rejects(producer.send('t', { value: '9' }), code('UNKNOWN_PARTITION')))
})

test('onSend sees each record once, and may send another in its stead; onSettled sees what became of each call', async () => {
  const world = new World({ topics: { t: 1, u: 1 } })
  const outcomes: string[] = []
  const producer = new Producer(world.cluster, {
    value: json<number>(),
    onSend(_topic, record) {
      if (record.value === 13) throw new Error('unlucky')
      return record.value === 1 ? undefined : { ...record, value: (record.value ?? 0) * 10 }
    },
    onSettled({ topic, records, error }) {
      outcomes.push(`${topic} ${records} ${error?.code ?? 'written'}`)
      throw new Error('only logged')
    }
  })
  await world.play(producer.send('t', { value: 1 }))
  await world.play(producer.sendMany('t', [{ value: 2 }, { value: 3 }]))
  await world.play(
    producer.sendMany([
      { topic: 't', value: 4 },
      { topic: 'u', value: 5 }
    ])
  )
  const bad = producer.sendMany('t', [{ value: 6 }, { value: 13 }])
  await world.play(assert.rejects(bad, code('INVALID_ARGUMENT')))
  assert.deepEqual(world.log('t', 0).values, ['1', '20', '30', '40'])
  assert.deepEqual(world.log('u', 0).values, ['50'])
  assert.deepEqual(outcomes.slice(0, 2), ['t 1 written', 't 2 written'])
  assert.deepEqual(outcomes.slice(2, 4).sort(), ['t 1 written', 'u 1 written'])
  assert.deepEqual(outcomes.slice(4), ['t 2 INVALID_ARGUMENT'])
})

test('nonsense is refused with INVALID_ARGUMENT', async () => {
  const world = new World()
  const bad = (options: object) => () => new Producer(world.cluster, options)
  for (const options of [
    { acks: 2 },
    { acks: 1, idempotent: true },
    { maxInFlight: 6 },
    { lingerMs: -1 },
    { compression: 'rar' },
    { compression: 'gzip', compressionLevel: 10 },
    { compression: 'lz4', compressionLevel: 1 },
    { transactionalId: 'x', acks: 0 }
  ]) {
    assert.throws(bad(options), code('INVALID_ARGUMENT'), JSON.stringify(options))
  }
  const producer = new Producer(world.cluster)
  for (const record of [
    null,
    { value: 5 },
    { value: 'v', partition: -1 },
    { value: 'v', timestamp: 1.5 },
    { value: 'v', headers: [['a', 1]] }
  ]) {
    const sent = producer.send('t', record as never)
    await assert.rejects(sent, code('INVALID_ARGUMENT'), JSON.stringify(record))
  }
})
