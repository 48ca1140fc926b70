/** Live rewinds of groups of several members, foreign ones among them, on a real Kafka (invariants.md, W). */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { GroupOptions } from '../../src/client/consumer/options.ts'
import { RewindError } from '../../src/client/admin/rewind-result.ts'
import { Playhead } from '../../src/index.ts'
import { kafka, type OwnCluster } from './cluster.ts'
import { range } from './rewind/reading.ts'
import { Stage } from './rewind/scene.ts'
import { consoleConsumer, eventually } from './rewind/team.ts'

let own: OwnCluster
let stage: Stage

before(async () => {
  // Members come and go within a heartbeat: 200 ms instead of 5 s.
  const names = ['heartbeat.interval', 'min.heartbeat.interval']
  const extra = Object.fromEntries(names.map(name => [`group.consumer.${name}.ms`, '200']))
  own = await kafka.startOwn({ extra })
  stage = new Stage(own)
})

after(async () => {
  await stage.close()
  await own.down()
})

for (const protocol of ['consumer', 'classic'] as const) {
  test(`W1, W2, W5, ${protocol}: each owner goes on at the target, without gap, and commits below where it was; others do not notice`, async t => {
    const s = await stage.scene(4, 500)
    t.after(() => s[Symbol.asyncDispose]())
    const readings = [s.join({ protocol }), s.join({ protocol })]
    await s.settled(4, 500)
    await eventually(() => readings.every(r => r.consumer.assignment.length === 2), 'two each')
    const given = readings.map(r => r.given.length)
    const to = [0, 1, 3].map(partition => {
      return { topic: s.topic, partition, offset: 100 * partition + 7 }
    })
    const result = await s.rewind(to, { reason: 'bug 123', who: 'ops' })
    for (const { partition, offset } of to) {
      const found = result.partitions.find(p => p.partition === partition)
      assert.deepEqual([found?.state, found?.from, found?.to], ['applied', 500, offset])
      const owner = readings.find(r => r.consumer.memberId === found?.owner?.memberId)
      await eventually(
        () => owner?.since(partition, result.id).at(-1) === 499,
        `partition ${partition} is read again`
      )
      assert.deepEqual(owner?.since(partition, result.id), range(offset, 500))
    }
    const told = readings.flatMap(r => r.rewound)
    assert.deepEqual(
      new Set(told.map(r => `${r.id} ${r.by} ${r.reason}`)),
      new Set([`${result.id} ops bug 123`])
    )
    await s.settled(4, 500)
    assert.deepEqual(
      readings.flatMap(r => r.since(2, result.id)),
      []
    )
    assert.deepEqual(
      readings.map(r => r.given.length),
      given,
      'nobody gained or lost a partition'
    )
    const again = await s.rewind({ offset: 499 })
    for (const { from } of again.partitions) assert.equal(from, 500)
    await s.settled(4, 500)
    assert.equal(readings.flatMap(r => r.errors).length, 0)
  })

  test(`W8 two callers, ${protocol}: one wins each partition, both are told which, and it is where the group is`, async t => {
    const s = await stage.scene(4, 200)
    t.after(() => s[Symbol.asyncDispose]())
    const readings = [1, 2].map(() => s.join({ protocol, rewindCheckMs: 50 }))
    await s.settled(4, 200)
    const other = new Playhead({ bootstrap: own.bootstrap, clientId: 'other', logLevel: 'error' })
    t.after(() => other.close())
    let contested = 0
    for (let round = 0; round < 20; round++) {
      const plans = [
        await stage.admin.planRewind(s.group, { to: { offset: 40 } }),
        await other.admin().planRewind(s.group, { to: { offset: 80 } })
      ]
      const results = await Promise.all(
        plans.map((plan, i) =>
          (i === 0 ? stage.admin : other.admin()).rewind(plan).catch((error: unknown) => {
            assert.ok(error instanceof RewindError, String(error))
            return error.result
          })
        )
      )
      await s.settled(4, 200)
      const [a, b] = results
      assert.ok(a && b && a.id !== b.id)
      const winner = a.id > b.id ? a : b
      const loser = a.id > b.id ? b : a
      for (const { state } of winner.partitions) assert.equal(state, 'applied')
      for (const { state, by } of loser.partitions) {
        // Applied, and rewound again, or overtaken.
        if (state === 'superseded') contested++
        assert.ok(state === 'applied' || by === winner.id)
      }
      for (let partition = 0; partition < 4; partition++) {
        const target = winner.partitions[partition]?.to ?? -1
        const since = readings.flatMap(r => r.since(partition, winner.id))
        assert.deepEqual(since, range(target, 200), `partition ${partition} of round ${round}`)
      }
    }
    t.diagnostic(`${contested} of 80 partitions were contested`)
    assert.ok(contested > 0)
  })

  test(`W13 foreign members, ${protocol}: a console consumer in the group is named with its host, and nothing is written`, async t => {
    const s = await stage.scene(2, 20)
    t.after(() => s[Symbol.asyncDispose]())
    const reading = s.join({ protocol })
    await s.settled(2, 20)
    t.after(consoleConsumer(own.bootstrap, s.topic, s.group, [`group.protocol=${protocol}`]))
    await eventually(() => reading.consumer.assignment.length === 1, 'the console consumer has one')
    const owned = reading.consumer.assignment[0]?.partition
    const plan = await stage.admin.planRewind(s.group, { to: 'earliest' })
    assert.match(plan.warnings.join('; '), /does not take part in rewinds/)
    const failed = await stage.admin.rewind(plan).catch((error: unknown) => error)
    assert.ok(failed instanceof RewindError)
    assert.equal(failed.code, 'REWIND_REFUSED')
    assert.match(failed.message, /nothing was written: .* at \/127\.0\.0\.1/)
    assert.deepEqual(await stage.admin.offsets(`${s.group}.rewind`), [])

    const { partitions } = await stage.admin.rewind(plan, { partial: true })
    const states = new Map(partitions.map(p => [p.partition, p.state]))
    assert.equal(states.get(owned ?? -1), 'applied')
    assert.equal(states.get(1 - (owned ?? -1)), 'refused')
  })
}

for (const [protocol, assignors] of [
  ['consumer', []],
  ['classic', ['cooperative-sticky']],
  ['classic', ['range']]
] as const) {
  const by = [protocol, ...assignors].join(', ')
  test(`W11, ${by}: rewinds while members come and go hold for whoever owns the partitions then`, async t => {
    const s = await stage.scene(4, 300)
    t.after(() => s[Symbol.asyncDispose]())
    const options: Partial<GroupOptions> = { protocol, ...(assignors.length > 0 && { assignors }) }
    const first = s.join(options)
    await s.settled(4, 300)
    for (let round = 0; round < 4; round++) {
      const second = s.join(options)
      const result = await s.rewind({ offset: 250 + round })
      const leaving = second.close()
      const next = await s.rewind({ offset: 200 + round })
      await leaving
      await s.settled(4, 300)
      for (let partition = 0; partition < 4; partition++) {
        const seen = (id: string) =>
          new Set([...first.since(partition, id), ...second.since(partition, id)])
        assert.deepEqual(
          [...seen(next.id)].sort((a, b) => a - b),
          range(200 + round, 300)
        )
        const low = Math.min(300, ...seen(result.id))
        assert.ok(low >= 250 + round, `partition ${partition} of ${result.id} began at ${low}`)
      }
    }
  })
}
