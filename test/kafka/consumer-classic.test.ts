/** Members of classic groups against a real Kafka: among themselves, and beside Java's. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { PlayheadError } from '../../src/base/error.ts'
import { describeGroups } from '../../src/client/admin/groups.ts'
import { Consumer } from '../../src/client/consumer/consumer.ts'
import type { GroupOptions } from '../../src/client/consumer/options.ts'
import { string } from '../../src/client/serde.ts'
import type { AssignorChoice } from '../../src/group/member/strategies.ts'
import type { Cluster } from '../../src/rpc/cluster.ts'
import { Reading } from './background.ts'
import { kafka } from './cluster.ts'
import { addPartitions, connect, createTopic, numbered, produce } from './consumed.ts'
import { type javaAssignors, JavaMembers } from './mixed/java-members.ts'
import { eventually } from './rewind/team.ts'

const cluster = connect()
after(() => cluster.close())

function member(
  topic: string,
  options: Partial<GroupOptions<Buffer, string>> = {},
  by: Cluster = cluster
): Reading<Buffer, string> {
  const group = `group-of-${topic}`
  const all = { group, topics: [topic], protocol: 'classic', value: string, ...options } as const
  return new Reading(new Consumer<Buffer, string>(by, all))
}

const byNumber = (a: number, b: number): number => a - b

const partitionsOf = (reading: Reading<Buffer, string>): number[] =>
  reading.consumer.assignment.map(({ partition }) => partition).sort(byNumber)

const count = (reading: Reading<Buffer, string>, event: string): number =>
  reading.events.filter(e => e.startsWith(event)).length

async function fill(topic: string, partitions: number, from: number, n: number): Promise<void> {
  for (let p = 0; p < partitions; p++) await produce(cluster, topic, p, numbered(`p${p}`, from, n))
}

/** What the coordinator says that each member has, by client id. */
async function owned(topic: string, by: Cluster = cluster): Promise<Map<string, number[]>> {
  const [group] = await describeGroups(by, [`group-of-${topic}`])
  const members = group?.members ?? []
  return new Map(
    members.map(({ clientId, partitions }) => {
      return [clientId, partitions.map(({ partition }) => partition).sort(byNumber)]
    })
  )
}

/** Resolves once two members have all of so many partitions between them. */
async function shared(topic: string, partitions: number): Promise<Map<string, number[]>> {
  let found = new Map<string, number[]>()
  await eventually(async () => {
    found = await owned(topic)
    const all = [...found.values()].flat()
    assert.equal(new Set(all).size, all.length, 'nothing has two owners')
    const each = [...found.values()].every(some => some.length > 0)
    return found.size === 2 && each && all.length === partitions
  }, 'two members have a share')
  return found
}

test('three members share six partitions; each record is handled once, though one leaves', async () => {
  const topic = await createTopic(cluster, 6)
  await fill(topic, 6, 0, 50)
  const readings = [1, 2, 3].map(() => member(topic))
  const all = () => readings.flatMap(r => r.values())
  await readings[0]?.until('all read', () => all().length >= 300)
  for (const reading of readings) await reading.until('two each', r => partitionsOf(r).length === 2)
  assert.deepEqual(readings.flatMap(partitionsOf).sort(byNumber), [0, 1, 2, 3, 4, 5])

  const [leaving, ...staying] = readings
  const before = staying.map(r => [count(r, 'revoked'), count(r, 'lost')])
  await leaving?.close()
  for (const reading of staying) await reading.until('three', r => partitionsOf(r).length === 3)
  assert.deepEqual(
    staying.map(r => [count(r, 'revoked'), count(r, 'lost')]),
    before,
    'nothing was let go of'
  )
  await fill(topic, 6, 50, 50)
  await staying[0]?.until('the rest', () => all().length >= 600)
  for (const reading of staying) await reading.close()
  const expected = Array.from({ length: 6 }, (_, p) => numbered(`p${p}`, 0, 100)).flat()
  assert.deepEqual(all().sort(), expected.sort())
})

test('a second member has its share soon after it came, and what stays flows on', async () => {
  const topic = await createTopic(cluster, 4)
  const first = member(topic)
  await first.until('all four', r => partitionsOf(r).length === 4)
  const second = member(topic)
  await second.until('two', r => partitionsOf(r).length === 2)
  assert.deepEqual([count(first, 'revoked'), count(first, 'lost')], [2, 0])
  await first.close()
  await second.close()
})

for (const assignor of ['range', 'roundrobin', 'sticky'] as const) {
  test(`${assignor}: everything is given up, committed, and dealt out anew`, async () => {
    const topic = await createTopic(cluster, 5)
    await fill(topic, 5, 0, 20)
    const options = { assignors: [assignor] as AssignorChoice[], commitIntervalMs: 3_600_000 }
    const first = member(topic, options)
    await first.until('all', r => r.records.length === 100)
    const second = member(topic, options)
    await second.until('some', r => partitionsOf(r).length > 0)
    await first.until('the others', r => count(r, 'assigned') > 5)
    assert.deepEqual([count(first, 'revoked'), count(first, 'lost')], [5, 0])
    const parts = [partitionsOf(first), partitionsOf(second)]
    assert.deepEqual(parts.flat().sort(byNumber), [0, 1, 2, 3, 4])
    if (assignor === 'range') assert.ok(parts.some(some => some.join() === '0,1,2'))
    else if (assignor === 'roundrobin') assert.ok(parts.some(some => some.join() === '0,2,4'))
    await fill(topic, 5, 20, 20)
    await first.until('the rest', () => first.records.length + second.records.length >= 200)
    const expected = Array.from({ length: 5 }, (_, p) => numbered(`p${p}`, 0, 40)).flat()
    assert.deepEqual([...first.values(), ...second.values()].sort(), expected.sort())
    await first.close()
    await second.close()
  })
}

test('members without an assignor in common: the second is told', async () => {
  const topic = await createTopic(cluster, 1)
  const first = member(topic)
  await first.until('it', r => partitionsOf(r).length === 1)
  const second = member(topic, { assignors: ['range'] })
  await assert.rejects(second.ended, {
    code: 'INVALID_ARGUMENT',
    kafkaError: 'INCONSISTENT_GROUP_PROTOCOL'
  })
  await second.consumer.close()
  await first.close()
})

test('a static member that comes back within its session moves nothing; its double fences it', async () => {
  const topic = await createTopic(cluster, 4)
  const stays = member(topic)
  await stays.until('all', r => partitionsOf(r).length === 4)
  const before = member(topic, { instanceId: 'one' })
  await before.until('two', r => partitionsOf(r).length === 2)
  const had = partitionsOf(before)
  const events = stays.events.length
  await before.close()
  const back = member(topic, { instanceId: 'one' })
  await back.until('the same', r => partitionsOf(r).length === 2)
  assert.deepEqual(partitionsOf(back), had)
  assert.deepEqual(stays.events.slice(events), [])
  const double = member(topic, { instanceId: 'one' })
  await double.until('two', r => partitionsOf(r).length === 2)
  await assert.rejects(back.ended, { code: 'FENCED', kafkaError: 'FENCED_INSTANCE_ID' })
  assert.deepEqual(stays.events.slice(events), [])
  await back.consumer.close()
  await double.close()
  await stays.close()
})

test('a static leader that comes back sees the partitions that came while it was away', async () => {
  const topic = await createTopic(cluster, 2)
  const before = member(topic, { instanceId: 'leads' })
  await before.until('both', r => partitionsOf(r).length === 2)
  await before.close()
  await addPartitions(cluster, topic, 3)
  const back = member(topic, { instanceId: 'leads' })
  await back.until('all three', r => partitionsOf(r).length === 3)
  await back.close()
})

test('a partition, and a topic of a pattern, that appear after the group are read from their beginning', async () => {
  const topic = await createTopic(cluster, 1)
  await produce(cluster, topic, 0, ['before the group'])
  const reading = member(topic, { startFrom: 'latest' })
  await reading.until('placed', r => r.consumer.position({ topic, partition: 0 }) === 1)
  const other = member(topic, { startFrom: 'latest' })
  await addPartitions(cluster, topic, 2)
  await produce(cluster, topic, 1, ['in the new partition'])
  const both = () => [...reading.values(), ...other.values()]
  await reading.until('it', () => both().length === 1)
  assert.deepEqual(both(), ['in the new partition'])
  await reading.close()
  await other.close()
})

test('a handler that is too slow makes its member leave, and join again afterwards', async () => {
  const topic = await createTopic(cluster, 1)
  await fill(topic, 1, 0, 2)
  const group = `group-of-${topic}`
  const slow = new Consumer<Buffer, string>(cluster, {
    group,
    topics: [topic],
    protocol: 'classic',
    value: string,
    maxProcessingMs: 1_500
  })
  const seen: (string | null)[] = []
  for await (const { value } of slow) {
    seen.push(value)
    if (seen.length === 2) break
    const other = member(topic)
    await other.until('both', r => r.records.length === 2)
    await other.close()
    await produce(cluster, topic, 0, ['p0-2'])
  }
  assert.deepEqual(seen, ['p0-0', 'p0-2'], 'where the other stopped')
  await slow.close()
})

const java = new JavaMembers()
const folder = mkdtempSync(join(tmpdir(), 'playhead-java-'))
after(async () => {
  await java.kill()
  rmSync(folder, { recursive: true })
})

for (const [name, javas, ours] of [
  ["Java's default", undefined, ['cooperative-sticky']],
  ['cooperative-sticky', 'cooperative-sticky', ['cooperative-sticky']],
  ['sticky', 'sticky', ['sticky']],
  ['range', 'range', ['range']],
  ['roundrobin', 'roundrobin', ['roundrobin', 'range']]
] as const) {
  test(`beside a Java consumer, ${name}: both have a share, whoever leads, and one takes over from the other`, async () => {
    for (const leader of ['ours', 'java']) {
      const topic = await createTopic(cluster, 5)
      await fill(topic, 5, 0, 10)
      const joins = () => member(topic, { assignors: ours, heartbeatIntervalMs: 300 })
      const javaJoins = () => startJava(topic, javas)
      let reading: Reading<Buffer, string> | undefined
      if (leader === 'ours') {
        reading = joins()
        await reading.until('all', r => r.records.length === 50)
        javaJoins()
      } else {
        javaJoins()
        const has = async () => [...(await owned(topic)).values()].some(some => some.length === 5)
        await eventually(has, 'Java has all')
        reading = joins()
      }
      const found = await shared(topic, 5)
      await reading.until('its share', r => {
        const mine = found.get('consumer-test')
        return partitionsOf(r).join() === mine?.join()
      })
      assert.equal(count(reading, 'lost'), 0)
      await java.stop(topic)
      await reading.until('all', r => partitionsOf(r).length === 5)
      const before = reading.records.length
      await fill(topic, 5, 10, 10)
      await reading.until('what is new', r => r.records.length >= before + 50)
      assert.equal(count(reading, 'lost'), 0)
      await reading.close()
    }
  })
}

function startJava(topic: string, assignor: keyof typeof javaAssignors | undefined): void {
  const { bootstrap } = kafka
  const file = join(folder, topic)
  java.start({ name: topic, bootstrap, group: `group-of-${topic}`, topic, file, assignor })
}

test("'auto' joins a group as what it is, and says so; who asks for 'consumer' makes one of KIP-848 of it, if it may", async () => {
  const settings = { 'group.initial.rebalance.delay.ms': '0' }
  await using own = await kafka.startOwn({
    extra: { ...settings, 'group.consumer.migration.policy': 'disabled' }
  })
  const other = connect(own.bootstrap)
  for (const by of [cluster, other]) {
    const topic = await createTopic(by, 4)
    const first = member(topic, {}, by)
    await first.until('all', r => partitionsOf(r).length === 4)
    const second = member(topic, { protocol: 'auto' }, by)
    await second.until('two', r => partitionsOf(r).length === 2)
    await first.until('two', r => partitionsOf(r).length === 2)
    const [group] = await describeGroups(by, [`group-of-${topic}`])
    assert.deepEqual([group?.type, second.consumer.protocol], ['classic', 'classic'])
    assert.equal(group?.members.filter(({ rewindable }) => rewindable).length, 2)
    const third = member(topic, { protocol: 'consumer' }, by)
    if (by === other) {
      await assert.rejects(third.ended, /join it with protocol: 'classic'/)
      await third.consumer.close()
    } else {
      // Of four for three: one or two, as the release likes it.
      await third.until('some', r => partitionsOf(r).length > 0)
      const [converted] = await describeGroups(by, [`group-of-${topic}`])
      assert.equal(converted?.type, 'consumer')
      // In a group of both kinds those of the classic kind cannot be told from foreign ones: it isn't rewound.
      assert.equal(converted?.members.filter(({ rewindable }) => rewindable).length, 1)
      await third.close()
    }
    await second.close()
    await first.until('all again', r => partitionsOf(r).length === 4)
    await first.close()
  }
  await other.close()
})

test("'auto' in a group that nobody is in is what the brokers have; with a new membership it says so again", async () => {
  const topic = await createTopic(cluster, 1)
  const reading = member(topic, { protocol: 'auto' })
  const joined: string[] = []
  reading.consumer.on('joined', ({ protocol, memberId }) => {
    assert.equal(memberId, reading.consumer.memberId)
    joined.push(protocol)
  })
  assert.equal(reading.consumer.protocol, null)
  await reading.until('it', r => partitionsOf(r).length === 1)
  assert.deepEqual([reading.consumer.protocol, joined], ['consumer', ['consumer']])
  await reading.close()
})

test('a member that was not told how to assign does it as its group does', async () => {
  for (const assignor of ['range', 'RoundRobinAssigner', 'sticky'] as const) {
    const topic = await createTopic(cluster, 2)
    const first = member(topic, { assignors: [assignor] })
    await first.until('both', r => partitionsOf(r).length === 2)
    const second = member(topic, { protocol: 'auto' })
    await second.until('one', r => partitionsOf(r).length === 1)
    await first.until('one', r => partitionsOf(r).length === 1)
    const [group] = await describeGroups(cluster, [`group-of-${topic}`])
    assert.deepEqual([group?.assignor, group?.members.length], [assignor, 2])
    await first.close()
    await second.close()
  }
})

test('an assignor of one’s own: the leader asks it, members get what it says; one that fails makes its member leave', async () => {
  const topic = await createTopic(cluster, 4)
  const told: number[] = []
  const odd: AssignorChoice = {
    name: 'the first has one, the second has the others',
    cooperative: true,
    assign(members, topics) {
      told.push(members.length)
      if (members.length > 2) throw new Error('that was not foreseen')
      const count = topics.get(topic)?.partitionCount ?? 0
      const all = Array.from({ length: count }, (_, partition) => ({ topic, partition }))
      const [first = '', second] = members.map(({ memberId }) => memberId).sort()
      if (second === undefined) return new Map([[first, all]])
      return new Map([
        [first, all.slice(0, 1)],
        [second, all.slice(1)]
      ])
    }
  }
  const readings = [0, 1].map(() => member(topic, { assignors: [odd] }))
  const sizes = () => readings.map(r => partitionsOf(r).length).sort(byNumber)
  for (const reading of readings) await reading.until('its share', () => sizes().join() === '1,3')
  const third = member(topic, { assignors: [odd] })
  const ended = await Promise.race([...readings, third].map(r => r.ended.catch((e: unknown) => e)))
  assert.ok(ended instanceof PlayheadError)
  assert.equal(ended.code, 'INVALID_ARGUMENT')
  assert.match(ended.message, /the first has one.* threw Error: that was not foreseen/)
  // It has left: the others are two again, well before its session would have ended.
  await eventually(async () => {
    const [group] = await describeGroups(cluster, [`group-of-${topic}`])
    const shares = group?.members.map(({ partitions }) => partitions.length).sort(byNumber)
    return group?.state === 'Stable' && shares?.join() === '1,3'
  }, 'those who stay share')
  for (const reading of [...readings, third]) await reading.consumer.close()
  assert(told.includes(3))
})
