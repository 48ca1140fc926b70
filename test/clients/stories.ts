/** What every client must be able to do with the embedded broker, three brokers in one process. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { FindCoordinator } from '../../src/protocol/api/find-coordinator.ts'
import { Metadata } from '../../src/protocol/api/metadata.ts'
import { committed, newTopic, unique } from '../broker/group-wire.ts'
import { Wire } from '../broker/wire.ts'
import { recordsIn } from './records.ts'
import { Agent, type Client, type Protocol, type Task } from './agent.ts'
import { EmbeddedProcess } from './embedded.ts'

const env = nodeEnv({ cpu: nodeCpu() })
const partitions = [0, 1, 2, 3, 4, 5]

export function stories(client: Client): void {
  let broker: EmbeddedProcess
  const agents = new Set<Agent>()
  before(async () => {
    broker = await EmbeddedProcess.start(3)
  })
  after(async () => {
    await Promise.all([...agents].map(agent => agent.kill()))
    await broker.close()
  })

  const start = (task: Task): Agent => {
    const agent = new Agent(client, broker.bootstrap, task)
    agents.add(agent)
    return agent
  }
  const stop = async (agent: Agent) => {
    await agent.stop()
    agents.delete(agent)
  }
  const produce = async (task: Omit<Task, 'role'>) => {
    const agent = start({ role: 'produce', ...task })
    await agent.done()
    agents.delete(agent)
    assert.equal(agent.acked.length, task.count)
  }
  const topicOf = (what: string) =>
    withWire(broker, async wire => {
      const topic = unique(what)
      await newTopic(wire, topic, partitions.length)
      return topic
    })

  test(`${client.name}: what it sends is there once and in order, and read again, by every codec`, async () => {
    for (const compression of client.codecs) {
      const topic = await topicOf(`produced-${compression}`)
      await produce({ topic, count: 300, compression })
      const { values } = await logOf(broker, topic)
      assert.deepEqual(sorted(values), numbers(300))
      const reader = start({ role: 'consume', topic, group: unique('reader') })
      await reader.until('what was sent', ({ got }) => got.length >= 300)
      await stop(reader)
      assert.deepEqual(sorted(reader.got.map(({ value }) => value)), numbers(300))
    }
  })

  for (const protocol of client.protocols) {
    groupStories(client, protocol, { start, stop, produce, topicOf, broker: () => broker })
  }

  test(`${client.name}: records and offsets move in transactions, aborted ones are nowhere`, async () => {
    const [topic, output, group] = [await topicOf('in'), await topicOf('out'), unique('copy')]
    await produce({ topic, count: 100 })
    const agent = start({ role: 'transact', topic, output, group, id: unique('tx') })
    await agent.until('all moved', ({ moved }) => moved.length >= 100)
    await stop(agent)
    const { values, aborted } = await logOf(broker, output)
    assert.deepEqual(sorted(values), numbers(100), 'each once')
    assert(aborted > 0, 'something was aborted')
    assert.equal(await behind(broker, group, topic), 0)
    const reader = start({ role: 'consume', topic: output, group: unique('reader') })
    await reader.until('all that was committed', ({ got }) => got.length >= 100)
    await stop(reader)
    assert.deepEqual(sorted(reader.got.map(({ value }) => value)), numbers(100))
  })
}

interface Stage {
  start(task: Task): Agent
  stop(agent: Agent): Promise<void>
  produce(task: Omit<Task, 'role'>): Promise<void>
  topicOf(what: string): Promise<string>
  broker(): EmbeddedProcess
}

function groupStories(client: Client, protocol: Protocol, stage: Stage): void {
  const { start, stop, produce, topicOf, broker } = stage

  test(`${client.name}, ${protocol}: members come, share, leave and come again; each record is handled once`, async () => {
    const [topic, group] = [await topicOf('shared'), unique('group')]
    const consume: Task = { role: 'consume', topic, group, protocol }
    await produce({ topic, count: 200 })
    const one = start(consume)
    await one.until('the first has all', ({ values }) => values.size === 200)
    const two = start(consume)
    await one.until('the first gives up some', ({ assigned }) => assigned.length === 3)
    await two.until('the second gets them', ({ assigned }) => assigned.length === 3)
    assert.deepEqual(
      [...one.assigned, ...two.assigned].toSorted((a, b) => a - b),
      partitions
    )
    await produce({ topic, count: 200, from: 200 })
    const both = () => new Set([...one.values, ...two.values]).size === 400
    // Whichever hears the last one.
    await Promise.race([one.until('all of both', both), two.until('all of both', both)])
    assert(two.values.size > 0, 'the second has its share')
    await stop(two)
    await one.until('the first has all again', ({ assigned }) => assigned.length === 6)
    await produce({ topic, count: 100, from: 400 })
    await one.until('the rest', ({ values }) => values.size + two.values.size === 500)
    await stop(one)
    assert.equal(await behind(broker(), group, topic), 0)
    // The client's restart: it goes on where the group was.
    const again = start(consume)
    await produce({ topic, count: 100, from: 500 })
    await again.until('what is new', ({ values }) => values.size === 100)
    await stop(again)
    const all = [one, two, again].flatMap(({ got }) => got.map(({ value }) => value))
    assert.deepEqual(sorted(all), numbers(600), 'each once')
  })

  test(`${client.name}, ${protocol}: a broker that is killed and comes back loses nothing acknowledged`, async () => {
    const [topic, group] = [await topicOf('killed'), unique('group')]
    const producer = start({ role: 'produce', topic })
    const consumer = start({ role: 'consume', topic, group, protocol })
    await consumer.until('some', ({ values }) => values.size > 200)
    for (let time = 0; time < 2; time++) {
      await broker().kill()
      await broker().restart()
      const before = producer.acked.length
      await producer.until('it goes on', ({ acked }) => acked.length > before + 200)
      const had = consumer.values.size
      await consumer.until('it goes on', ({ values }) => values.size > had + 100)
    }
    await stop(producer)
    const { values } = await logOf(broker(), topic)
    assert.equal(new Set(values).size, values.length, 'no retry is doubled')
    const there = new Set(values)
    assert.deepEqual(
      producer.acked.filter(value => !there.has(value)),
      [],
      'acknowledged, and gone'
    )
    await consumer.until('all', ({ values: got }) => values.every(value => got.has(value)))
    await stop(consumer)
    assert.equal(await behind(broker(), group, topic), 0)
  })
}

async function withWire<R>(broker: EmbeddedProcess, run: (wire: Wire) => Promise<R>): Promise<R> {
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  try {
    return await run(wire)
  } finally {
    await wire.close()
  }
}

/** A connection to the leader of each partition, by a bare client of ours. */
async function eachLeader(
  broker: EmbeddedProcess,
  topic: string,
  run: (wire: Wire, partition: number) => Promise<void>
): Promise<void> {
  const { topics, brokers } = await withWire(broker, wire =>
    wire.ask(Metadata, 12, { topics: [{ name: topic }] })
  )
  for (const { partitionIndex, leaderId } of topics[0]?.partitions ?? []) {
    const leader = brokers.find(({ nodeId }) => nodeId === leaderId)
    assert(leader)
    const wire = await Wire.connect(env, `${leader.host}:${leader.port}`)
    await run(wire, partitionIndex)
    await wire.close()
  }
}

/** The values of all records, without those that say that they were aborted; each partition's in order. */
async function logOf(
  broker: EmbeddedProcess,
  topic: string
): Promise<{ values: string[]; aborted: number }> {
  const values: string[] = []
  let aborted = 0
  await eachLeader(broker, topic, async (wire, partition) => {
    const own: number[] = []
    for (let offset = 0; ; ) {
      const fetched = await wire.fetch(topic, partition, offset, { isolationLevel: 1 })
      const found = (await recordsIn(fetched.records)).filter(record => record.offset >= offset)
      if (found.length === 0) break
      for (const record of found) {
        assert.equal(record.offset, offset++, 'no holes')
        if (record.isControl) continue
        if (record.value.startsWith('aborted-')) aborted++
        else own.push(Number(record.value))
      }
    }
    assert.deepEqual(
      own,
      own.toSorted((a, b) => a - b),
      'in order'
    )
    values.push(...own.map(String))
  })
  return { values, aborted }
}

/** How many records the group has not committed. */
async function behind(broker: EmbeddedProcess, group: string, topic: string): Promise<number> {
  let lag = 0
  const offsets = await withGroup(broker, group, wire =>
    committed(wire, group, { [topic]: partitions })
  )
  assert(typeof offsets === 'object', JSON.stringify(offsets))
  await eachLeader(broker, topic, async (wire, partition) => {
    const { offset } = await wire.offset(topic, partition, -1)
    lag += offset - Math.max(0, Number(offsets[`${topic}-${partition}`]))
  })
  return lag
}

async function withGroup<R>(
  broker: EmbeddedProcess,
  group: string,
  run: (wire: Wire) => Promise<R>
): Promise<R> {
  const at = await withWire(broker, async wire => {
    const body = { keyType: 0, coordinatorKeys: [group] }
    return (await wire.ask(FindCoordinator, 4, body)).coordinators[0]
  })
  assert(at)
  const wire = await Wire.connect(env, `${at.host}:${at.port}`)
  try {
    return await run(wire)
  } finally {
    await wire.close()
  }
}

function numbers(count: number): string[] {
  return Array.from({ length: count }, (_, index) => String(index))
}

function sorted(values: readonly string[]): string[] {
  return values.toSorted((a, b) => Number(a) - Number(b))
}
