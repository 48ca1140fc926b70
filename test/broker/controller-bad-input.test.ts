/**
 * Bad input of the controller's six requests: the protocol's error, and then everything is as it was: what is stored to
 * the byte, what tools are shown, and the heartbeat that a member has waiting.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { silentLog } from '../../src/base/node/log.ts'
import { type EmbeddedBroker, startBroker } from '../../src/broker/broker.ts'
import { ConsumerGroupHeartbeat } from '../../src/protocol/api/consumer-group-heartbeat.ts'
import { ControllerCreateGroup } from '../../src/protocol/api/controller-create-group.ts'
import { ControllerHeartbeat } from '../../src/protocol/api/controller-heartbeat.ts'
import { ControllerListGroups } from '../../src/protocol/api/controller-list-groups.ts'
import { RegisterConsumer } from '../../src/protocol/api/register-consumer.ts'
import { RewindConsumer } from '../../src/protocol/api/rewind-consumer.ts'
import { UnregisterConsumer } from '../../src/protocol/api/unregister-consumer.ts'
import { kafkaErrorName } from '../../src/protocol/errors.ts'
import { encodeRequest } from '../../src/protocol/frame.ts'
import type { Api, Fields, Written } from '../../src/protocol/schema.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { LedMember } from './controller-wire.ts'
import { Wire, batchOf } from './wire.ts'

// A connection that is closed for its bytes is said: hundreds are here.
const env = nodeEnv({ cpu: nodeCpu(), log: silentLog })
const huge = 2 ** 31 - 1
const least = -(2 ** 31)
const tooLong = 'x'.repeat(250)

type Body = { readonly [field: string]: unknown }
/** What is changed in a good request, and the error of the answer. */
type Case = readonly [change: Body, error: string]

interface Subject {
  readonly api: Api
  readonly good: Body
  readonly cases: readonly Case[]
}

let broker: EmbeddedBroker
let store: MemoryStore
let wire: Wire
let member: LedMember
let held: Promise<{ code: string }>
let isHeld = true

before(async () => {
  store = new MemoryStore()
  broker = await startBroker({ env, store }, { brokers: 2, topics: { t: 2 } })
  broker.moveController('g', 1)
  broker.moveController('other', 1)
  for (const partition of [0, 1]) await broker.moveLeader('t', partition, 1)
  const address = broker.bootstrap[0] ?? ''
  wire = await Wire.connect(env, address)
  await wire.produce('t', 0, batchOf(['a', 'b', 'c']))
  // A group of another protocol, which has a member.
  broker.moveController('kip848', 1)
  const joined = await wire.ask(ConsumerGroupHeartbeat, 1, {
    groupId: 'kip848',
    memberId: 'me',
    memberEpoch: 0,
    rebalanceTimeoutMs: 60_000,
    subscribedTopicNames: ['t'],
    topicPartitions: []
  })
  assert.equal(joined.errorCode, 0)
  member = await LedMember.at(env, address)
  assert.equal(await member.register(), 'NONE')
  assert.equal(await member.commit(0, 2), 'NONE')
  held = member.beat(60_000)
  held.then(
    () => (isHeld = false),
    () => {}
  )
})

after(async () => {
  await Promise.all([wire.close(), member.close()])
  await broker.close()
})

function subjects(): readonly Subject[] {
  const { memberId, generation } = member
  const groupIds: readonly Case[] = [
    [{ groupId: '' }, 'INVALID_GROUP_ID'],
    [{ groupId: tooLong }, 'INVALID_GROUP_ID']
  ]
  const elsewhere: readonly Case[] = [
    ...groupIds,
    [{ groupId: 'kip848' }, 'INCONSISTENT_GROUP_PROTOCOL']
  ]
  const unknown: readonly Case[] = [
    ...elsewhere,
    [{ groupId: 'other' }, 'UNKNOWN_MEMBER_ID'],
    [{ memberId: 'nobody' }, 'UNKNOWN_MEMBER_ID']
  ]
  const ahead: readonly Case[] = [
    [{ generationId: generation + 1 }, 'ILLEGAL_GENERATION'],
    [{ generationId: huge }, 'ILLEGAL_GENERATION']
  ]
  return [
    { api: ControllerListGroups, good: { groupId: 'g' }, cases: elsewhere },
    {
      api: ControllerCreateGroup,
      good: { groupId: 'new', sessionTimeoutMs: 10_000, startFrom: 0 },
      cases: [
        ...elsewhere,
        ...[least, -1, 0, 1, huge].map(
          (sessionTimeoutMs): Case => [{ sessionTimeoutMs }, 'INVALID_SESSION_TIMEOUT']
        ),
        ...[-128, -1, 3, 127].map((startFrom): Case => [{ startFrom }, 'INVALID_REQUEST'])
      ]
    },
    {
      api: RegisterConsumer,
      good: {
        groupId: 'g',
        memberId,
        generationId: generation,
        registerTimeoutMs: 1_000,
        topics: ['t'],
        kept: []
      },
      cases: [
        ...unknown,
        ...ahead,
        ...[least, -2].map((generationId): Case => [{ generationId }, 'INVALID_REQUEST']),
        ...[least, -2, 0, 1, huge].map(
          (sessionTimeoutMs): Case => [{ sessionTimeoutMs }, 'INVALID_SESSION_TIMEOUT']
        ),
        ...[least, -1, 0, huge].map(
          (registerTimeoutMs): Case => [{ registerTimeoutMs }, 'INVALID_REQUEST']
        ),
        ...[-128, -2, 3, 127].map((startFrom): Case => [{ startFrom }, 'INVALID_REQUEST']),
        ...[least, -1].map((capacity): Case => [{ capacity }, 'INVALID_REQUEST']),
        [{ instanceId: '' }, 'INVALID_REQUEST'],
        [{ topicPattern: '(' }, 'INVALID_REGULAR_EXPRESSION'],
        [{ topicPattern: 'a{1,99999}' }, 'INVALID_REGULAR_EXPRESSION'],
        [{ groupId: '', memberId: '' }, 'INVALID_GROUP_ID'],
        [{ groupId: 'new', memberId: '', startFrom: 9 }, 'INVALID_REQUEST']
      ]
    },
    {
      api: ControllerHeartbeat,
      good: { groupId: 'g', memberId, generationId: generation, maxWaitMs: 0 },
      cases: [
        ...unknown,
        ...ahead,
        [{ memberId: '' }, 'UNKNOWN_MEMBER_ID'],
        ...[least, -1, generation - 1].map(
          (generationId): Case => [{ generationId }, 'ILLEGAL_GENERATION']
        )
      ]
    },
    { api: RewindConsumer, good: rewind({}), cases: rewinds(elsewhere) },
    {
      api: UnregisterConsumer,
      good: { groupId: 'g', memberId, generationId: generation },
      cases: [
        ...unknown,
        ...ahead,
        [{ memberId: '' }, 'UNKNOWN_MEMBER_ID'],
        [{ generationId: least }, 'ILLEGAL_GENERATION'],
        [{ generationId: -2 }, 'ILLEGAL_GENERATION']
      ]
    }
  ]
}

function rewind(change: Body, topic = 't'): Body {
  const offsets = [{ topic, partitions: [{ partition: 0, offset: 1, ...change }] }]
  return { groupId: 'g', timeoutMs: 1_000, offsets }
}

function rewinds(common: readonly Case[]): readonly Case[] {
  const { memberId, generation } = member
  const one = { topic: 't', partitions: [{ partition: 0, offset: 1 }] }
  const back = { topic: 't', partitions: [{ partition: 1, offset: -3 }] }
  return [
    ...common,
    [{ groupId: 'other' }, 'GROUP_ID_NOT_FOUND'],
    [{ memberId: 'nobody' }, 'UNKNOWN_MEMBER_ID'],
    [{ memberId: '' }, 'UNKNOWN_MEMBER_ID'],
    ...[least, -1, generation - 1, generation + 1, huge].map(
      (generationId): Case => [{ memberId, generationId }, 'ILLEGAL_GENERATION']
    ),
    [{ timeoutMs: -1 }, 'INVALID_REQUEST'],
    [{ timeoutMs: least }, 'INVALID_REQUEST'],
    [{ offsets: [] }, 'INVALID_REQUEST'],
    [{ offsets: [{ topic: 't', partitions: [] }] }, 'INVALID_REQUEST'],
    [{ offsets: [one, one] }, 'INVALID_REQUEST'],
    [{ offsets: [one, back] }, 'INVALID_REQUEST'],
    [rewind({ offset: -4 }), 'INVALID_REQUEST'],
    [rewind({ offset: Number.MIN_SAFE_INTEGER }), 'INVALID_REQUEST'],
    [rewind({ until: -2 }), 'INVALID_REQUEST'],
    [rewind({ resume: -2 }), 'INVALID_REQUEST'],
    [rewind({ rewindId: 7 }), 'INVALID_REQUEST'],
    [rewind({ offset: -3, rewindId: -1 }), 'INVALID_REQUEST'],
    [rewind({ offset: -3 }), 'OPERATION_NOT_ATTEMPTED'],
    [rewind({ offset: -3, rewindId: 7 }), 'OPERATION_NOT_ATTEMPTED'],
    ...[least, -1, 2, huge].map(
      (partition): Case => [rewind({ partition }), 'UNKNOWN_TOPIC_OR_PARTITION']
    ),
    [rewind({}, ''), 'UNKNOWN_TOPIC_OR_PARTITION'],
    [rewind({}, 'nowhere'), 'UNKNOWN_TOPIC_OR_PARTITION'],
    [rewind({ offset: -3 }, 'nowhere'), 'UNKNOWN_TOPIC_OR_PARTITION'],
    [
      { offsets: [one, { topic: 'nowhere', partitions: [{ partition: 0, offset: 1 }] }] },
      'UNKNOWN_TOPIC_OR_PARTITION'
    ]
  ]
}

/** Everything that could have changed. */
async function world() {
  const stored = [...store.range({ from: Buffer.alloc(0), to: Buffer.alloc(1024, 0xff) })]
  const { groups } = await wire.ask(ControllerListGroups, 0, { groupId: null })
  const { groups: one } = await wire.ask(ControllerListGroups, 0, { groupId: 'g' })
  const bytes = stored.map(({ key, value }) => `${key.toString('hex')}=${value.toString('hex')}`)
  return { bytes, groups, one, isHeld }
}

async function ask(api: Api, body: Body, over = wire): Promise<string> {
  const answer = (await over.ask(api, 0, body)) as { errorCode?: number }
  return kafkaErrorName(answer.errorCode ?? -1)
}

describe('bad input of the controller’s requests', () => {
  test('each field negative, huge or of nobody: the protocol’s error, and nothing has changed', async () => {
    const was = await world()
    for (const { api, good, cases } of subjects()) {
      for (const [change, error] of cases) {
        const said = `${api.name} with ${JSON.stringify(change).slice(0, 120)}`
        assert.equal(await ask(api, { ...good, ...change }), error, said)
        assert.deepEqual(await world(), was, `${said} has changed something`)
      }
    }
  })

  test('each field missing: the connection ends, and nothing has changed', async () => {
    const was = await world()
    const address = broker.bootstrap[0] ?? ''
    for (const { api, good } of subjects()) {
      const header = { correlationId: 1, clientId: 'cut' }
      const whole = Buffer.concat(encodeRequest(api, 0, header, good as Written<Fields>))
      // Size, API, version, correlation id, client id, tags: a body begins behind them.
      for (let length = 4 + 2 + 2 + 4 + 2 + 3 + 1; length < whole.length; length++) {
        const cut = Buffer.from(whole.subarray(0, length))
        cut.writeInt32BE(length - 4)
        const connection = await Wire.connect(env, address)
        connection.send(cut)
        await connection.closed
        assert.deepEqual(connection.answered, [], `${api.name}, cut after ${length} bytes`)
      }
    }
    assert.deepEqual(await world(), was)
  })

  test('the wrong broker: NOT_COORDINATOR, but any broker lists', async () => {
    const was = await world()
    const other = await Wire.connect(env, broker.bootstrap[1] ?? '')
    for (const { api, good } of subjects()) {
      const expected = api.key === ControllerListGroups.key ? 'NONE' : 'NOT_COORDINATOR'
      const body = { ...good, groupId: 'g' }
      assert.equal(await ask(api, body, other), expected, api.name)
    }
    await other.close()
    assert.deepEqual(await world(), was)
  })

  test('after all that the group works: a rewind reaches the heartbeat that was held', async () => {
    const moved = ask(RewindConsumer, rewind({}))
    assert.equal((await held).code, 'PARTITIONS_REWOUND')
    assert.equal(await member.register({}, ['t:1']), 'NONE')
    assert.equal(await moved, 'NONE')
    assert.equal(member.owned.get('t:0'), 1)
  })
})
