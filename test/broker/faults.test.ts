/** Every fault that a test may let a request suffer, every filter, and the clock: what the client sees, and what the broker did. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { FindCoordinator } from '../../src/protocol/api/find-coordinator.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { Member, commit, committed } from './group-wire.ts'
import { Wire, batchOf, recordsOf } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })
const silent = { debug() {}, info() {}, warn() {}, error() {} }
let broker: Broker
let wire: Wire
let offset = 0

before(async () => {
  broker = await Broker.start({ brokers: 2, topics: { t: 1, u: 2 }, log: silent })
  await broker.moveLeader('t', 0, 1)
})
beforeEach(async () => {
  broker.control.clear()
  wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  offset = (await wire.offset('t', 0, -1)).offset
})
after(() => broker.close())

function produce(on = wire) {
  return on.produce('t', 0, batchOf(['x']))
}

/** How many records came since the test began. */
async function written(): Promise<number> {
  const looking = await Wire.connect(env, broker.bootstrap[0] ?? '')
  const end = (await looking.offset('t', 0, -1)).offset
  await looking.close()
  return end - offset
}

test("'drop': neither handled nor answered, and nothing after it on its connection is", async () => {
  broker.control.on('Produce', { count: 1 }, 'drop')
  const lost = produce()
  const behind = produce()
  assert.equal((await produce(await Wire.connect(env, broker.bootstrap[0] ?? ''))).errorCode, 0)
  assert.equal(await written(), 2)
  wire.abort()
  await assert.rejects(lost)
  await assert.rejects(behind)
})

test("'drop answer': handled, and its answer is lost", async () => {
  broker.control.on('Produce', {}, 'drop answer')
  const lost = produce()
  while ((await written()) === 0) await undefined
  wire.abort()
  await assert.rejects(lost)
})

for (const fault of ['close', 'reset'] as const) {
  test(`'${fault}': the connection ends, and nothing was handled`, async () => {
    broker.control.on('Produce', {}, fault)
    await assert.rejects(produce())
    assert.equal(await written(), 0)
  })
}

test("'reset after': handled, and the connection ends instead of an answer", async () => {
  broker.control.on('Produce', {}, 'reset after')
  await assert.rejects(produce())
  assert.equal(await written(), 1)
})

test('an answer of one’s own is sent, and nothing was handled', async () => {
  const partitionResponses = [{ index: 0, errorCode: 0, baseOffset: 77 }]
  const answer = { responses: [{ name: 't', partitionResponses }] }
  broker.control.on('Produce', {}, { answer })
  assert.equal((await produce()).baseOffset, 77)
  assert.equal(await written(), 0)
})

test('delayMs: handled later, by the clock that the test may push on', async () => {
  const arrived = new Promise<void>(resolve =>
    broker.control.on('Produce', () => {
      resolve()
      return { delayMs: 600_000 }
    })
  )
  const late = produce()
  await arrived
  assert.equal(await written(), 0)
  broker.control.advance(600_000)
  assert.equal((await late).errorCode, 0)
  assert.equal(await written(), 1)
})

test('answerAfterMs: handled at once, answered later', async () => {
  broker.control.on('Produce', {}, { answerAfterMs: 100_000 })
  let answered = false
  const late = produce().then(() => {
    answered = true
  })
  while ((await written()) === 0) await undefined
  assert.equal(answered, false)
  broker.control.advance(100_000)
  await late
})

test('lateMs: the connection is reset, and what was on its way is written long after', async () => {
  broker.control.on('Produce', {}, { lateMs: 500_000 })
  await assert.rejects(produce())
  assert.equal(await written(), 0)
  broker.control.advance(500_000)
  while ((await written()) === 0) await undefined
  assert.equal(await written(), 1)
})

test('rules tell requests apart by broker, client, topic, partition and group; the first that fits counts', async () => {
  const other = await Wire.connect(env, broker.bootstrap[1] ?? '')
  const { control } = broker
  control.on('*', { node: 2, topic: 'u' }, { error: 'KAFKA_STORAGE_ERROR' })
  control.on('*', { clientId: 'somebody' }, { error: 'KAFKA_STORAGE_ERROR' })
  control.on('Produce', { topic: 'u', partition: 1 }, { error: 'THROTTLING_QUOTA_EXCEEDED' })
  control.on('FindCoordinator', { group: 'g' }, { error: 'COORDINATOR_NOT_AVAILABLE' })
  control.on('OffsetCommit', { group: 'g' }, { error: 'COORDINATOR_LOAD_IN_PROGRESS' })
  const code = async (on: Wire, partition: number) =>
    (await on.produce('u', partition, batchOf(['x']))).errorCode
  const { KAFKA_STORAGE_ERROR, THROTTLING_QUOTA_EXCEEDED, COORDINATOR_NOT_AVAILABLE } = KafkaError
  assert.equal(await code(other, 0), KAFKA_STORAGE_ERROR)
  assert.equal(await code(other, 1), THROTTLING_QUOTA_EXCEEDED)
  assert.notEqual(await code(wire, 0), KAFKA_STORAGE_ERROR)
  assert.equal(await code(wire, 1), THROTTLING_QUOTA_EXCEEDED)
  assert.equal((await produce()).errorCode, 0)
  const find = async (coordinatorKeys: string[]) =>
    (await wire.ask(FindCoordinator, 4, { keyType: 0, coordinatorKeys })).coordinators[0]?.errorCode
  assert.deepEqual([await find(['g']), await find(['h'])], [COORDINATOR_NOT_AVAILABLE, 0])
  broker.moveController('g', 1)
  broker.moveController('h', 1)
  assert.deepEqual(await commit(wire, 'g', 't', { 0: 1 }), ['COORDINATOR_LOAD_IN_PROGRESS'])
  assert.deepEqual(await commit(wire, 'h', 't', { 0: 1 }), ['NONE'])
  await other.close()
})

test('a clock that is pushed on ends sessions and lets records and offsets grow old', async () => {
  broker.moveController('members', 1)
  const member = new Member(wire, 'members', ['t'])
  assert.equal(await member.beat(), 'NONE')
  broker.control.advance(44_000)
  assert.equal(await member.beat(), 'NONE')
  broker.control.advance(45_000)
  assert.equal(await member.beat(), 'UNKNOWN_MEMBER_ID')
  assert.deepEqual(await commit(wire, 'members', 't', { 0: 1 }), ['NONE'])
  await produce()
  broker.control.advance(8 * 86_400_000)
  wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  await broker.retain()
  assert.equal((await wire.offset('t', 0, -2)).offset, (await wire.offset('t', 0, -1)).offset)
  while (JSON.stringify(await committed(wire, 'members')) !== '{}') await undefined
  assert.deepEqual(recordsOf((await wire.fetch('t', 0, offset)).records), [])
  assert.throws(() => broker.control.advance(-1), { code: 'INVALID_ARGUMENT' })
})
