import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { PlayheadError } from '../../src/base/error.ts'
import { Producer } from '../../src/client/producer/producer.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { World } from './brokers.ts'
import type { CoordinatorFault } from './coordinator.ts'

const code = (wanted: string) => (error: unknown) =>
  error instanceof PlayheadError && error.code === wanted
const committed = (world: World) => [0, 1, 2].flatMap(p => world.log('t', p).committed)

for (const transactionVersion of [1, 2]) {
  const title = `(transaction.version ${transactionVersion})`

  test(`commits show, aborts never do ${title}`, async () => {
    const world = new World({ transactionVersion })
    const producer = new Producer(world.cluster, { transactionalId: 'x' })
    const program = async () => {
      for (let i = 0; i < 6; i++) {
        const tx = await producer.begin()
        await tx.sendMany('t', [{ value: `${i}`, partition: i % 3 }])
        await tx.commitOffsets({ group: 'g', offsets: [{ topic: 'in', partition: 0, offset: i }] })
        if (i % 2 === 0) await tx.commit()
        else await tx.abort()
      }
      await producer.close()
    }
    await world.play(program())
    assert.deepEqual(committed(world).sort(), ['0', '2', '4'])
    assert.equal(world.coordinator.offsets.get('g in-0'), 4)
    const adds = world.requests.get('AddPartitionsToTxn') ?? 0
    assert.equal(adds > 0, transactionVersion === 1, `${adds} AddPartitionsToTxn`)
  })

  test(`whatever goes wrong in passing, a transaction is all there or not at all ${title}`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), fc.integer({ min: 2, max: 10 }), async (seed, oneIn) => {
        const world = new World({ seed, transactionVersion })
        world.coordinator.onRequest = () => passing(world, oneIn)
        world.onProduce = () =>
          world.random.chance(1 / oneIn) ? { cut: true, append: world.random.chance(0.5) } : 'none'
        const producer = new Producer(world.cluster, { transactionalId: 'x' })
        const wanted: string[] = []
        let last: number | undefined
        const program = async () => {
          for (let i = 0; i < 15; i++) {
            const tx = await producer.begin()
            const values = [0, 1, 2].map(partition => ({ partition, value: `${i}.${partition}` }))
            const offsets = [{ topic: 'in', partition: 0, offset: i }]
            // Half the time nobody waits for what the end of the transaction then has to wait for.
            const work = Promise.all([
              tx.sendMany('t', values),
              tx.commitOffsets({ group: 'g', offsets })
            ])
            const waited = world.random.chance(0.5)
            if (waited) await work
            if (world.random.chance(0.3)) await Promise.allSettled([tx.abort(), work])
            else {
              await Promise.all([tx.commit(), work])
              wanted.push(...values.map(({ value }) => value))
              last = i
            }
          }
        }
        await world.play(program())
        assert.deepEqual(committed(world).sort(), wanted.sort())
        assert.equal(world.coordinator.offsets.get('g in-0'), last)
        await world.play(producer.close())
        await world.play(world.cluster.close())
        await world.clock.advance(1000)
        assert.equal(world.clock.pending, 0)
      }),
      { numRuns: 15 }
    )
  })
}

function passing(world: World, oneIn: number): CoordinatorFault {
  const { random } = world
  if (!random.chance(1 / oneIn)) return 'none'
  return random.pick<CoordinatorFault>([
    { cut: 'before' },
    { cut: 'after' },
    { code: KafkaError.CONCURRENT_TRANSACTIONS },
    { code: KafkaError.COORDINATOR_LOAD_IN_PROGRESS },
    { code: KafkaError.NOT_COORDINATOR },
    { code: KafkaError.COORDINATOR_NOT_AVAILABLE }
  ])
}

test('a part that fails makes the commit an abort, and the next transaction works', async () => {
  const world = new World()
  const producer = new Producer(world.cluster, { transactionalId: 'x' })
  world.onProduce = ({ values }) =>
    values.includes('bad') ? { code: KafkaError.INVALID_RECORD } : 'none'
  const tx = await world.play(producer.begin())
  await world.play(tx.send('t', { value: 'good', partition: 0 }))
  await world.play(
    assert.rejects(tx.send('t', { value: 'bad', partition: 1 }), code('BROKER_ERROR'))
  )
  await world.play(assert.rejects(tx.send('t', { value: 'late' }), code('TRANSACTION_ABORTED')))
  await world.play(assert.rejects(tx.commit(), code('TRANSACTION_ABORTED')))
  await world.play(producer.transaction(next => next.send('t', { value: 'next' })))
  assert.deepEqual(committed(world), ['next'])
})

test('TRANSACTION_ABORTABLE at the commit aborts it', async () => {
  const world = new World()
  const producer = new Producer(world.cluster, { transactionalId: 'x' })
  const tx = await world.play(producer.begin())
  await world.play(tx.send('t', { value: 'v' }))
  let first = true
  world.coordinator.onRequest = api => {
    if (api !== 'EndTxn' || !first) return 'none'
    first = false
    return { code: KafkaError.TRANSACTION_ABORTABLE }
  }
  await world.play(assert.rejects(tx.commit(), code('TRANSACTION_ABORTED')))
  await world.play(producer.transaction(next => next.send('t', { value: 'next' })))
  assert.deepEqual(committed(world), ['next'])
})

test('a commit that nobody answers is told as unknown; the next begin ends it, and works', async () => {
  const world = new World()
  const producer = new Producer(world.cluster, { transactionalId: 'x', deliveryTimeoutMs: 5000 })
  const tx = await world.play(producer.begin())
  await world.play(tx.send('t', { value: 'v' }))
  world.coordinator.onRequest = api => (api === 'EndTxn' ? { cut: 'before' } : 'none')
  const error = await world.play(
    tx.commit().then(
      () => undefined,
      (reason: unknown) => reason
    )
  )
  assert.ok(error instanceof PlayheadError && error.code === 'CONNECTION_LOST' && !error.retriable)
  world.coordinator.onRequest = () => 'none'
  await world.play(producer.transaction(next => next.send('t', { value: 'next' })))
  assert.deepEqual(committed(world), ['next'])
})

test('a producer that was fenced says so, and stays fenced', async () => {
  const world = new World()
  const first = new Producer(world.cluster, { transactionalId: 'x' })
  const second = new Producer(world.cluster, { transactionalId: 'x' })
  const tx = await world.play(first.begin())
  await world.play(tx.send('t', { value: 'never' }))
  await world.play(second.transaction(other => other.send('t', { value: 'second' })))
  await world.play(assert.rejects(tx.commit(), code('FENCED')))
  await world.play(assert.rejects(first.begin(), code('FENCED')))
  await world.play(first.close())
  assert.deepEqual(committed(world), ['second'])
})

test('close aborts the open transaction', async () => {
  const world = new World()
  const producer = new Producer(world.cluster, { transactionalId: 'x' })
  const tx = await world.play(producer.begin())
  await world.play(tx.send('t', { value: 'never' }))
  await world.play(producer.close())
  assert.equal(world.coordinator.transactions.get('x')?.state, 'aborted')
  assert.deepEqual(committed(world), [])
})

test('what does not belong into a transaction is refused', async () => {
  const world = new World()
  const plain = new Producer(world.cluster)
  await assert.rejects(plain.begin(), code('INVALID_ARGUMENT'))
  const producer = new Producer(world.cluster, { transactionalId: 'x' })
  await assert.rejects(producer.send('t', { value: 'v' }), code('INVALID_ARGUMENT'))
  const tx = await world.play(producer.begin())
  await world.play(assert.rejects(producer.begin(), code('INVALID_ARGUMENT')))
  await world.play(tx.commit())
  await assert.rejects(tx.send('t', { value: 'v' }), code('INVALID_ARGUMENT'))
  await assert.rejects(tx.commit(), code('INVALID_ARGUMENT'))
})

test('a producer whose cluster is closed ends with CLOSED', async () => {
  const world = new World({ topics: { t: 1 } })
  const producer = new Producer(world.cluster, { lingerMs: 1000 })
  await world.play(producer.send('t', { value: 'warm' }))
  const sent = assert.rejects(producer.send('t', { value: 'v' }), code('CLOSED'))
  await world.play(Promise.all([sent, world.cluster.close()]))
  await assert.rejects(producer.send('t', { value: 'v' }), code('CLOSED'))
  await world.play(producer.close())
  await world.clock.advance(1000)
  assert.equal(world.clock.pending, 0)
})
