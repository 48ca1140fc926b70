/**
 * The same requests, right and slightly wrong, to groups of the embedded broker and of Kafka: the answers are the same.
 * PLAYHEAD_SEED repeats a run, PLAYHEAD_GROUPS makes it longer.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { ApiVersions } from '../../src/protocol/api/api-versions.ts'
import { DeleteGroups } from '../../src/protocol/api/delete-groups.ts'
import { DescribeGroups } from '../../src/protocol/api/describe-groups.ts'
import { Heartbeat } from '../../src/protocol/api/heartbeat.ts'
import { JoinGroup } from '../../src/protocol/api/join-group.ts'
import { LeaveGroup } from '../../src/protocol/api/leave-group.ts'
import { OffsetDelete } from '../../src/protocol/api/offset-delete.ts'
import { SyncGroup } from '../../src/protocol/api/sync-group.ts'
import { kafkaErrorName } from '../../src/protocol/errors.ts'
import { subscription } from '../broker/classic-wire.ts'
import { commit, committed, coordinated, newTopic, unique } from '../broker/group-wire.ts'
import { Wire } from '../broker/wire.ts'
import { kafka } from './cluster.ts'

const env = nodeEnv({ cpu: nodeCpu() })
const seed = Number(process.env['PLAYHEAD_SEED'] ?? 20_261_130)
const groups = Number(process.env['PLAYHEAD_GROUPS'] ?? 4)
const slots = 4

/** A client on one side. */
interface Slot {
  readonly wire: Wire
  memberId: string
  generation: number
  waits: boolean
}

/** How far from the truth a request is. */
const off = fc.oneof({ weight: 6, arbitrary: fc.constant(0) }, fc.constantFrom(-1, 1))
const slot = fc.nat({ max: slots - 1 })
const version = fc.constantFrom(1, 3, 5, 9)
const choice = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('join' as const),
      slot,
      version,
      protocol: fc.nat({ max: 2 }),
      wrong: off
    })
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('sync' as const), slot, off }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('beat' as const), slot, off, alone: fc.boolean() })
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('leave' as const),
      slot,
      how: fc.nat({ max: 2 }),
      version: fc.constantFrom(2, 5)
    })
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('commit' as const),
      slot,
      off,
      by: fc.nat({ max: 2 }),
      version: fc.constantFrom(5, 8, 9)
    })
  },
  fc.record({ do: fc.constant('forget' as const), partition: fc.nat({ max: 1 }) }),
  fc.record({ do: fc.constant('delete' as const) })
)
type Choice = typeof choice extends fc.Arbitrary<infer C> ? C : never

const protocols = (topic: string) => [
  [{ name: 'range', metadata: subscription([topic]) }],
  [
    { name: 'sticky', metadata: subscription([topic]) },
    { name: 'range', metadata: subscription([topic]) }
  ],
  [{ name: 'sticky', metadata: subscription([topic]) }]
]

class Side {
  readonly control: Wire
  readonly slots: readonly Slot[]
  readonly group: string
  readonly topic: string
  readonly answers: string[] = []
  #leader = ''

  private constructor(control: Wire, wires: readonly Wire[], group: string, topic: string) {
    this.control = control
    this.slots = wires.map(wire => ({ wire, memberId: '', generation: -1, waits: false }))
    this.group = group
    this.topic = topic
  }

  static async open(bootstrap: string, group: string, topic: string): Promise<Side> {
    const connect = () => Wire.connect(env, bootstrap)
    const control = await connect()
    await coordinated(control, group)
    await newTopic(control, topic, 2)
    return new Side(
      control,
      await Promise.all(Array.from({ length: slots }, connect)),
      group,
      topic
    )
  }

  async close(): Promise<void> {
    await Promise.all(
      [this.control, ...this.slots.map(({ wire }) => wire)].map(wire => wire.close())
    )
  }

  /** Sends it; the answer, when it comes, is told by its index. False: the client is waiting. */
  send(index: number, one: Choice): boolean {
    const at = 'slot' in one ? (this.slots[one.slot] as Slot) : undefined
    if (at?.waits) return false
    if (at) at.waits = true
    const done = this.#ask(one, at).then(
      answer => `${one.do} ${answer}`,
      error => `${one.do} ${error}`
    )
    void done.then(answer => {
      if (at) at.waits = false
      this.answers[index] = answer
    })
    return true
  }

  async #ask(one: Choice, at: Slot | undefined): Promise<string> {
    const { group: groupId, topic } = this
    const instance = (which: number) => (which === 0 ? 'static' : null)
    if (one.do === 'delete') {
      const { results } = await this.control.ask(DeleteGroups, 2, { groupsNames: [groupId] })
      return kafkaErrorName(results[0]?.errorCode ?? -1)
    }
    if (one.do === 'forget') {
      const topics = [{ name: topic, partitions: [{ partitionIndex: one.partition }] }]
      const answer = await this.control.ask(OffsetDelete, 0, { groupId, topics })
      const codes = answer.topics.flatMap(({ partitions }) => partitions.map(p => p.errorCode))
      return [answer.errorCode, ...codes].map(kafkaErrorName).join()
    }
    assert(at)
    if (one.do === 'join') return this.#join(one, at, one.version >= 5 ? instance(one.slot) : null)
    const generation = at.generation + ('off' in one ? one.off : 0)
    if (one.do === 'sync') {
      const assignments = this.slots.map(({ memberId }, n) => ({
        memberId,
        assignment: Buffer.from(`a${n}`)
      }))
      const answer = await at.wire.ask(SyncGroup, 3, {
        groupId,
        generationId: generation,
        memberId: at.memberId,
        groupInstanceId: instance(one.slot),
        assignments: assignments.filter(({ memberId }) => memberId !== '')
      })
      return `${kafkaErrorName(answer.errorCode)} ${answer.assignment.toString()}`
    }
    if (one.do === 'beat') {
      const groupInstanceId = one.alone ? null : instance(one.slot)
      const answer = await at.wire.ask(Heartbeat, 3, {
        groupId,
        generationId: generation,
        memberId: at.memberId,
        groupInstanceId
      })
      return kafkaErrorName(answer.errorCode)
    }
    if (one.do === 'leave') return this.#leave(one, at)
    const epoch = one.by === 0 ? -1 : generation
    const memberId = one.by === 2 ? 'nobody' : one.by === 0 ? '' : at.memberId
    return (
      await commit(
        at.wire,
        groupId,
        topic,
        { 0: generation + 1 },
        { memberId, epoch, version: one.version }
      )
    ).join()
  }

  async #join(
    one: Choice & { do: 'join' },
    at: Slot,
    groupInstanceId: string | null
  ): Promise<string> {
    const answer = await at.wire.ask(JoinGroup, one.version, {
      groupId: this.group,
      sessionTimeoutMs: one.wrong === -1 ? 5 : 60_000,
      rebalanceTimeoutMs: 60_000,
      memberId: at.memberId,
      groupInstanceId,
      protocolType: one.wrong === 1 ? 'other' : 'consumer',
      protocols: protocols(this.topic)[one.protocol] ?? []
    })
    const name = kafkaErrorName(answer.errorCode)
    if (name === 'NONE' || name === 'MEMBER_ID_REQUIRED') at.memberId = answer.memberId
    else if (name === 'UNKNOWN_MEMBER_ID' || name === 'FENCED_INSTANCE_ID') at.memberId = ''
    if (name === 'NONE') at.generation = answer.generationId ?? -1
    if (name === 'NONE') this.#leader = answer.leader
    const { generationId, protocolName } = answer
    return `${name} ${generationId} ${protocolName}`
  }

  /** Which client leads. */
  get leader(): number {
    return this.slots.findIndex(({ memberId }) => memberId === this.#leader)
  }

  async #leave(one: Choice & { do: 'leave' }, at: Slot): Promise<string> {
    const { group: groupId } = this
    const memberId = one.how === 1 ? 'nobody' : at.memberId
    const byInstance = { memberId: '', groupInstanceId: 'static' }
    const members = one.how === 2 ? [byInstance, { memberId }] : [{ memberId }]
    const answer = await at.wire.ask(
      LeaveGroup,
      one.version,
      one.version < 3 ? { groupId, memberId } : { groupId, members }
    )
    return [answer.errorCode, ...answer.members.map(({ errorCode }) => errorCode)]
      .map(kafkaErrorName)
      .join()
  }

  /** How the group looks, after all that was sent before. */
  async look(): Promise<string> {
    const asked = { groups: [this.group], includeAuthorizedOperations: false }
    const { groups: found } = await this.control.ask(DescribeGroups, 5, asked)
    const group = found[0]
    const members = group?.members.map(
      ({ memberId, groupInstanceId, memberAssignment, memberMetadata }) => {
        const who = this.slots.findIndex(one => one.memberId === memberId)
        return `${who}:${groupInstanceId}:${memberAssignment.length}:${memberMetadata.length}`
      }
    )
    const offsets = Object.entries(await committed(this.control, this.group))
      .map(String)
      .sort()
      .join(' ')
    const waits = this.slots.map(one => (one.waits ? 'w' : '-')).join('')
    const state = `${group?.groupState} ${group?.protocolType} ${group?.protocolData}`
    return `${state} ${members?.sort().join()} ${offsets.replaceAll(this.topic, 't')} ${waits}`
  }
}

test('classic groups answer as Kafka’s, whatever they are sent', async () => {
  await using broker = await Broker.start()
  let sent = 0
  for (const [run, choices] of fc
    .sample(fc.array(choice, { minLength: 40, maxLength: 40 }), { seed, numRuns: groups })
    .entries()) {
    const names = [unique('group'), unique('topic')] as const
    const ours = await Side.open(broker.bootstrap[0] ?? '', ...names)
    const theirs = await Side.open(kafka.bootstrap[0] ?? '', ...names)
    const story: string[] = []
    try {
      for (const [index, one] of choices.entries()) {
        const told = ours.send(index, one)
        assert.equal(theirs.send(index, one), told)
        if (!told) continue
        sent++
        const [here, there] = await agreed(ours, theirs)
        const answers = [ours.answers[index], theirs.answers[index]]
        story.push(`${JSON.stringify(one)} -> ${answers[0] ?? 'waits'}; ${here}`)
        const what = `seed ${seed}, group ${run}:\n${story.join('\n')}`
        assert.equal(answers[0], answers[1], what)
        assert.equal(here, there, what)
        // Accepted: when a leader is gone, Kafka's next is the first of a HashMap. From there on they differ.
        if (ours.leader !== theirs.leader) break
      }
      assert.deepEqual(ours.answers, theirs.answers)
    } finally {
      await Promise.all([ours.close(), theirs.close()])
    }
  }
  assert(sent > groups * 10)
})

/** Looks at both until they look alike, as answers take their time. */
async function agreed(ours: Side, theirs: Side): Promise<readonly [string, string]> {
  for (let round = 0; ; round++) {
    const [here, there] = [await ours.look(), await theirs.look()]
    const answered = ours.answers.filter(Boolean).length === theirs.answers.filter(Boolean).length
    if ((here === there && answered && round > 0) || round > 200) return [here, there]
  }
}

test('the versions of group requests are those that Kafka advertises', async () => {
  await using broker = await Broker.start()
  const advertised = async (bootstrap: string) => {
    const wire = await Wire.connect(env, bootstrap)
    const { apiKeys } = await wire.ask(ApiVersions, 3, {
      clientSoftwareName: 'wire',
      clientSoftwareVersion: '1'
    })
    await wire.close()
    const ofGroups = new Set([8, 9, 11, 12, 13, 14, 15, 16, 28, 42, 47, 68, 69])
    return apiKeys
      .filter(({ apiKey }) => ofGroups.has(apiKey))
      .map(({ apiKey, minVersion, maxVersion }) => `${apiKey}: ${minVersion}-${maxVersion}`)
      .sort()
  }
  assert.deepEqual(
    await advertised(broker.bootstrap[0] ?? ''),
    await advertised(kafka.bootstrap[0] ?? '')
  )
})
