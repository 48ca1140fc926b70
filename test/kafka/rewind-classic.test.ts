/** Live rewinds of classic groups on a real Kafka (invariants.md, W): the rules of all groups, and of several members. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { GroupOptions } from '../../src/client/consumer/options.ts'
import { RewindError } from '../../src/client/admin/rewind-result.ts'
import { kafka } from './cluster.ts'
import { range } from './rewind/reading.ts'
import { rules } from './rewind/rules.ts'
import { Stage } from './rewind/scene.ts'
import { consoleConsumer, eventually } from './rewind/team.ts'

rules('classic')

const stage = new Stage(kafka, { protocol: 'classic' })
after(() => stage.close())

test('W1, W2, W3, W5: a live classic group of three goes on at the targets, without gap; others do not notice', async t => {
  const s = await stage.scene(6, 200)
  t.after(() => s[Symbol.asyncDispose]())
  const readings = [s.join(), s.join(), s.join()]
  await s.settled(6, 200)
  await eventually(
    () => readings.every(({ consumer }) => consumer.assignment.length === 2),
    'two partitions each'
  )
  const given = readings.map(reading => reading.given.length)
  const { topic } = s
  const targets = [0, 1, 2].map(partition => ({ topic, partition, offset: 100 + partition }))
  const { id, partitions } = await s.rewind(targets)
  assert.deepEqual(
    partitions.map(p => [p.partition, p.state, p.from, p.to]),
    [0, 1, 2].map(partition => [partition, 'applied', 200, 100 + partition])
  )
  await s.settled(6, 200)
  for (let partition = 0; partition < 6; partition++) {
    const since = readings.flatMap(reading => reading.since(partition, id))
    assert.deepEqual(since, partition < 3 ? range(100 + partition, 200) : [])
  }
  assert.deepEqual(
    readings.map(reading => reading.given.length),
    given,
    'nobody gained or lost a partition'
  )
})

test('W11: rewinds while members of a classic group come and go hold for whoever owns the partitions then', async t => {
  for (const assignors of [['cooperative-sticky'], ['range']] as const) {
    const s = await stage.scene(4, 100)
    t.after(() => s[Symbol.asyncDispose]())
    const options: Partial<GroupOptions> = { assignors }
    const first = s.join(options)
    await s.settled(4, 100)
    for (let round = 0; round < 3; round++) {
      const second = s.join(options)
      const result = await s.rewind({ offset: 60 + round })
      const leaving = second.close()
      const next = await s.rewind({ offset: 30 + round })
      await leaving
      await s.settled(4, 100)
      for (let partition = 0; partition < 4; partition++) {
        const seen = (id: string) =>
          new Set([...first.since(partition, id), ...second.since(partition, id)])
        assert.deepEqual(
          [...seen(next.id)].sort((a, b) => a - b),
          range(30 + round, 100)
        )
        assert.ok(Math.min(100, ...seen(result.id)) >= 60 + round)
      }
    }
    await first.close()
  }
})

test('W13 foreign members: a Java consumer of a classic group is named with its host, and nothing is written', async t => {
  const s = await stage.scene(2, 20)
  t.after(() => s[Symbol.asyncDispose]())
  const reading = s.join()
  await s.settled(2, 20)
  t.after(consoleConsumer(kafka.bootstrap, s.topic, s.group, ['group.protocol=classic']))
  await eventually(async () => {
    const [group] = await stage.admin.describeGroups([s.group])
    return group?.members.length === 2 && group.members.every(m => m.partitions.length === 1)
  }, 'one each')
  const owned = reading.consumer.assignment[0]?.partition
  const failed = await s.rewind({ offset: 5 }).catch((error: unknown) => error)
  assert.ok(failed instanceof RewindError)
  assert.equal(failed.code, 'REWIND_REFUSED')
  assert.match(failed.message, /nothing was written: .* at \/127\.0\.0\.1/)
  assert.deepEqual(await stage.admin.offsets(`${s.group}.rewind`), [])
  const { partitions } = await s.rewind({ offset: 5 }, { partial: true })
  const states = new Map(partitions.map(p => [p.partition, p.state]))
  assert.equal(states.get(owned ?? -1), 'applied')
  assert.equal(states.get(1 - (owned ?? -1)), 'refused')
})
