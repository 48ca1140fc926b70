/** Groups led by a controller, over TCP: what the machine decides, a broker does. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { ControllerCreateGroup } from '../../src/protocol/api/controller-create-group.ts'
import { ControllerHeartbeat } from '../../src/protocol/api/controller-heartbeat.ts'
import { ControllerListGroups } from '../../src/protocol/api/controller-list-groups.ts'
import { CreatePartitions } from '../../src/protocol/api/create-partitions.ts'
import { DeleteGroups } from '../../src/protocol/api/delete-groups.ts'
import { DeleteTopics } from '../../src/protocol/api/delete-topics.ts'
import { DescribeGroups } from '../../src/protocol/api/describe-groups.ts'
import { JoinGroup } from '../../src/protocol/api/join-group.ts'
import { ListGroups } from '../../src/protocol/api/list-groups.ts'
import { RegisterConsumer } from '../../src/protocol/api/register-consumer.ts'
import { UnregisterConsumer } from '../../src/protocol/api/unregister-consumer.ts'
import { KafkaError, kafkaErrorName } from '../../src/protocol/errors.ts'
import { LedMember, committedOf, rewindTo } from './controller-wire.ts'
import { Wire, batchOf } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })
const twenty = Array.from({ length: 20 }, (_, index) => `record ${index}`)

/** A broker with 20 records in each of `partitions` of t. */
async function withBroker(
  run: (broker: Broker, address: string, wire: Wire) => Promise<void>,
  options: Parameters<typeof Broker.start>[0] = {},
  partitions = 2
): Promise<void> {
  await using broker = await Broker.start({ topics: { t: partitions }, ...options })
  const address = broker.bootstrap[0] ?? ''
  const wire = await Wire.connect(env, address)
  await fill(wire, partitions)
  await run(broker, address, wire)
  await wire.close()
}

async function fill(wire: Wire, partitions: number): Promise<void> {
  for (let partition = 0; partition < partitions; partition++) {
    const { errorCode } = await wire.produce('t', partition, batchOf(twenty))
    if (errorCode === KafkaError.NOT_LEADER_OR_FOLLOWER) continue
    assert.equal(errorCode, 0)
  }
}

/** Two members of the group, each with one partition. */
async function pair(address: string, partitions = 2): Promise<readonly [LedMember, LedMember]> {
  const a = await LedMember.at(env, address)
  const b = await LedMember.at(env, address)
  assert.equal(await a.register(), 'NONE')
  const told = a.beat(5_000)
  const joined = b.register()
  assert.equal((await told).code, 'GROUP_CHANGED')
  assert.deepEqual(await Promise.all([a.register(), joined]), ['NONE', 'NONE'])
  assert.equal(a.owned.size + b.owned.size, partitions)
  return [a, b]
}

describe('a group led by a controller', () => {
  test('a rewind reaches the owner through the heartbeat that is held, and nobody else', () =>
    withBroker(async (_, address, wire) => {
      const [a, b] = await pair(address)
      assert.equal(await a.commit(0, 15), 'NONE')
      const beats = [a.beat(5_000), b.beat(400)] as const
      const rewound = rewindTo(wire, { 0: 5 })
      assert.deepEqual(await beats[0], { code: 'PARTITIONS_REWOUND', rewound: ['t:0'] })
      const before = a.generation
      assert.equal(await a.commit(0, 16), 'NONE')
      assert.equal(await a.register({}, []), 'NONE')
      assert.equal(a.owned.get('t:0'), 5)
      const { code, rewindId, offsets } = await rewound
      assert.equal(code, 'NONE')
      assert.ok(rewindId > 1e12, 'ids are times, at least')
      // Where the owner stood when it let go, not what was committed when the call came.
      assert.equal(offsets[0]?.partitions[0]?.previousOffset, 16)
      assert.equal(await a.commit(0, 17, before), 'ILLEGAL_GENERATION')
      assert.equal(await committedOf(wire, 0), 5)
      assert.equal(await a.commit(0, 6), 'NONE')
      assert.deepEqual(await beats[1], { code: 'NONE', rewound: [] })
      await Promise.all([a.close(), b.close()])
    }))

  test('any broker says who leads, the others refuse, and a controller that moves loses nothing', () =>
    withBroker(
      async (broker, _, wire) => {
        const address = (node: number) => broker.bootstrap[node - 1] ?? ''
        const leader = async () => {
          const { groups } = await wire.ask(ControllerListGroups, 0, { groupId: 'g' })
          return groups[0]?.controller.nodeId ?? -1
        }
        const first = await leader()
        const second = (first % 3) + 1
        const elsewhere = await LedMember.at(env, address(second))
        assert.equal(await elsewhere.register(), 'NOT_COORDINATOR')
        const member = await LedMember.at(env, address(first))
        assert.equal(await member.register(), 'NONE')
        assert.equal(await member.commit(0, 7), 'NONE')
        broker.moveController('g', second)
        assert.equal((await member.beat()).code, 'NOT_COORDINATOR')
        assert.equal(await leader(), second)
        const { memberId, generation, topicIds, owned } = member
        Object.assign(elsewhere, { memberId, generation, topicIds, owned })
        assert.equal((await elsewhere.beat()).code, 'NONE')
        assert.equal(await elsewhere.commit(0, 8), 'NONE')
        assert.equal(elsewhere.generation, generation)
        await Promise.all([member.close(), elsewhere.close()])
      },
      { brokers: 3 }
    ))

  test('topics that grow and go are told to all', () =>
    withBroker(async (_, address, wire) => {
      const [a, b] = await pair(address)
      const told = [a.beat(5_000), b.beat(5_000)]
      await wire.ask(CreatePartitions, 3, {
        topics: [{ name: 't', count: 3, assignments: null }],
        timeoutMs: 5_000,
        validateOnly: false
      })
      for (const { code } of await Promise.all(told)) assert.equal(code, 'TOPICS_CHANGED')
      await Promise.all([a.register({ startFrom: 1 }), b.register({ startFrom: 1 })])
      const all = new Map([...a.owned, ...b.owned])
      assert.equal(all.get('t:2'), 0, 'what appeared starts at its smallest offset')
      const goes = [a.beat(5_000), b.beat(5_000)]
      await wire.ask(DeleteTopics, 5, { topicNames: ['t'], timeoutMs: 5_000 })
      for (const { code } of await Promise.all(goes)) assert.equal(code, 'TOPICS_CHANGED')
      await Promise.all([a.register(), b.register()])
      assert.equal(a.owned.size + b.owned.size, 0)
      await Promise.all([a.close(), b.close()])
    }))

  test('a member whose connection breaks has a session to come back in; then it is removed', () =>
    withBroker(
      async (_, address) => {
        const [a, b] = await pair(address)
        void a.beat(60_000).catch(() => {})
        await a.close()
        let code = 'NONE'
        while (code === 'NONE') ({ code } = await b.beat(5_000))
        assert.equal(code, 'GROUP_CHANGED')
        assert.equal(await b.register(), 'NONE')
        assert.equal(b.owned.size, 2)
        await b.close()
      },
      { groups: { sessionTimeoutMs: 300, minSessionTimeoutMs: 100 } }
    ))

  test('Kafka’s own requests see the group, and may not join it while it has members', () =>
    withBroker(async (_, address, wire) => {
      const [a, b] = await pair(address)
      const listed = await wire.ask(ListGroups, 5, {
        statesFilter: [],
        typesFilter: ['controller']
      })
      assert.deepEqual(
        listed.groups.map(({ groupId, groupState, groupType }) => [groupId, groupState, groupType]),
        [['g', 'Stable', 'controller']]
      )
      const described = await wire.ask(DescribeGroups, 5, { groups: ['g'] })
      assert.equal(described.groups[0]?.members.length, 2)
      const join = await wire.ask(JoinGroup, 9, {
        groupId: 'g',
        sessionTimeoutMs: 10_000,
        rebalanceTimeoutMs: 10_000,
        memberId: '',
        protocolType: 'consumer',
        protocols: [{ name: 'range', metadata: Buffer.alloc(0) }]
      })
      assert.equal(kafkaErrorName(join.errorCode), 'INCONSISTENT_GROUP_PROTOCOL')
      const remove = () => wire.ask(DeleteGroups, 2, { groupsNames: ['g'] })
      assert.equal((await remove()).results[0]?.errorCode, KafkaError.NON_EMPTY_GROUP)
      assert.deepEqual([await a.leave(), await b.leave()], ['NONE', 'NONE'])
      assert.equal((await remove()).results[0]?.errorCode, 0)
      await Promise.all([a.close(), b.close()])
    }))

  test('a group can be made before it has members', () =>
    withBroker(async (_, address, wire) => {
      const body = { groupId: 'g', sessionTimeoutMs: 7_000, startFrom: 1 }
      assert.equal((await wire.ask(ControllerCreateGroup, 0, body)).errorCode, 0)
      const { groups } = await wire.ask(ControllerListGroups, 0, { groupId: null })
      const [made] = groups
      assert.deepEqual([made?.groupId, made?.state, made?.sessionTimeoutMs], ['g', 'Empty', 7_000])
      const member = await LedMember.at(env, address)
      await member.register()
      assert.equal(member.owned.get('t:0'), 20, 'where the group says: at the latest')
      await member.close()
    }))
})

describe('what is wrong is said, and changes nothing', () => {
  const base = { groupId: 'g', memberId: '', registerTimeoutMs: 1_000, topics: ['t'] }

  test('RegisterConsumer', () =>
    withBroker(async (_, address, wire) => {
      const refused = async (body: object) =>
        kafkaErrorName((await wire.ask(RegisterConsumer, 0, { ...base, ...body })).errorCode)
      assert.equal(await refused({ groupId: '' }), 'INVALID_GROUP_ID')
      assert.equal(await refused({ groupId: 'x'.repeat(250) }), 'INVALID_GROUP_ID')
      assert.equal(await refused({ memberId: 'nobody' }), 'UNKNOWN_MEMBER_ID')
      assert.equal(await refused({ sessionTimeoutMs: 1 }), 'INVALID_SESSION_TIMEOUT')
      assert.equal(await refused({ sessionTimeoutMs: 2 ** 31 - 1 }), 'INVALID_SESSION_TIMEOUT')
      assert.equal(await refused({ sessionTimeoutMs: -2 }), 'INVALID_SESSION_TIMEOUT')
      assert.equal(await refused({ registerTimeoutMs: 0 }), 'INVALID_REQUEST')
      assert.equal(await refused({ registerTimeoutMs: 2 ** 31 - 1 }), 'INVALID_REQUEST')
      assert.equal(await refused({ startFrom: 3 }), 'INVALID_REQUEST')
      assert.equal(await refused({ capacity: -1 }), 'INVALID_REQUEST')
      assert.equal(await refused({ generationId: -7 }), 'INVALID_REQUEST')
      assert.equal(await refused({ instanceId: '' }), 'INVALID_REQUEST')
      assert.equal(await refused({ topicPattern: '(' }), 'INVALID_REGULAR_EXPRESSION')
      const { groups } = await wire.ask(ControllerListGroups, 0, { groupId: null })
      assert.deepEqual(groups, [], 'no group was made')
      const member = await LedMember.at(env, address)
      await member.register()
      const { memberId } = member
      assert.equal(await refused({ memberId, generationId: 9 }), 'ILLEGAL_GENERATION')
      assert.equal((await member.beat()).code, 'NONE')
      await member.close()
    }))

  test('ControllerHeartbeat, UnregisterConsumer, ControllerCreateGroup', () =>
    withBroker(async (_, address, wire) => {
      const member = await LedMember.at(env, address)
      await member.register()
      const { memberId, generation } = member
      const beat = async (body: object) => {
        const full = { groupId: 'g', memberId, generationId: generation, ...body }
        return kafkaErrorName((await wire.ask(ControllerHeartbeat, 0, full)).errorCode)
      }
      assert.equal(await beat({ groupId: '' }), 'INVALID_GROUP_ID')
      assert.equal(await beat({ groupId: 'other' }), 'UNKNOWN_MEMBER_ID')
      assert.equal(await beat({ memberId: 'nobody' }), 'UNKNOWN_MEMBER_ID')
      assert.equal(await beat({ generationId: generation - 1 }), 'ILLEGAL_GENERATION')
      assert.equal(await beat({ generationId: generation + 1 }), 'ILLEGAL_GENERATION')
      assert.equal(await beat({ maxWaitMs: -5 }), 'NONE')
      const leave = async (body: object) => {
        const full = { groupId: 'g', memberId, generationId: generation, ...body }
        return kafkaErrorName((await wire.ask(UnregisterConsumer, 0, full)).errorCode)
      }
      assert.equal(await leave({ memberId: 'nobody' }), 'UNKNOWN_MEMBER_ID')
      assert.equal(await leave({ groupId: 'other' }), 'UNKNOWN_MEMBER_ID')
      assert.equal(await leave({ generationId: generation + 1 }), 'ILLEGAL_GENERATION')
      const create = async (body: object) => {
        const full = { groupId: 'h', sessionTimeoutMs: 10_000, startFrom: 0, ...body }
        return kafkaErrorName((await wire.ask(ControllerCreateGroup, 0, full)).errorCode)
      }
      assert.equal(await create({ sessionTimeoutMs: 0 }), 'INVALID_SESSION_TIMEOUT')
      assert.equal(await create({ startFrom: -1 }), 'INVALID_REQUEST')
      assert.equal(await create({ groupId: '' }), 'INVALID_GROUP_ID')
      assert.equal((await member.beat()).code, 'NONE')
      await member.close()
    }))

  test('RewindConsumer', () =>
    withBroker(async (_, address, wire) => {
      const member = await LedMember.at(env, address)
      await member.register()
      assert.equal(await member.commit(0, 9), 'NONE')
      const code = async (
        ...asked: Parameters<typeof rewindTo> extends [Wire, ...infer R] ? R : []
      ) => (await rewindTo(wire, ...asked)).code
      assert.equal(await code({ 0: 1 }, { groupId: '' }), 'INVALID_GROUP_ID')
      assert.equal(await code({ 0: 1 }, { groupId: 'other' }), 'GROUP_ID_NOT_FOUND')
      assert.equal(await code({ 0: 1 }, { memberId: 'nobody' }), 'UNKNOWN_MEMBER_ID')
      const { memberId, generation } = member
      const older = { memberId, generationId: generation - 1 }
      assert.equal(await code({ 0: 1 }, older), 'ILLEGAL_GENERATION')
      assert.equal(await code({ 0: 1 }, { timeoutMs: -1 }), 'INVALID_REQUEST')
      assert.equal(await code({ 0: -4 }), 'INVALID_REQUEST')
      assert.equal(await code({ 0: -3 }), 'OPERATION_NOT_ATTEMPTED')
      assert.equal(await code({}), 'INVALID_REQUEST')
      assert.equal(await code({}, { offsets: [] }), 'INVALID_REQUEST')
      assert.equal(await code({ 0: 1, 7: 1 }), 'UNKNOWN_TOPIC_OR_PARTITION')
      assert.equal(await code({ 4294967: 1 }), 'UNKNOWN_TOPIC_OR_PARTITION')
      const twice = { topic: 't', partitions: [{ partition: 0, offset: 1 }] }
      assert.equal(await code({}, { offsets: [twice, twice] }), 'INVALID_REQUEST')
      assert.deepEqual(await member.beat(), { code: 'NONE', rewound: [] })
      assert.equal(await committedOf(wire, 0), 9)
      await member.close()
    }))
})

describe('a broker that is killed', () => {
  test('in the middle of a rewind: started again, its owner is told, and starts where it was said', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'playhead-controller-'))
    try {
      const first = await childBroker(dataDir)
      const wire = await Wire.connect(env, first.address)
      await fill(wire, 3)
      const member = await LedMember.at(env, first.address)
      assert.equal(await member.register(), 'NONE')
      assert.equal(await member.commit(1, 15), 'NONE')
      const told = member.beat(5_000)
      const pending = rewindTo(wire, { 1: 4, 2: 5 }, { timeoutMs: 0 })
      assert.deepEqual((await told).rewound, ['t:1', 't:2'])
      assert.equal((await pending).code, 'REWIND_PENDING')
      const before = member.generation
      await kill(first.child)

      const second = await childBroker(dataDir)
      const again = await LedMember.at(env, second.address)
      const { memberId, generation, topicIds } = member
      Object.assign(again, { memberId, generation, topicIds })
      assert.deepEqual((await again.beat()).rewound, ['t:1', 't:2'])
      assert.equal(await again.register({}, ['t:0']), 'NONE')
      assert.deepEqual([again.owned.get('t:1'), again.owned.get('t:2')], [4, 5])
      assert.equal(await again.commit(1, 16, before), 'ILLEGAL_GENERATION')
      await kill(second.child)

      // It is recorded: killed again at once, the offsets and the generation stand.
      const third = await childBroker(dataDir)
      const tool = await Wire.connect(env, third.address)
      assert.deepEqual([await committedOf(tool, 1), await committedOf(tool, 2)], [4, 5])
      const last = await LedMember.at(env, third.address)
      Object.assign(last, { memberId, generation: again.generation, topicIds })
      assert.equal((await last.beat()).code, 'NONE')
      assert.equal(await last.commit(1, 16, before), 'ILLEGAL_GENERATION')
      await kill(third.child)
    } finally {
      await rm(dataDir, { recursive: true })
    }
  })

  test('in the middle of a round: members register again and each partition has one owner', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'playhead-controller-'))
    try {
      const first = await childBroker(dataDir)
      const [a, b] = await pair(first.address, 3)
      const lost = assert.rejects(LedMember.at(env, first.address).then(c => c.register()))
      assert.equal((await a.beat(5_000)).code, 'GROUP_CHANGED')
      void a.register({}, [...a.owned.keys()]).catch(() => {})
      await kill(first.child)
      await lost
      const second = await childBroker(dataDir)
      const back = await Promise.all(
        [a, b].map(async ({ memberId, generation, topicIds, owned }) => {
          const member = await LedMember.at(env, second.address)
          return Object.assign(member, { memberId, generation, topicIds, owned })
        })
      )
      for (const member of back) assert.equal((await member.beat()).code, 'NONE')
      const c = await LedMember.at(env, second.address)
      const joined = c.register()
      for (const member of back) assert.equal((await member.beat(5_000)).code, 'GROUP_CHANGED')
      const all = await Promise.all([...back.map(member => member.register()), joined])
      assert.deepEqual(all, ['NONE', 'NONE', 'NONE'])
      const owned = [...back, c].flatMap(member => [...member.owned.keys()])
      assert.deepEqual(owned.sort(), ['t:0', 't:1', 't:2'])
      await kill(second.child)
    } finally {
      await rm(dataDir, { recursive: true })
    }
  })
})

/** None outlives a test that failed. */
const children = new Set<ChildProcess>()
after(() => {
  for (const child of children) child.kill('SIGKILL')
})

async function childBroker(dataDir: string): Promise<{ child: ChildProcess; address: string }> {
  const script = join(import.meta.dirname, 'child-broker.js')
  const child = spawn(process.execPath, [script, dataDir, 'os'], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  children.add(child)
  const [chunk] = await once(child.stdout, 'data')
  return { child, address: String(chunk).trim() }
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
  children.delete(child)
}
