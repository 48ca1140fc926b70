/** The KIP-848 member's machine against a small model of the coordinator, in any order of events. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  apply,
  checkInvariants,
  type ConsumerMember,
  consumerMember,
  decide
} from '../../src/group/member/consumer.ts'
import type { HeartbeatAnswer, HeartbeatRequest } from '../../src/group/member/consumer-words.ts'
import {
  type Lease,
  leaseKey,
  type MemberAction,
  type MemberEvent
} from '../../src/group/member/protocol.ts'
import { KafkaError } from '../../src/protocol/errors.ts'

const topic = 'AAAAAAAAAAAAAAAAAAAAAQ'
const config = {
  memberId: 'ph1-m',
  instanceId: null,
  rackId: null,
  rebalanceTimeoutMs: 300_000,
  serverAssignor: null
}

/** A member, what it was told to do, and a coordinator that plays fair. */
class Story {
  member: ConsumerMember = consumerMember(config, { topics: ['t'], regex: null })
  now = 0
  request: HeartbeatRequest | undefined
  /** What the application may be reading. */
  readonly delivering = new Map<string, Lease>()
  /** Asked back, not yet released. */
  readonly toRelease = new Map<string, Lease>()
  readonly done: MemberAction<HeartbeatRequest>['do'][] = []
  // The coordinator's.
  epoch = -1
  target: readonly number[] = [0, 1]
  /** What it last told the member to have. */
  told: readonly number[] | undefined
  /** What the member said last that it has. */
  said: readonly number[] = []

  tell(event: MemberEvent<HeartbeatAnswer>): void {
    const { facts, actions } = decide(this.member, event, this.now)
    for (const fact of facts) this.member = apply(this.member, fact)
    checkInvariants(this.member)
    for (const action of actions) this.#do(action)
  }

  #do(action: MemberAction<HeartbeatRequest>): void {
    this.done.push(action.do)
    if (action.do === 'request') {
      assert.equal(this.request, undefined, 'one request at a time')
      this.request = action.request
      const said = action.request.topicPartitions?.flatMap(t => t.partitions)
      for (const key of this.delivering.keys()) {
        const partition = Number(key.split('/')[1])
        assert.ok(said?.includes(partition) ?? true, `${key} is in use and would be given away`)
      }
      for (const key of this.toRelease.keys()) {
        const partition = Number(key.split('/')[1])
        assert.ok(
          said?.includes(partition) ?? true,
          `${key} is not released and would be given away`
        )
      }
    }
    if (action.do === 'assign') {
      for (const lease of action.leases) {
        assert.ok(!this.delivering.has(leaseKey(lease)), 'nothing is assigned twice')
        assert.ok(!this.toRelease.has(leaseKey(lease)), 'nor before it was released')
        this.delivering.set(leaseKey(lease), lease)
      }
    }
    if (action.do === 'revoke' || action.do === 'lose') {
      for (const lease of action.leases) {
        const key = leaseKey(lease)
        assert.ok(this.delivering.delete(key) || this.toRelease.has(key), 'only what it has')
        if (action.do === 'revoke') this.toRelease.set(key, lease)
        else this.toRelease.delete(key)
      }
    }
  }

  /** The coordinator handles the request in flight. */
  answer(): HeartbeatAnswer | undefined {
    const { request } = this
    if (request === undefined) return undefined
    const answer = (errorCode: number, assignment: readonly number[] | null): HeartbeatAnswer => ({
      errorCode,
      errorMessage: null,
      memberEpoch: this.epoch,
      heartbeatIntervalMs: 5_000,
      assignment:
        assignment === null
          ? null
          : { topicPartitions: [{ topicId: topic, partitions: assignment }] }
    })
    if (request.memberEpoch < 0) {
      this.epoch = -1
      return answer(KafkaError.NONE, null)
    }
    if (request.memberEpoch === 0) {
      this.epoch = 1
      this.said = []
      this.told = this.target
      return answer(KafkaError.NONE, this.target)
    }
    if (this.epoch < 0) return answer(KafkaError.UNKNOWN_MEMBER_ID, null)
    this.said = request.topicPartitions?.flatMap(t => t.partitions) ?? this.said
    this.epoch += 1
    if (this.told === this.target) return answer(KafkaError.NONE, null)
    this.told = this.target
    return answer(KafkaError.NONE, this.target)
  }

  settle(answered: HeartbeatAnswer | undefined): void {
    this.request = undefined
    this.tell(answered === undefined ? { on: 'unanswered' } : { on: 'answered', answer: answered })
  }

  /** Time passes to the next moment that the member waits for. */
  wake(): void {
    if (this.request !== undefined || this.member.wakeAt === Infinity) return
    this.now = Math.max(this.now, this.member.wakeAt)
    this.tell({ on: 'wake' })
  }

  release(): void {
    const leases = [...this.toRelease.values()]
    this.toRelease.clear()
    if (leases.length > 0) this.tell({ on: 'released', leases })
  }
}

const steps = [
  'wake',
  'answer',
  'answer',
  'answer lost',
  'request lost',
  'not coordinator',
  'fenced',
  'expelled',
  'release',
  'target',
  'overdue',
  'caughtUp',
  'subscribed'
] as const

function step(story: Story, name: (typeof steps)[number], target: readonly number[]): void {
  const failure = (errorCode: number): HeartbeatAnswer => ({
    errorCode,
    errorMessage: null,
    memberEpoch: 0,
    heartbeatIntervalMs: 0,
    assignment: null
  })
  const inFlight = story.request !== undefined
  story.now += 10
  if (name === 'wake') story.wake()
  else if (name === 'answer' && inFlight) story.settle(story.answer())
  else if (name === 'answer lost' && inFlight) {
    story.answer()
    // What it told is told again: a full request gets the whole assignment.
    story.told = undefined
    story.settle(undefined)
  } else if (name === 'request lost' && inFlight) story.settle(undefined)
  else if (name === 'not coordinator' && inFlight) story.settle(failure(KafkaError.NOT_COORDINATOR))
  else if (name === 'fenced' && inFlight) {
    story.epoch = -1
    story.settle(failure(KafkaError.FENCED_MEMBER_EPOCH))
  } else if (name === 'expelled') story.epoch = -1
  else if (name === 'release') story.release()
  else if (name === 'target') story.target = target
  else if (name === 'overdue' || name === 'caughtUp') story.tell({ on: name })
  else if (name === 'subscribed') {
    story.tell({ on: 'subscribed', subscription: { topics: ['t', 'u'], regex: null } })
  }
}

const anyStory = fc.array(
  fc.record({
    name: fc.constantFrom(...steps),
    target: fc.subarray([0, 1, 2, 3, 4])
  }),
  { maxLength: 60 }
)

test('whatever happens, nothing in use is given away, and after it the member owns its target', () => {
  fc.assert(
    fc.property(anyStory, story => {
      const it = new Story()
      it.tell({ on: 'start' })
      for (const { name, target } of story) step(it, name, target)
      // Quiet: everything is answered and released.
      it.tell({ on: 'caughtUp' })
      for (let i = 0; i < 12; i++) {
        it.release()
        it.wake()
        if (it.request !== undefined) it.settle(it.answer())
      }
      assert.equal(it.member.phase, 'member')
      const owned = [...it.delivering.values()].map(l => l.partition).sort((a, b) => a - b)
      assert.deepEqual(owned, it.target)
      assert.deepEqual(
        it.said.toSorted((a, b) => a - b),
        it.target,
        'and has said so'
      )
    }),
    { numRuns: 500 }
  )
})

test('close leaves, whatever went before, and ends once that is answered', () => {
  fc.assert(
    fc.property(anyStory, story => {
      const it = new Story()
      it.tell({ on: 'start' })
      for (const { name, target } of story) step(it, name, target)
      it.delivering.clear()
      it.toRelease.clear()
      it.tell({ on: 'close' })
      for (let i = 0; i < 6; i++) {
        it.wake()
        if (it.request !== undefined) it.settle(it.answer())
      }
      assert.equal(it.done.at(-1), 'left')
      assert.equal(it.epoch, -1, 'the coordinator knows')
      assert.equal(it.member.wakeAt, Infinity)
    }),
    { numRuns: 300 }
  )
})

test('a join and the request after a failure say everything; others only what changed', () => {
  const it = new Story()
  it.tell({ on: 'start' })
  assert.deepEqual(it.request?.subscribedTopicNames, ['t'])
  assert.deepEqual(it.request?.topicPartitions, [])
  it.settle(it.answer())
  assert.equal(it.request?.subscribedTopicNames, undefined)
  assert.deepEqual(it.request?.topicPartitions, [{ topicId: topic, partitions: [0, 1] }])
  it.settle(it.answer())
  it.wake()
  assert.equal(it.request?.topicPartitions, undefined)
  it.settle(undefined)
  it.wake()
  assert.deepEqual(it.request?.subscribedTopicNames, ['t'])
  assert.deepEqual(it.request?.topicPartitions, [{ topicId: topic, partitions: [0, 1] }])
})

test('a static member leaves with -2, and waits for its former self', () => {
  const it = new Story()
  it.member = consumerMember({ ...config, instanceId: 'i' }, { topics: ['t'], regex: null })
  it.tell({ on: 'start' })
  it.settle({
    errorCode: KafkaError.UNRELEASED_INSTANCE_ID,
    errorMessage: null,
    memberEpoch: 0,
    heartbeatIntervalMs: 0,
    assignment: null
  })
  assert.equal(it.request, undefined)
  it.wake()
  it.settle(it.answer())
  it.settle(it.answer())
  it.delivering.clear()
  it.tell({ on: 'close' })
  assert.equal((it.request as HeartbeatRequest | undefined)?.memberEpoch, -2)
})

test('a refusal for good is final', () => {
  const it = new Story()
  it.tell({ on: 'start' })
  it.settle({
    errorCode: KafkaError.GROUP_AUTHORIZATION_FAILED,
    errorMessage: 'no',
    memberEpoch: 0,
    heartbeatIntervalMs: 0,
    assignment: null
  })
  assert.deepEqual(it.done, ['request', 'fail'])
  assert.equal(it.member.wakeAt, Infinity)
})
