/** Live rewinds of groups on a real Kafka, rule by rule (invariants.md, W). */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Admin } from '../../src/client/admin/admin.ts'
import { RewindError } from '../../src/client/admin/rewind-result.ts'
import type { GroupOptions } from '../../src/client/consumer/options.ts'
import { Playhead } from '../../src/index.ts'
import { DeleteRecords } from '../../src/protocol/api/delete-records.ts'
import { kafka, type OwnCluster } from './cluster.ts'
import { Reading, range } from './rewind/reading.ts'
import { consoleConsumer, eventually, fill } from './rewind/team.ts'

let own: OwnCluster
let client: Playhead
let admin: Admin

before(async () => {
  const names = ['heartbeat.interval', 'min.heartbeat.interval']
  const extra = Object.fromEntries(names.map(name => [`group.consumer.${name}.ms`, '200']))
  own = await kafka.startOwn({ extra })
  client = new Playhead({ bootstrap: own.bootstrap, clientId: 'rewind', logLevel: 'error' })
  admin = client.admin()
})

after(async () => {
  await client.close()
  await own.down()
})

interface Scene {
  readonly topic: string
  readonly group: string
  join(options?: Partial<GroupOptions>): Reading
  [Symbol.asyncDispose](): Promise<void>
}

/** A topic with `records` in each partition, and a group of readers that have read all of it. */
async function scene(partitions: number, records: number): Promise<Scene> {
  const topic = own.uniqueName('w')
  const group = own.uniqueName('w')
  await admin.createTopics([{ topic, partitions }])
  await fill(client, topic, partitions, records)
  const readings: Reading[] = []
  return {
    topic,
    group,
    join(options = {}) {
      const reading = new Reading(client, {
        group,
        topics: [topic],
        rewindCheckMs: 200,
        ...options
      } as GroupOptions)
      readings.push(reading)
      return reading
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(readings.map(reading => reading.close()))
    }
  }
}

/** Resolves once the group has committed `records` of each partition. */
async function settled(group: string, partitions: number, records: number): Promise<void> {
  await eventually(async () => {
    const lag = await admin.lag(group)
    return lag.length === partitions && lag.every(p => p.committed === records)
  }, `group ${group} is at ${records} of each of ${partitions} partitions`)
}

async function rewindTo(
  group: string,
  to: Parameters<Admin['planRewind']>[1]['to'],
  options: Parameters<Admin['rewind']>[1] = {}
) {
  return await admin.rewind(await admin.planRewind(group, { to }), options)
}

test('W1, W2, W5: each owner goes on at the target, without gap, and commits below where it was', async t => {
  const s = await scene(4, 500)
  t.after(() => s[Symbol.asyncDispose]())
  const readings = [s.join(), s.join()]
  await settled(s.group, 4, 500)
  await eventually(() => readings.every(r => r.consumer.assignment.length === 2), 'two each')
  const to = [0, 1, 3].map(partition => {
    return { topic: s.topic, partition, offset: 100 * partition + 7 }
  })
  const result = await rewindTo(s.group, to, { reason: 'bug 123', who: 'ops' })
  for (const { partition, offset } of to) {
    const found = result.partitions.find(p => p.partition === partition)
    assert.deepEqual([found?.state, found?.from, found?.to], ['applied', 500, offset])
    const owner = readings.find(r => r.consumer.memberId === found?.owner?.memberId)
    await eventually(() => owner?.last(partition) === 499, `partition ${partition} is read again`)
    assert.deepEqual(owner?.since(partition, result.id), range(offset, 500))
  }
  const told = readings.flatMap(r => r.rewound)
  assert.deepEqual(
    new Set(told.map(r => `${r.id} ${r.by} ${r.reason}`)),
    new Set([`${result.id} ops bug 123`])
  )
  await settled(s.group, 4, 500)
  const again = await rewindTo(s.group, { offset: 499 })
  for (const { from } of again.partitions) assert.equal(from, 500)
  await settled(s.group, 4, 500)
  assert.equal(readings.flatMap(r => r.errors).length, 0)
})

test('W3 isolation: partitions that are not named go on as if nothing happened', async t => {
  const s = await scene(2, 100)
  t.after(() => s[Symbol.asyncDispose]())
  const reading = s.join()
  await settled(s.group, 2, 100)
  const producer = client.producer()
  t.after(() => producer.close())
  let sent = 100
  let done = false
  const sentAt: number[] = []
  const sending = (async () => {
    while (!done) {
      sentAt[sent] = performance.now()
      sent += 1
      await producer.send(s.topic, { partition: 1, value: Buffer.from('x') })
    }
  })()
  const calm = performance.now() + 2_000
  await eventually(() => performance.now() > calm, 'a while without rewinds')
  const first = reading.last(1)
  for (let i = 0; i < 10; i++) {
    await rewindTo(s.group, [{ topic: s.topic, partition: 0, offset: 50 - i }])
  }
  done = true
  await sending
  await eventually(() => reading.last(1) === sent - 1, 'all of partition 1 is read')
  const got = reading.got.get(1) ?? []
  assert.deepEqual(
    got.map(({ offset }) => offset),
    range(0, sent)
  )
  assert.deepEqual(reading.given, ['assigned 0', 'assigned 1'])
  const waits = (from: number, to: number) =>
    got
      .filter(({ offset }) => offset >= Math.max(from, 100) && offset < to)
      .map(({ offset, at }) => at - (sentAt[offset] ?? at))
      .sort((a, b) => a - b)
  const p99 = (list: readonly number[]) => list[Math.floor(list.length * 0.99)] ?? 0
  const [without, beside] = [p99(waits(0, first)), p99(waits(first, sent))]
  t.diagnostic(
    `wait for a record, p99: ${without.toFixed(1)} ms, beside rewinds ${beside.toFixed(1)} ms`
  )
  assert.ok(beside <= Math.max(50, 2 * without), `${beside} ms beside rewinds, ${without} without`)
})

test('W7 atomicity: with an unknown partition nothing is written', async t => {
  const s = await scene(2, 10)
  t.after(() => s[Symbol.asyncDispose]())
  s.join()
  await settled(s.group, 2, 10)
  const to = [0, 1, 2].map(partition => ({ topic: s.topic, partition, offset: 0 }))
  await assert.rejects(rewindTo(s.group, to), { code: 'UNKNOWN_PARTITION' })
  assert.deepEqual(await admin.offsets(`${s.group}.rewind`), [])
})

test('W8 two callers: one wins each partition, both are told which, and it is where the group is', async t => {
  const s = await scene(4, 200)
  t.after(() => s[Symbol.asyncDispose]())
  const readings = [s.join({ rewindCheckMs: 50 }), s.join({ rewindCheckMs: 50 })]
  await settled(s.group, 4, 200)
  const other = new Playhead({ bootstrap: own.bootstrap, clientId: 'other', logLevel: 'error' })
  t.after(() => other.close())
  let contested = 0
  for (let round = 0; round < 20; round++) {
    const plans = [
      await admin.planRewind(s.group, { to: { offset: 40 } }),
      await other.admin().planRewind(s.group, { to: { offset: 80 } })
    ]
    const results = await Promise.all(
      plans.map((plan, i) =>
        (i === 0 ? admin : other.admin()).rewind(plan).catch((error: unknown) => {
          assert.ok(error instanceof RewindError, String(error))
          return error.result
        })
      )
    )
    await settled(s.group, 4, 200)
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

test('W9 liveness: a quiet group is rewound within rewindCheckMs + 200 ms, at the median', async t => {
  const s = await scene(1, 50)
  t.after(() => s[Symbol.asyncDispose]())
  const rewindCheckMs = 500
  const reading = s.join({ rewindCheckMs })
  await settled(s.group, 1, 50)
  const took: number[] = []
  for (let i = 0; i < 15; i++) {
    const plan = await admin.planRewind(s.group, { to: { offset: 49 } })
    const startedAt = performance.now()
    await admin.rewind(plan)
    took.push(performance.now() - startedAt)
    await eventually(() => reading.last(0) === 49, 'it is read again')
  }
  const median = took.sort((a, b) => a - b)[7] ?? Infinity
  t.diagnostic(`median ${median.toFixed(0)} ms, at most ${took.at(-1)?.toFixed(0)} ms`)
  assert.ok(median <= rewindCheckMs + 200)
})

test('W10 no phantom: a rewind that nobody took up in time is pending, and once cancelled never comes', async t => {
  const s = await scene(1, 50)
  t.after(() => s[Symbol.asyncDispose]())
  const reading = s.join({ rewindCheckMs: 4_000 })
  await settled(s.group, 1, 50)
  // It looked just before: the next look is 4 s away.
  await rewindTo(s.group, { offset: 40 })
  const failed = await rewindTo(s.group, { offset: 10 }, { timeoutMs: 300 }).catch(
    (error: unknown) => error
  )
  assert.ok(failed instanceof RewindError)
  assert.equal(failed.code, 'REWIND_PENDING')
  assert.ok(failed.message.includes(reading.consumer.memberId ?? 'no member'), failed.message)
  const [pending] = await admin.rewinds(s.group)
  assert.equal(pending?.partitions[0]?.state, 'pending')
  assert.equal((await admin.lag(s.group))[0]?.committed, 10)
  const cancelled = await admin.cancelRewind(s.group)
  assert.deepEqual(
    cancelled.map(({ state }) => state),
    ['cancelled']
  )
  await rewindTo(s.group, { offset: 30 })
  await settled(s.group, 1, 50)
  assert.deepEqual(
    reading.rewound.map(r => r.partitions[0]?.to),
    [40, 30]
  )
})

test('W11: a pending rewind is taken up by the next owner, before its first record', async t => {
  const s = await scene(1, 50)
  t.after(() => s[Symbol.asyncDispose]())
  const first = s.join({ rewindCheckMs: 60_000 })
  await settled(s.group, 1, 50)
  await assert.rejects(rewindTo(s.group, { offset: 20 }, { timeoutMs: 200 }), {
    code: 'REWIND_PENDING'
  })
  await first.close()
  const heard: string[] = []
  const next = s.join({
    onRewind: ({ partitions }) => void heard.push(`to ${partitions[0]?.to} at ${next.last(0)}`)
  })
  await settled(s.group, 1, 50)
  await eventually(() => next.last(0) === 49, 'it is read')
  assert.deepEqual(
    next.got.get(0)?.map(({ offset }) => offset),
    range(20, 50)
  )
  assert.deepEqual(heard, ['to 20 at -1'])
  assert.equal((await admin.rewinds(s.group))[0]?.partitions[0]?.state, 'applied')
})

test('W11: a paused partition is rewound, and delivers from the target once it is resumed', async t => {
  const s = await scene(1, 50)
  t.after(() => s[Symbol.asyncDispose]())
  const reading = s.join()
  await settled(s.group, 1, 50)
  reading.consumer.pause()
  const { id } = await rewindTo(s.group, { offset: 44 })
  assert.deepEqual(reading.since(0, id), [])
  reading.consumer.resume()
  await eventually(() => reading.last(0) === 49 && reading.since(0, id).length > 0, 'read again')
  assert.deepEqual(reading.since(0, id), range(44, 50))
})

test('W11: rewinds while members come and go hold for whoever owns the partitions then', async t => {
  const s = await scene(4, 300)
  t.after(() => s[Symbol.asyncDispose]())
  const first = s.join()
  await settled(s.group, 4, 300)
  for (let round = 0; round < 4; round++) {
    const second = s.join()
    const result = await rewindTo(s.group, { offset: 250 + round })
    const leaving = second.close()
    const next = await rewindTo(s.group, { offset: 200 + round })
    await leaving
    await settled(s.group, 4, 300)
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

test('W12 retention: a target that is deleted meanwhile becomes the start of the log, whatever startFrom says', async t => {
  const s = await scene(1, 100)
  t.after(() => s[Symbol.asyncDispose]())
  await admin.rewind(await admin.planRewind(s.group, { topics: [s.topic], to: 'earliest' }))
  const reading = s.join({ startFrom: 'none' })
  await settled(s.group, 1, 100)
  const plan = await admin.planRewind(s.group, { to: { offset: 10 } })
  const partitions = [{ partitionIndex: 0, offset: 60 }]
  const body = { topics: [{ name: s.topic, partitions }], timeoutMs: 5_000 }
  const to = { leader: { topic: s.topic, partition: 0 } }
  await client.cluster.request(DeleteRecords, body, { to })
  const { id } = await admin.rewind(plan)
  await eventually(() => reading.since(0, id).length === 40, 'the rest is read')
  assert.deepEqual(reading.since(0, id), range(60, 100))
  assert.deepEqual(
    reading.moved.map(({ from, to: at }) => [from, at]),
    [[10, 60]]
  )
  const clamped = await admin.planRewind(s.group, { to: { offset: 10 } })
  assert.deepEqual(
    clamped.partitions.map(p => [p.target, p.clamped]),
    [[60, 'start']]
  )
})

test('W13 foreign members: a console consumer in the group is named with its host, and nothing is written', async t => {
  const s = await scene(2, 20)
  t.after(() => s[Symbol.asyncDispose]())
  const reading = s.join()
  await settled(s.group, 2, 20)
  t.after(consoleConsumer(own.bootstrap, s.topic, s.group))
  await eventually(() => reading.consumer.assignment.length === 1, 'the console consumer has one')
  const owned = reading.consumer.assignment[0]?.partition
  const plan = await admin.planRewind(s.group, { to: 'earliest' })
  assert.match(plan.warnings.join('; '), /does not take part in rewinds/)
  const failed = await admin.rewind(plan).catch((error: unknown) => error)
  assert.ok(failed instanceof RewindError)
  assert.equal(failed.code, 'REWIND_REFUSED')
  assert.match(failed.message, /nothing was written: .* at \/127\.0\.0\.1/)
  assert.deepEqual(await admin.offsets(`${s.group}.rewind`), [])

  const { partitions } = await admin.rewind(plan, { partial: true })
  const states = new Map(partitions.map(p => [p.partition, p.state]))
  assert.equal(states.get(owned ?? -1), 'applied')
  assert.equal(states.get(1 - (owned ?? -1)), 'refused')
})

test('a consumer with rewindable: false is a foreign member', async t => {
  const s = await scene(1, 10)
  t.after(() => s[Symbol.asyncDispose]())
  s.join({ rewindable: false })
  await settled(s.group, 1, 10)
  await assert.rejects(rewindTo(s.group, 'earliest'), { code: 'REWIND_REFUSED' })
})

test('W14 handler: one that ignores its signal may finish, its record is not committed, and what follows is new', async t => {
  const s = await scene(1, 30)
  t.after(() => s[Symbol.asyncDispose]())
  const consumer = client.consumer({
    group: s.group,
    topics: [s.topic],
    rewindCheckMs: 50,
    commitIntervalMs: 20,
    rewindHandlerWaitMs: 300
  })
  const errors: string[] = []
  consumer.on('error', ({ error }) => void errors.push(error.code))
  const log: string[] = []
  let finish: () => void = () => {}
  const stuck = new Promise<void>(resolve => (finish = resolve))
  const running = consumer.run(async (record, { signal }) => {
    const rewound = consumer.rewindOf(record) !== undefined
    log.push(`${record.offset}${rewound ? ' again' : ''}`)
    if (record.offset !== 20 || rewound) return
    signal.addEventListener('abort', () => log.push('signal'))
    await stuck
    log.push('finished')
  })
  await eventually(() => log.includes('20'), 'the handler is at 20')
  await rewindTo(s.group, { offset: 5 })
  assert.deepEqual(errors, ['PROCESSING_TIMEOUT'])
  finish()
  await eventually(() => log.includes('29 again'), 'the rest is handled')
  const since = log.slice(log.indexOf('20') + 1)
  assert.deepEqual(
    since.filter(entry => entry.endsWith('again')),
    range(5, 30).map(n => `${n} again`)
  )
  assert.deepEqual(since.slice(0, 2), ['signal', 'finished'])
  await settled(s.group, 1, 30)
  await consumer.close()
  await running
})

test('W14: onRewind that throws or hangs is reported, and the rewind goes on', async t => {
  const s = await scene(1, 10)
  t.after(() => s[Symbol.asyncDispose]())
  let calls = 0
  const reading = s.join({
    onRewindTimeoutMs: 100,
    onRewind: () => {
      calls++
      if (calls === 1) throw new Error('no table')
      return new Promise(() => {})
    }
  })
  await settled(s.group, 1, 10)
  for (let i = 0; i < 2; i++) await rewindTo(s.group, { offset: 3 })
  await eventually(() => reading.last(0) === 9, 'it is read again')
  assert.deepEqual(
    reading.errors.map(({ message }) => /onRewind (threw|did not end)/.exec(message)?.[1]),
    ['threw', 'did not end']
  )
})

test('consumer.rewind from inside the loop rewinds the whole group, its own record included', async t => {
  const s = await scene(2, 40)
  t.after(() => s[Symbol.asyncDispose]())
  const consumer = client.consumer({ group: s.group, topics: [s.topic] })
  const seen: string[] = []
  let asked = false
  for await (const record of consumer) {
    seen.push(`${record.partition}@${record.offset}`)
    if (record.partition === 0 && record.offset === 39 && !asked) {
      asked = true
      const startedAt = performance.now()
      await consumer.rewind([{ topic: s.topic, partition: 0, offset: 35 }])
      assert.ok(performance.now() - startedAt < 2_000)
    }
    const all = seen.includes('1@39') && seen.filter(at => at === '0@39').length === 2
    if (all) break
  }
  const zero = seen.filter(at => at.startsWith('0@')).map(at => Number(at.slice(2)))
  assert.deepEqual(zero, [...range(0, 40), ...range(35, 40)])
  await consumer.close()
})

test('W15 bounded replay: exactly the window comes again, then the group goes on where it was', async t => {
  const s = await scene(2, 100)
  t.after(() => s[Symbol.asyncDispose]())
  const reading = s.join({ partitionMaxBytes: 600 })
  await settled(s.group, 2, 100)
  const { id } = await admin.replay(s.group, {
    topics: [s.topic],
    from: { offset: 30 },
    until: { offset: 52 }
  })
  await settled(s.group, 2, 100)
  await fill(client, s.topic, 2, 1)
  await settled(s.group, 2, 101)
  for (const partition of [0, 1]) {
    assert.deepEqual(reading.since(partition, id), range(30, 52))
    assert.deepEqual(reading.since(partition, `${id}.`), [100])
  }
})

test('W15: a new owner in the middle of a replay goes on inside it, and ends it', async t => {
  const s = await scene(1, 100)
  t.after(() => s[Symbol.asyncDispose]())
  const first = client.consumer({ group: s.group, topics: [s.topic], rewindCheckMs: 100 })
  const again: number[] = []
  const reading = (async () => {
    for await (const record of first) {
      if (first.rewindOf(record) === undefined) continue
      // In the middle of the window it leaves, with this record in hand.
      if (record.offset === 50) break
      again.push(record.offset)
    }
    await first.close()
  })()
  await eventually(() => first.position({ topic: s.topic, partition: 0 }) === 100, 'it is read')
  await first.commit()
  const { id } = await admin.replay(s.group, {
    topics: [s.topic],
    from: { offset: 10 },
    until: { offset: 90 }
  })
  await reading
  const second = s.join()
  await settled(s.group, 1, 100)
  await fill(client, s.topic, 1, 1)
  await settled(s.group, 1, 101)
  assert.deepEqual(again, range(10, 50))
  assert.deepEqual(second.since(0, id), range(50, 90))
  assert.deepEqual(second.since(0, `${id}.`), [100])
})

test('undo goes back to where each owner stood', async t => {
  const s = await scene(2, 60)
  t.after(() => s[Symbol.asyncDispose]())
  const reading = s.join()
  await settled(s.group, 2, 60)
  reading.consumer.pause()
  await rewindTo(s.group, { offset: 10 })
  assert.equal((await admin.lag(s.group))[0]?.committed, 10)
  const undone = await admin.undoRewind(s.group)
  assert.deepEqual(
    undone.partitions.map(p => [p.state, p.to]),
    [
      ['applied', 60],
      ['applied', 60]
    ]
  )
  await settled(s.group, 2, 60)
})

test('W6: a caller that gives up leaves the rewind, which still takes place', async t => {
  const s = await scene(1, 30)
  t.after(() => s[Symbol.asyncDispose]())
  const reading = s.join()
  await settled(s.group, 1, 30)
  const abort = new AbortController()
  const plan = await admin.planRewind(s.group, { to: { offset: 12 } })
  const options = { signal: abort.signal, onWritten: () => abort.abort() }
  await assert.rejects(admin.rewind(plan, options), { code: 'ABORTED' })
  await eventually(() => reading.rewound.length === 1 && reading.last(0) === 29, 'it took place')
  assert.deepEqual(
    reading.rewound[0]?.partitions.map(p => p.to),
    [12]
  )
})
