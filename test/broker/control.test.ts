/** What a test may do to the broker: faults by rule, other leaders, stopped listeners, older versions. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { ApiVersions } from '../../src/protocol/api/api-versions.ts'
import { FindCoordinator } from '../../src/protocol/api/find-coordinator.ts'
import { Metadata } from '../../src/protocol/api/metadata.ts'
import { Produce } from '../../src/protocol/api/produce.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { Wire, batchOf, recordsOf } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })

test('an error is answered for one partition and so many requests, and nothing is written', async () => {
  await using broker = await Broker.start({ topics: { t: 2 } })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  broker.control.on(
    'Produce',
    { topic: 't', partition: 1, count: 2 },
    { error: 'NOT_ENOUGH_REPLICAS' }
  )
  const codes = []
  for (const partition of [0, 1, 1, 1]) {
    codes.push((await wire.produce('t', partition, batchOf(['x']))).errorCode)
  }
  const { NOT_ENOUGH_REPLICAS } = KafkaError
  assert.deepEqual(codes, [0, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS, 0])
  assert.deepEqual(recordsOf((await wire.fetch('t', 1, 0)).records), ['0:x'])
  await wire.close()
})

test('a rule sees requests, and may hold one until the test says so', async () => {
  await using broker = await Broker.start({ topics: { t: 1 } })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  const seen: string[] = []
  let release = () => {}
  const hold = new Promise<void>(resolve => {
    release = resolve
  })
  const stop = broker.control.on('*', request => {
    seen.push(`${request.api} v${request.version} of ${request.clientId}`)
    return request.api === 'Fetch' ? { hold } : undefined
  })
  const held = wire.fetch('t', 0, 0)
  const other = await Wire.connect(env, broker.bootstrap[0] ?? '')
  await other.produce('t', 0, batchOf(['x']))
  release()
  assert.deepEqual(recordsOf((await held).records), ['0:x'])
  assert.deepEqual(seen, ['Fetch v12 of wire', 'Produce v12 of wire'])
  stop()
  await wire.close()
  await other.close()
})

test('a connection may be reset after the request was handled: its outcome is unknown', async () => {
  await using broker = await Broker.start({ topics: { t: 1 } })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  broker.control.on('Produce', { count: 1 }, 'reset after')
  await assert.rejects(wire.produce('t', 0, batchOf(['x'])))
  const after = await Wire.connect(env, broker.bootstrap[0] ?? '')
  assert.deepEqual(recordsOf((await after.fetch('t', 0, 0)).records), ['0:x'])
  await after.close()
})

test('a moved leader is told with the error, its epoch rises, and a waiting fetch ends', async () => {
  await using broker = await Broker.start({ brokers: 2, topics: { t: 2 } })
  const [first, second] = await Promise.all(broker.bootstrap.map(at => Wire.connect(env, at)))
  assert(first && second)
  const { topics } = await first.ask(Metadata, 12, { topics: [{ name: 't' }] })
  const own = topics[0]?.partitions.find(p => p.leaderId === 1)?.partitionIndex ?? -1
  await first.produce('t', own, batchOf(['x']))
  const waiting = first.fetch('t', own, 1, { maxWaitMs: 30_000 })
  await broker.moveLeader('t', own, 2)
  const told = await waiting
  assert.equal(told.errorCode, KafkaError.NOT_LEADER_OR_FOLLOWER)
  assert.deepEqual(told.currentLeader, { leaderId: 2, leaderEpoch: 1 })
  assert.equal((await second.produce('t', own, batchOf(['y']))).baseOffset, 1)
  await first.close()
  await second.close()
})

test('what a stopped broker led goes to the others, and it may come back', async () => {
  await using broker = await Broker.start({ brokers: 3, topics: { t: 6 } })
  const addresses = broker.bootstrap
  await broker.stopListener(2)
  await assert.rejects(Wire.connect(env, addresses[1] ?? '').then(wire => wire.offset('t', 0, -1)))
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  const leaders = async () => {
    const { topics } = await wire.ask(Metadata, 12, { topics: [{ name: 't' }] })
    return new Set(topics[0]?.partitions.map(p => p.leaderId))
  }
  assert.deepEqual(await leaders(), new Set([1, 3]))
  await broker.startListener(2)
  assert.deepEqual(broker.bootstrap, addresses)
  await broker.moveLeader('t', 0, 2)
  assert((await leaders()).has(2))
  await wire.close()
})

test('stops and starts of a listener that come at once take place one after the other', async () => {
  await using broker = await Broker.start()
  const [address = ''] = broker.bootstrap
  const { stop, start } = {
    stop: () => broker.stopListener(1),
    start: () => broker.startListener(1)
  }
  await stop()
  await Promise.all([start(), stop(), start(), stop()])
  await assert.rejects(Wire.connect(env, address).then(wire => wire.offset('t', 0, -1)))
  await Promise.all([start(), stop(), start()])
  const wire = await Wire.connect(env, address)
  await wire.ask(ApiVersions, 3, { clientSoftwareName: 'wire', clientSoftwareVersion: '1' })
  await wire.close()
})

test('a moved coordinator is found where it is', async () => {
  await using broker = await Broker.start({ brokers: 3 })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  for (const node of [1, 2, 3]) {
    broker.moveController('g', node)
    const found = await wire.ask(FindCoordinator, 4, { keyType: 0, coordinatorKeys: ['g'] })
    assert.equal(found.coordinators[0]?.nodeId, node)
  }
  await wire.close()
})

test('a group that was moved to a broker is coordinated by another one when that stops', async () => {
  await using broker = await Broker.start({ brokers: 2 })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  broker.moveController('g', 2)
  await broker.stopListener(2)
  const found = await wire.ask(FindCoordinator, 4, { keyType: 0, coordinatorKeys: ['g'] })
  assert.equal(found.coordinators[0]?.nodeId, 1)
  await wire.close()
})

test('an older Kafka is played by lower versions, and one that is not spoken ends the connection', async () => {
  await using broker = await Broker.start({
    topics: { t: 1 },
    maxVersions: { Produce: 7, Metadata: -1 }
  })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  const body = { clientSoftwareName: 'wire', clientSoftwareVersion: '1' }
  const { apiKeys } = await wire.ask(ApiVersions, 3, body)
  assert.equal(apiKeys.find(api => api.apiKey === Produce.key)?.maxVersion, 7)
  assert.equal(
    apiKeys.find(api => api.apiKey === Metadata.key),
    undefined
  )
  assert.equal((await wire.produce('t', 0, batchOf(['x']), { version: 7 })).errorCode, 0)
  await assert.rejects(wire.produce('t', 0, batchOf(['x']), { version: 8 }))
})
