import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PlayheadError } from '../../src/base/error.ts'
import { Producer } from '../../src/client/producer/producer.ts'
import { PartialSendError } from '../../src/client/producer/record.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { type Produced, World } from './brokers.ts'

const times = <T>(count: number, make: (i: number) => T) =>
  Array.from({ length: count }, (_, i) => make(i))
const code =
  (...codes: readonly string[]) =>
  (error: unknown) =>
    error instanceof PlayheadError && codes.includes(error.code)

test('a record comes back with where it was written', async () => {
  const world = new World()
  const producer = new Producer(world.cluster)
  const sent = await world.play(producer.send('t', { value: 'v', partition: 2, timestamp: 17 }))
  assert.deepEqual(sent, { topic: 't', partition: 2, offset: 0, timestamp: 17 })
  assert.deepEqual(world.values('t'), [[], [], ['v']])
})

test('sendMany gives a result for each record, in order, whatever partitions they went to', async () => {
  const world = new World()
  const producer = new Producer(world.cluster)
  const records = times(1000, i => ({ key: `k${i % 7}`, value: `${i}` }))
  const results = await world.play(producer.sendMany('t', records))
  assert.equal(results.length, 1000)
  results.forEach(({ partition, offset }, i) => {
    assert.equal(world.log('t', partition).values[offset], `${i}`)
  })
})

test('what is sent in one turn leaves in one request to each broker', async () => {
  const world = new World({ topics: { t: 4, u: 4 } })
  const producer = new Producer(world.cluster)
  await world.play(
    producer.sendMany([
      { topic: 't', value: 'warm' },
      { topic: 'u', value: 'warm' }
    ])
  )
  const before = world.requests.get('Produce') ?? 0
  const topics = times(80, i => ({ topic: i % 2 ? 't' : 'u', partition: i % 4, value: `${i}` }))
  await world.play(producer.sendMany(topics))
  assert.equal((world.requests.get('Produce') ?? 0) - before, 2)
})

test('without linger an idle producer sends at once; with it a batch waits that long, and no longer', async () => {
  for (const lingerMs of [0, 40]) {
    const world = new World()
    const producer = new Producer(world.cluster, { lingerMs })
    await world.play(producer.send('t', { value: 'warm' }))
    const at = world.clock.monotonic()
    await world.play(producer.send('t', { value: 'v' }))
    const took = world.clock.monotonic() - at
    assert.ok(took >= lingerMs && took < lingerMs + 5, `${took} ms with lingerMs ${lingerMs}`)
  }
})

test('flush ends the lingering and waits for all that was sent before', async () => {
  const world = new World()
  const producer = new Producer(world.cluster, { lingerMs: 10_000 })
  let settled = 0
  for (let i = 0; i < 10; i++) {
    void producer.send('t', { value: `${i}`, partition: i % 3 }).then(() => settled++)
  }
  await world.play(producer.flush())
  assert.equal(settled, 10)
  assert.ok(world.clock.monotonic() < 1000)
})

test('a record too large is refused at once, and nothing of its call is sent', async () => {
  const world = new World()
  const producer = new Producer(world.cluster, { batchBytes: 1000, maxMessageBytes: 2000 })
  const records = [{ value: 'small' }, { value: 'x'.repeat(2000) }]
  await world.play(assert.rejects(producer.sendMany('t', records), code('TOO_LARGE')))
  await world.play(producer.send('t', { value: 'x'.repeat(1900) }))
  assert.deepEqual(world.values('t').flat(), ['x'.repeat(1900)])
})

test('a batch that the broker finds too large goes in halves, down to single records', async () => {
  const world = new World({ topics: { t: 1 } })
  const tooLarge = ({ values }: Produced) => values.length > 3 || values.includes('never')
  world.onProduce = batch => (tooLarge(batch) ? { code: KafkaError.MESSAGE_TOO_LARGE } : 'none')
  const producer = new Producer(world.cluster)
  const values = times(20, i => (i === 7 ? 'never' : `${i}`))
  const error = await world.play(
    producer
      .sendMany(
        't',
        values.map(value => ({ value }))
      )
      .then(
        () => undefined,
        (reason: unknown) => reason
      )
  )
  assert.ok(error instanceof PartialSendError)
  error.results.forEach((result, i) => {
    if (values[i] === 'never') assert.ok(code('TOO_LARGE')(result))
    else assert.equal(world.log('t', 0).values[(result as { offset: number }).offset], values[i])
  })
  assert.deepEqual(
    world.log('t', 0).values,
    values.filter(value => value !== 'never')
  )
})

test('a full buffer holds further sends back, in order, until there is room', async () => {
  const world = new World({ topics: { t: 1 } })
  const producer = new Producer(world.cluster, {
    maxBufferedBytes: 3000,
    batchBytes: 1000,
    lingerMs: 1000
  })
  const values = times(300, i => `${i}`.padStart(50, '0'))
  let most = 0
  world.onProduce = ({ bytes }) => {
    most = Math.max(most, bytes)
    return { delayMs: 20 }
  }
  await world.play(Promise.all(values.map(value => producer.send('t', { value }))))
  assert.deepEqual(world.log('t', 0).values, values)
  assert.ok(most <= 1000)
})

test('sends that wait for room are counted, and refused beyond the limit', async () => {
  const world = new World({ topics: { t: 1 } })
  const producer = new Producer(world.cluster, { maxBufferedBytes: 1, maxWaitingSends: 2 })
  await world.play(producer.send('t', { value: 'warm' }))
  const sent = times(4, i => producer.send('t', { value: `${i}` }))
  await world.play(assert.rejects(sent[3] ?? Promise.resolve(), code('QUEUE_FULL')))
  await world.play(Promise.all(sent.slice(0, 3)))
})

test('a topic that does not exist is UNKNOWN_TOPIC after its time; one that comes meanwhile is found', async () => {
  const world = new World()
  const producer = new Producer(world.cluster, { topicTimeoutMs: 3000 })
  const late = producer.send('late', { value: 'v' })
  world.clock.after(1000, () => world.addTopic('late', 1))
  await world.play(late)
  const never = producer.send('never', { value: 'v' })
  await world.play(assert.rejects(never, code('UNKNOWN_TOPIC')))
  assert.ok(world.clock.monotonic() > 3000)
})

test('a partition that does not exist is looked for once more, then UNKNOWN_PARTITION', async () => {
  const world = new World()
  const producer = new Producer(world.cluster)
  await world.play(producer.send('t', { value: 'v' }))
  const none = producer.send('t', { value: 'v', partition: 3 })
  await world.play(assert.rejects(none, code('UNKNOWN_PARTITION')))
  world.addTopic('t', 4)
  const { partition } = await world.play(producer.send('t', { value: 'v', partition: 3 }))
  assert.equal(partition, 3)
})

test("acks 'none' resolves when the bytes are written, with no offset", async () => {
  const world = new World()
  const producer = new Producer(world.cluster, { acks: 'none' })
  const sent = await world.play(
    producer.sendMany(
      't',
      times(10, i => ({ value: `${i}`, partition: 0 }))
    )
  )
  assert.deepEqual(new Set(sent.map(({ offset }) => offset)), new Set([-1]))
  await world.clock.advance(100)
  assert.equal(world.log('t', 0).values.length, 10)
  assert.equal(world.produced[0]?.acks, 0)
  assert.equal(world.produced[0]?.producerId, -1n)
})

test('a leader that moves is followed, in order and without a repeat', async () => {
  const world = new World({ topics: { t: 1 } })
  const producer = new Producer(world.cluster, { batchBytes: 200 })
  world.onProduce = ({ node }) => {
    if (world.produced.length === 8) world.log('t', 0).leader = 1 - node
    return 'none'
  }
  const values = times(200, i => `${i}`)
  await world.play(
    producer.sendMany(
      't',
      values.map(value => ({ value }))
    )
  )
  assert.deepEqual(world.log('t', 0).values, values)
  assert.deepEqual(new Set(world.produced.map(({ node }) => node)), new Set([0, 1]))
})

test('a connection cut after the append costs nothing: the repeat is known and gets its first offset', async () => {
  const world = new World({ topics: { t: 1 } })
  const producer = new Producer(world.cluster, { batchBytes: 200 })
  world.onProduce = () => (world.produced.length === 3 ? { cut: true, append: true } : 'none')
  const values = times(200, i => `${i}`)
  const results = await world.play(
    producer.sendMany(
      't',
      values.map(value => ({ value }))
    )
  )
  assert.deepEqual(world.log('t', 0).values, values)
  assert.deepEqual(
    results.map(({ offset }) => offset),
    times(200, i => i)
  )
})

test('a batch refused for good leaves a gap that the next epoch closes', async () => {
  const world = new World({ topics: { t: 1 } })
  const producer = new Producer(world.cluster, { batchBytes: 200 })
  world.onProduce = ({ values }) =>
    values.includes('bad') ? { code: KafkaError.INVALID_RECORD } : 'none'
  const values = times(100, i => (i === 30 ? 'bad' : `${i}`))
  const sent = await world.play(
    Promise.allSettled(values.map(value => producer.send('t', { value })))
  )
  const written = values.filter((_, i) => sent[i]?.status === 'fulfilled')
  assert.deepEqual(world.log('t', 0).values, written)
  assert.ok(written.length < 100 && written.length > 80)
  assert.deepEqual(new Set(world.produced.map(({ epoch }) => epoch)), new Set([0, 1]))
})

test('a broker that never answers: the deadline ends the promise, and says that the outcome is unknown', async () => {
  const world = new World({ topics: { t: 1 } })
  const producer = new Producer(world.cluster, { deliveryTimeoutMs: 5000, requestTimeoutMs: 1000 })
  await world.play(producer.send('t', { value: 'warm' }))
  world.onProduce = () => 'silence'
  const at = world.clock.monotonic()
  const error = await world.play(
    producer.send('t', { value: 'v' }).then(
      () => undefined,
      (reason: unknown) => reason
    )
  )
  assert.ok(code('TIMED_OUT')(error) && !(error as PlayheadError).retriable, String(error))
  assert.ok(world.clock.monotonic() - at <= 6000)
  world.onProduce = () => 'none'
  await world.play(producer.send('t', { value: 'after' }))
  assert.deepEqual(world.log('t', 0).values, ['warm', 'v', 'after'])
})

test('no broker to be had: the deadline ends the promise, and says that nothing was written', async () => {
  const world = new World({ topics: { t: 1 }, brokers: 1 })
  const producer = new Producer(world.cluster, { deliveryTimeoutMs: 5000 })
  await world.play(producer.send('t', { value: 'warm' }))
  world.network.kill('b0')
  await world.clock.advance(100)
  const at = world.clock.monotonic()
  const error = await world.play(
    producer.send('t', { value: 'v' }).then(
      () => undefined,
      (reason: unknown) => reason
    )
  )
  assert.ok(error instanceof PlayheadError)
  assert.ok(error.retriable, error.message)
  assert.ok(world.clock.monotonic() - at <= 6000)
})

test('with no broker from the start, a send ends by its deadline', async () => {
  const world = new World({ topics: { t: 1 }, brokers: 1 })
  world.network.kill('b0')
  const producer = new Producer(world.cluster, { deliveryTimeoutMs: 5000 })
  await world.play(
    assert.rejects(
      producer.sendMany('t', [{ value: 'v' }]),
      error => error instanceof PlayheadError && error.retriable
    )
  )
  assert.ok(world.clock.monotonic() <= 6000)
})

test('sends that wait for room end by their deadline when none comes', async () => {
  const world = new World({ topics: { t: 1 }, brokers: 1 })
  const options = { deliveryTimeoutMs: 5000, maxBufferedBytes: 500, batchBytes: 200 }
  const producer = new Producer(world.cluster, options)
  await world.play(producer.send('t', { value: 'warm' }))
  world.network.kill('b0')
  await world.clock.advance(100)
  const at = world.clock.monotonic()
  const sent = times(20, i => producer.send('t', { value: `${i}`.padStart(80, '0') }))
  const ends = await world.play(Promise.allSettled(sent))
  for (const end of ends) assert.ok(end.status === 'rejected' && code('TIMED_OUT')(end.reason))
  assert.ok(world.clock.monotonic() - at <= 6000)
  assert.deepEqual(world.log('t', 0).values, ['warm'])
})

test('a send that waited for its topic keeps its place and its deadline where sends wait for room', async () => {
  const world = new World({ topics: { t: 1 } })
  const options = { deliveryTimeoutMs: 5000, requestTimeoutMs: 5000, maxBufferedBytes: 1 }
  const producer = new Producer(world.cluster, options)
  await world.play(producer.send('t', { value: 'warm' }))
  world.onProduce = ({ topic }) => (topic === 't' ? 'silence' : 'none')
  const at = world.clock.monotonic()
  const ended = new Map<string, number>()
  const send = (topic: string, value: string) => {
    const end = () => void ended.set(value, world.clock.monotonic() - at)
    producer.send(topic, { value }).then(end, end)
  }
  send('late', 'first')
  await world.clock.advance(3000)
  send('t', 'takes the room')
  send('t', 'waits for it')
  const flushed = producer.flush().then(() => new Map(ended))
  world.addTopic('late', 1)
  await world.clock.advance(3000)
  assert.deepEqual([...ended.keys()], ['first'])
  assert.ok((ended.get('first') ?? 0) <= 5500, `${ended.get('first')} ms`)
  assert.equal((await world.play(flushed)).size, 3)
})

test('a flush waits for a send that waited for its topic and then for room', async () => {
  const world = new World({ topics: { t: 1 } })
  const producer = new Producer(world.cluster, { maxBufferedBytes: 1 })
  await world.play(producer.send('t', { value: 'warm' }))
  world.onProduce = () => ({ delayMs: 1000 })
  const settled: string[] = []
  const send = (topic: string, value: string) =>
    void producer.send(topic, { value }).then(() => settled.push(value))
  send('late', 'before')
  await world.clock.advance(100)
  const flushed = producer.flush().then(() => settled.includes('before'))
  await world.clock.advance(100)
  send('t', 'takes the room')
  send('t', 'waits for it')
  world.addTopic('late', 1)
  assert.ok(await world.play(flushed))
})

test('a broker that only refuses is not asked in a hot loop, however many partitions want to', async () => {
  const world = new World({ topics: { t: 100 }, brokers: 1 })
  const producer = new Producer(world.cluster, { deliveryTimeoutMs: 20_000 })
  world.onProduce = () => ({ code: KafkaError.NOT_LEADER_OR_FOLLOWER })
  const before = [...world.requests.values()].reduce((a, b) => a + b, 0)
  const sent = Promise.allSettled(
    times(100, partition => producer.send('t', { partition, value: 'v' }))
  )
  await world.clock.advance(20_000)
  const count = [...world.requests.values()].reduce((a, b) => a + b, 0) - before
  assert.ok(count > 10 && count <= 20 * 20, `${count} requests in 20 s`)
  await world.play(sent)
})

test('a topic that is made anew with fewer partitions gets its records', async () => {
  const world = new World({ topics: { t: 8 } })
  const producer = new Producer(world.cluster)
  await world.play(
    producer.sendMany(
      't',
      times(8, partition => ({ partition, value: 'old' }))
    )
  )
  world.logs.delete('t')
  world.addTopic('t', 2)
  const keys = times(50, i => ({ key: `${i}`, value: 'new' }))
  await world.play(world.cluster.refresh({ topics: ['t'] }))
  await world.play(producer.sendMany('t', keys))
  assert.equal(world.values('t').flat().length, 50)
})

test('close ends with all brokers gone, and nothing of the producer is left in the world', async () => {
  const world = new World({ topics: { t: 1 }, brokers: 1 })
  const producer = new Producer(world.cluster, { deliveryTimeoutMs: 60_000 })
  await world.play(producer.send('t', { value: 'warm' }))
  world.network.kill('b0')
  const sent = producer.send('t', { value: 'v' })
  const never = producer.send('unknown', { value: 'v' })
  const closed = producer.close({ timeoutMs: 2000 })
  const refused = [sent, never].map(promise => assert.rejects(promise, code('CLOSED')))
  await world.play(Promise.all([...refused, closed]))
  await world.play(assert.rejects(producer.send('t', { value: 'v' }), code('CLOSED')))
  await world.play(world.cluster.close())
  assert.equal(world.clock.pending, 0)
})

test('a producer id that no broker grants fails what waits for it', async () => {
  const world = new World({ topics: { t: 1 } })
  world.answers.set('InitProducerId', () => ({
    throttleTimeMs: 0,
    errorCode: KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    producerEpoch: -1
  }))
  const producer = new Producer(world.cluster)
  await world.play(assert.rejects(producer.send('t', { value: 'v' }), code('AUTHORIZATION_FAILED')))
})

test('an epoch that runs out is followed by a new producer id', async () => {
  const world = new World({ topics: { t: 1 } })
  world.answers.set('InitProducerId', () =>
    world.requests.get('InitProducerId') === 1
      ? { throttleTimeMs: 0, errorCode: 0, producerId: 1n, producerEpoch: 32_767 }
      : undefined
  )
  const producer = new Producer(world.cluster)
  await world.play(producer.send('t', { value: 'a' }))
  world.onProduce = ({ producerId }) =>
    producerId === 1n ? { code: KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER } : 'none'
  await world.play(producer.send('t', { value: 'b' }))
  assert.deepEqual(world.log('t', 0).values, ['a', 'b'])
  assert.equal(world.produced.at(-1)?.producerId, 1000n)
})
