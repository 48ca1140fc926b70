/** The host of groups under a virtual clock: deadlines, retention, and that nothing is told before it is stored. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VirtualClock } from '../../sim/world/clock.ts'
import type { Env } from '../../src/base/env.ts'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import type { Changes } from '../../src/base/store.ts'
import { GroupHost } from '../../src/broker/group-host.ts'
import { ClassicMembers, ConsumerMembers } from '../../src/broker/group.ts'
import { groupCount } from '../../src/broker/limits.ts'
import type { HeartbeatAnswer } from '../../src/group/consumer/heartbeat.ts'
import type { ConsumerEvent } from '../../src/group/consumer/machine.ts'
import type { ClassicAnswer } from '../../src/group/classic/answers.ts'
import type { ClassicEvent } from '../../src/group/classic/machine.ts'
import { commit, offsetOf } from '../../src/group/offsets/offsets.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { StageTopics } from '../group/stage.ts'

const day = 86_400_000

/** Commits when told to, or fails. */
class HeldStore extends MemoryStore {
  held = false
  fault: Error | undefined
  readonly #waiting: (() => void)[] = []

  override async commit(changes: Changes): Promise<void> {
    if (this.held) await new Promise<void>(resolve => this.#waiting.push(resolve))
    if (this.fault) throw this.fault
    await super.commit(changes)
  }

  release(): void {
    this.held = false
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}

function staged() {
  const clock = new VirtualClock()
  const errors: string[] = []
  const quiet = () => {}
  const log = {
    debug: quiet,
    info: quiet,
    warn: quiet,
    error: (message: string) => void errors.push(message)
  }
  const env: Env = { ...nodeEnv({ cpu: nodeCpu() }), clock, log }
  const store = new HeldStore()
  const topics = new StageTopics()
  const topic = topics.create('t', 2)
  const open = () => {
    const host = new GroupHost({ env, store, topics, log: () => undefined, settings: {} })
    host.load()
    return host
  }
  return { clock, errors, store, topics, topic, open, host: open() }
}

type Staged = ReturnType<typeof staged>

function beat(
  { host }: Pick<Staged, 'host'>,
  memberId: string,
  memberEpoch = 0
): Promise<HeartbeatAnswer> {
  const group = host.obtain('g', () => new ConsumerMembers())
  const { members } = group
  assert(members.type === 'consumer')
  return host.ask(
    group,
    members,
    (ticket): ConsumerEvent => ({
      kind: 'heartbeat',
      ticket,
      version: 1,
      client: { id: 'c', host: '/h' },
      request: {
        groupId: 'g',
        memberId,
        memberEpoch,
        instanceId: null,
        rackId: null,
        rebalanceTimeoutMs: 30_000,
        subscribedTopicNames: ['t'],
        subscribedTopicRegex: null,
        serverAssignor: null,
        topicPartitions: []
      }
    })
  )
}

function commitTo({ host, clock, topic }: Staged, groupId: string, offset: number): Promise<void> {
  const group = host.obtain(groupId, () => new ClassicMembers())
  const asked = [
    { topic: 't', topicId: topic.id, partition: 0, offset, leaderEpoch: -1, metadata: null }
  ]
  return host.take(group, commit(group.offsets, asked, { nowMs: clock.now() }).facts)
}

test('an answer waits for the store, and so do answers after it', async () => {
  const stage = staged()
  stage.store.held = true
  let answered = 0
  const count = () => {
    answered++
  }
  const both = [beat(stage, 'a').then(count), beat(stage, 'b').then(count)]
  await stage.clock.advance(10)
  assert.equal(answered, 0)
  stage.store.release()
  await Promise.all(both)
  assert.equal(answered, 2)
  stage.host.close()
})

test('what could not be stored is answered to nobody', async () => {
  const stage = staged()
  stage.store.fault = new Error('disk full')
  await assert.rejects(beat(stage, 'a'), /disk full/)
  await assert.rejects(commitTo(stage, 'h', 1), /disk full/)
  assert.deepEqual(new Set(stage.errors), new Set(['offsets could not be stored']))
  stage.host.close()
})

test('a member that is silent for its session is gone, at that moment', async () => {
  const stage = staged()
  await beat(stage, 'a')
  await stage.clock.advance(44_000)
  await beat(stage, 'b')
  const members = () => {
    const found = stage.host.get('g')?.members
    return found?.type === 'consumer' ? [...found.state.members.keys()] : []
  }
  await stage.clock.advance(999)
  assert.deepEqual(members(), ['a', 'b'])
  await stage.clock.advance(1)
  assert.deepEqual(members(), ['b'])
  await stage.clock.advance(45_000)
  assert.deepEqual(members(), [])
  stage.host.close()
})

test('offsets that nobody used for seven days are forgotten, and then their group', async () => {
  const stage = staged()
  await commitTo(stage, 'old', 1)
  await stage.clock.advance(6 * day)
  await commitTo(stage, 'young', 2)
  await stage.clock.advance(day + 600_000)
  assert.equal(stage.host.get('old'), undefined)
  const young = stage.host.get('young')
  assert.equal(young && offsetOf(young.offsets, 't', 0)?.offset, 2)
  stage.host.close()
  const again = stage.open()
  assert.deepEqual(
    [...again.all].map(({ id }) => id),
    ['young']
  )
  again.close()
})

test('offsets of a topic that was deleted while the broker was down are not there', async () => {
  const stage = staged()
  await commitTo(stage, 'g', 1)
  stage.host.close()
  stage.topics.delete('t')
  stage.topics.create('t', 2)
  const again = stage.open()
  const group = again.get('g')
  assert(group)
  assert.equal(offsetOf(group.offsets, 't', 0), undefined)
  again.close()
})

function join({ host }: Pick<Staged, 'host'>): Promise<ClassicAnswer> {
  const group = host.obtain('c', () => new ClassicMembers())
  const { members } = group
  assert(members.type === 'classic')
  return host.ask(
    group,
    members,
    (ticket): ClassicEvent => ({
      kind: 'join',
      ticket,
      version: 2,
      client: { id: 'c', host: '/h' },
      request: {
        groupId: 'c',
        sessionTimeoutMs: 10_000,
        rebalanceTimeoutMs: 10_000,
        memberId: '',
        groupInstanceId: null,
        protocolType: 'consumer',
        protocols: [{ name: 'range', metadata: Buffer.alloc(0) }],
        reason: null
      }
    })
  )
}

test('a closed host leaves no timer, and who waits for other members is told', async () => {
  const stage = staged()
  assert.equal((await join(stage)).errorCode, 0)
  const waiting = join(stage)
  stage.host.close()
  await assert.rejects(waiting, { code: 'CLOSED' })
  assert.equal(stage.clock.pending, 0)
})

test('there are only so many groups, and those of which nothing is left make room', async () => {
  const { host, clock } = staged()
  for (let n = 0; n < groupCount; n++) host.obtain(`g${n}`, () => new ClassicMembers())
  assert(host.obtain('one more', () => new ClassicMembers()))
  assert.equal([...host.all].length, 1)
  await clock.advance(1)
  host.close()
})
