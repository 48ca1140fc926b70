/**
 * The same heartbeats and commits, right and slightly wrong, to KIP-848 groups of the embedded broker and of Kafka (which
 * is told to assign at once, as ours does): epochs, partitions and error codes are the same.
 * PLAYHEAD_SEED repeats a run, PLAYHEAD_GROUPS makes it longer.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { ConsumerGroupDescribe } from '../../src/protocol/api/consumer-group-describe.ts'
import { IncrementalAlterConfigs } from '../../src/protocol/api/incremental-alter-configs.ts'
import { kafkaErrorName } from '../../src/protocol/errors.ts'
import {
  Member,
  commit,
  committed,
  coordinated,
  newTopic,
  unique,
  until
} from '../broker/group-wire.ts'
import { Wire } from '../broker/wire.ts'
import { kafka } from './cluster.ts'

const env = nodeEnv({ cpu: nodeCpu() })
const seed = Number(process.env['PLAYHEAD_SEED'] ?? 20_261_130)
const groups = Number(process.env['PLAYHEAD_GROUPS'] ?? 10)
const slots = 4
const groupResource = 32

const off = fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.constantFrom(-2, -1, 1))
const slot = fc.nat({ max: slots - 1 })
// Never none: of a group with a member that subscribes to nothing Kafka 4.4 leaves partitions without an owner.
const topics = fc.subarray([0, 1], { minLength: 1 })
const choice = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('join' as const), slot, topics }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('beat' as const), slot }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('odd' as const),
      slot,
      off,
      owned: fc.constantFrom('all', 'none', 'null', 'other')
    })
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('subscribe' as const), slot, topics }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('leave' as const), slot, for: fc.constantFrom(-1, -2) })
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('commit' as const),
      slot,
      off,
      partition: fc.nat({ max: 2 }),
      version: fc.constantFrom(8, 9)
    })
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('settle' as const) }) }
)
type Choice = typeof choice extends fc.Arbitrary<infer C> ? C : never

class Side {
  readonly wire: Wire
  readonly group: string
  readonly topics: readonly string[]
  readonly ids: readonly string[]
  members: Member[]
  #lives = 0

  private constructor(
    wire: Wire,
    group: string,
    topicNames: readonly string[],
    ids: readonly string[]
  ) {
    this.wire = wire
    this.group = group
    this.topics = topicNames
    this.ids = ids
    this.members = Array.from({ length: slots }, (_, n) => this.#member(n))
  }

  static async open(bootstrap: string, group: string, names: readonly string[]): Promise<Side> {
    const wire = await Wire.connect(env, bootstrap)
    await coordinated(wire, group)
    const ids = [await newTopic(wire, names[0] ?? '', 3), await newTopic(wire, names[1] ?? '', 2)]
    return new Side(wire, group, names, ids)
  }

  #member(n: number): Member {
    // Range gives by the order of ids: so that both sides must give the same.
    return new Member(this.wire, this.group, this.topics, `member-${n}-${this.#lives++}`)
  }

  async act(one: Choice): Promise<string> {
    if (one.do === 'settle') return this.#settle()
    const member = this.members[one.slot] as Member
    const instanceId = one.slot === 0 ? 'static' : null
    switch (one.do) {
      case 'join':
        if (member.epoch > 0) return 'in'
        return this.#taken(
          one.slot,
          await member.beat({
            instanceId,
            subscribedTopicNames: one.topics.map(n => this.topics[n] ?? ''),
            serverAssignor: 'range'
          })
        )
      case 'beat':
        if (member.epoch <= 0) return 'out'
        return this.#taken(one.slot, await member.beat({ instanceId }))
      case 'subscribe':
        if (member.epoch <= 0) return 'out'
        return this.#taken(
          one.slot,
          await member.beat({
            instanceId,
            subscribedTopicNames: one.topics.map(n => this.topics[n] ?? ''),
            serverAssignor: 'range'
          })
        )
      case 'odd': {
        if (member.epoch <= 0) return 'out'
        const other = [{ topicId: this.ids[0] ?? '', partitions: [0, 1, 2] }]
        const said = {
          all: {},
          none: { topicPartitions: [] },
          null: { topicPartitions: null },
          other: { topicPartitions: other }
        }
        const memberEpoch = Math.max(1, member.epoch + one.off)
        return this.#taken(
          one.slot,
          await member.beat({ instanceId, memberEpoch, ...said[one.owned] })
        )
      }
      case 'leave': {
        if (member.epoch <= 0) return 'out'
        const answer = await member.send({
          instanceId,
          memberEpoch: one.for,
          topicPartitions: null
        })
        if (answer.errorCode === 0) this.members[one.slot] = this.#member(one.slot)
        return kafkaErrorName(answer.errorCode)
      }
      case 'commit': {
        const epoch = member.epoch + one.off
        const { version, partition } = one
        const by = { memberId: member.id, epoch, version }
        const codes = await commit(
          this.wire,
          this.group,
          this.topics[0] ?? '',
          { [partition]: 7 },
          by
        )
        return codes.join()
      }
    }
  }

  /** Who is fenced gives up what it had, and is out until it joins. */
  #taken(n: number, name: string): string {
    if (
      name === 'FENCED_MEMBER_EPOCH' ||
      name === 'UNKNOWN_MEMBER_ID' ||
      name === 'FENCED_INSTANCE_ID'
    ) {
      Object.assign(this.members[n] as Member, { epoch: 0, owned: new Set() })
    }
    return name
  }

  async #settle(): Promise<string> {
    const said: string[] = []
    for (let round = 0; round < 4; round++) {
      for (const [n, member] of this.members.entries()) {
        const instanceId = n === 0 ? 'static' : null
        if (member.epoch > 0) said.push(this.#taken(n, await member.beat({ instanceId })))
      }
    }
    return said.join()
  }

  async look(): Promise<string> {
    const asked = { groupIds: [this.group], includeAuthorizedOperations: false }
    const { groups: found } = await this.wire.ask(ConsumerGroupDescribe, 1, asked)
    const group = found[0]
    const members = group?.members.map(({ memberId, memberEpoch, assignment }) => {
      const list = assignment.topicPartitions.map(
        ({ topicName, partitions }) =>
          `${this.topics.indexOf(topicName)}:${[...partitions].sort((a, b) => a - b).join('')}`
      )
      return `${memberId}@${memberEpoch} ${list.sort().join('+')}`
    })
    // Accepted: Kafka computes a target with the next heartbeat, ours at once.
    const state = group?.groupState === 'Assigning' ? 'Reconciling' : group?.groupState
    const offsets = Object.entries(await committed(this.wire, this.group))
      .map(String)
      .sort()
      .join(' ')
      .replaceAll(this.topics[0] ?? '', 't')
    const mine = this.members.map(({ epoch, count }) => `${epoch}:${count}`).join()
    return `${state} ${group?.groupEpoch} [${members?.sort().join('; ')}] ${mine} ${offsets}`
  }
}

async function assignAtOnce(wire: Wire, group: string): Promise<void> {
  const configs = [
    { name: 'consumer.assignment.interval.ms', configOperation: 0, value: '0' },
    { name: 'consumer.assignor.offload.enable', configOperation: 0, value: 'false' }
  ]
  const resources = [{ resourceType: groupResource, resourceName: group, configs }]
  const answer = await wire.ask(IncrementalAlterConfigs, 1, { resources, validateOnly: false })
  assert.equal(answer.responses[0]?.errorCode, 0, answer.responses[0]?.errorMessage ?? '')
}

/**
 * Kafka's coordinator hears of new topics, and of how groups are assigned, in its own time, and in order: it knows what was
 * asked for the group once two changes in a row take effect at once in another.
 */
async function known(wire: Wire, names: readonly string[]): Promise<void> {
  const group = unique('probe')
  await coordinated(wire, group)
  await assignAtOnce(wire, group)
  const probe = new Member(wire, group, names)
  await until([probe], () => probe.count === 5)
  for (let atOnce = 0, n = 0; atOnce < 2; n++) {
    const { epoch } = probe
    await probe.beat({ serverAssignor: n % 2 === 0 ? 'range' : 'uniform' })
    atOnce = probe.epoch > epoch ? atOnce + 1 : 0
  }
}

test('KIP-848 groups answer as Kafka’s, whatever they are sent', async () => {
  await using broker = await Broker.start()
  for (const [run, choices] of fc
    .sample(fc.array(choice, { minLength: 50, maxLength: 50 }), { seed, numRuns: groups })
    .entries()) {
    const names = [unique('topic'), unique('topic')]
    const group = unique('group')
    const ours = await Side.open(broker.bootstrap[0] ?? '', group, names)
    const theirs = await Side.open(kafka.bootstrap[0] ?? '', group, names)
    const story: string[] = []
    try {
      await assignAtOnce(theirs.wire, group)
      await known(theirs.wire, names)
      for (const one of choices) {
        const answers = [await ours.act(one), await theirs.act(one)]
        const looks = [await ours.look(), await theirs.look()]
        story.push(`${JSON.stringify(one)} -> ${answers[0]}: ${looks[0]}`)
        const what = `seed ${seed}, group ${run}:\n${story.slice(-25).join('\n')}\nbut Kafka: ${answers[1]}: ${looks[1]}`
        assert.equal(answers[0], answers[1], what)
        assert.equal(looks[0], looks[1], what)
      }
    } finally {
      await Promise.all([ours.wire.close(), theirs.wire.close()])
    }
  }
})
