/** The rules of live rewinds, one by one (invariants.md, W), for groups of either protocol on a real Kafka. */
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { RewindError } from '../../../src/client/admin/rewind-result.ts'
import { DeleteRecords } from '../../../src/protocol/api/delete-records.ts'
import { kafka } from '../cluster.ts'
import { range } from './reading.ts'
import { type Scene, Stage } from './scene.ts'
import { eventually, fill } from './team.ts'

export function rules(protocol: 'consumer' | 'classic'): void {
  const stage = new Stage(kafka, { protocol })
  after(() => stage.close())
  const rule = (title: string, holds: (t: TestContext) => Promise<void>): void => {
    test(`${protocol}: ${title}`, holds)
  }

  rule('W3 isolation: partitions that are not named go on as if nothing happened', async t => {
    const s = await stage.scene(2, 100)
    t.after(() => s[Symbol.asyncDispose]())
    const reading = s.join()
    await s.settled(2, 100)
    const producer = stage.client.producer()
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
    // A machine may be busier beside the rewinds than without them, by chance; not three times.
    let waits = { during: Infinity, without: 0 }
    const notices = () => waits.during > Math.max(50, 2 * waits.without)
    for (let round = 0; round < 3 && notices(); round++) {
      const since = performance.now()
      const rewinds = await inTurns(s, 50 - 10 * round)
      const last = sent - 1
      await eventually(() => reading.last(1) >= last - 1, 'what was sent beside them is read')
      waits = compare(reading.got.get(1) ?? [], sentAt, since, rewinds)
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
    const { during, without } = waits
    t.diagnostic(
      `wait for a record, p99: ${without.toFixed(1)} ms, beside rewinds ${during.toFixed(1)} ms`
    )
    assert.ok(!notices(), `${during} ms beside rewinds, ${without} without`)
  })

  rule('W7 atomicity: with an unknown partition nothing is written', async t => {
    const s = await stage.scene(2, 10)
    t.after(() => s[Symbol.asyncDispose]())
    s.join()
    await s.settled(2, 10)
    const to = [0, 1, 2].map(partition => ({ topic: s.topic, partition, offset: 0 }))
    await assert.rejects(s.rewind(to), { code: 'UNKNOWN_PARTITION' })
    assert.deepEqual(await stage.admin.offsets(`${s.group}.rewind`), [])
  })

  rule(
    'W9 liveness: a quiet group is rewound within rewindCheckMs + 200 ms, at the median',
    async t => {
      const s = await stage.scene(1, 50)
      t.after(() => s[Symbol.asyncDispose]())
      const rewindCheckMs = 500
      const reading = s.join({ rewindCheckMs })
      await s.settled(1, 50)
      const took: number[] = []
      for (let i = 0; i < 15; i++) {
        const plan = await stage.admin.planRewind(s.group, { to: { offset: 49 } })
        const startedAt = performance.now()
        await stage.admin.rewind(plan)
        took.push(performance.now() - startedAt)
        await eventually(() => reading.last(0) === 49, 'it is read again')
      }
      const median = took.sort((a, b) => a - b)[7] ?? Infinity
      t.diagnostic(`median ${median.toFixed(0)} ms, at most ${took.at(-1)?.toFixed(0)} ms`)
      assert.ok(median <= rewindCheckMs + 200)
    }
  )

  rule(
    'W10 no phantom: a rewind that nobody took up in time is pending, and once cancelled never comes',
    async t => {
      const s = await stage.scene(1, 50)
      t.after(() => s[Symbol.asyncDispose]())
      const reading = s.join({ rewindCheckMs: 4_000 })
      await s.settled(1, 50)
      // It looked just before: the next look is 4 s away.
      await s.rewind({ offset: 40 })
      const failed = await s
        .rewind({ offset: 10 }, { timeoutMs: 300 })
        .catch((error: unknown) => error)
      assert.ok(failed instanceof RewindError)
      assert.equal(failed.code, 'REWIND_PENDING')
      assert.ok(failed.message.includes(reading.consumer.memberId ?? 'no member'), failed.message)
      const [pending] = await stage.admin.rewinds(s.group)
      assert.equal(pending?.partitions[0]?.state, 'pending')
      assert.equal((await stage.admin.lag(s.group))[0]?.committed, 10)
      const cancelled = await stage.admin.cancelRewind(s.group)
      assert.deepEqual(
        cancelled.map(({ state }) => state),
        ['cancelled']
      )
      await s.rewind({ offset: 30 })
      await s.settled(1, 50)
      assert.deepEqual(
        reading.rewound.map(r => r.partitions[0]?.to),
        [40, 30]
      )
    }
  )

  rule('W11: a pending rewind is taken up by the next owner, before its first record', async t => {
    const s = await stage.scene(1, 50)
    t.after(() => s[Symbol.asyncDispose]())
    const first = s.join({ rewindCheckMs: 60_000 })
    await s.settled(1, 50)
    await assert.rejects(s.rewind({ offset: 20 }, { timeoutMs: 200 }), {
      code: 'REWIND_PENDING'
    })
    await first.close()
    const heard: string[] = []
    const next = s.join({
      onRewind: ({ partitions }) => void heard.push(`to ${partitions[0]?.to} at ${next.last(0)}`)
    })
    await s.settled(1, 50)
    await eventually(() => next.last(0) === 49, 'it is read')
    assert.deepEqual(
      next.got.get(0)?.map(({ offset }) => offset),
      range(20, 50)
    )
    assert.deepEqual(heard, ['to 20 at -1'])
    assert.equal((await stage.admin.rewinds(s.group))[0]?.partitions[0]?.state, 'applied')
  })

  rule(
    'W11: a paused partition is rewound, and delivers from the target once it is resumed',
    async t => {
      const s = await stage.scene(1, 50)
      t.after(() => s[Symbol.asyncDispose]())
      const reading = s.join()
      await s.settled(1, 50)
      reading.consumer.pause()
      const { id } = await s.rewind({ offset: 44 })
      assert.deepEqual(reading.since(0, id), [])
      reading.consumer.resume()
      await eventually(
        () => reading.last(0) === 49 && reading.since(0, id).length > 0,
        'read again'
      )
      assert.deepEqual(reading.since(0, id), range(44, 50))
    }
  )

  rule(
    'W12 retention: a target that is deleted meanwhile becomes the start of the log, whatever startFrom says',
    async t => {
      const s = await stage.scene(1, 100)
      t.after(() => s[Symbol.asyncDispose]())
      await stage.admin.rewind(
        await stage.admin.planRewind(s.group, { create: true, topics: [s.topic], to: 'earliest' })
      )
      const reading = s.join({ startFrom: 'none' })
      await s.settled(1, 100)
      const plan = await stage.admin.planRewind(s.group, { to: { offset: 10 } })
      const partitions = [{ partitionIndex: 0, offset: 60 }]
      const body = { topics: [{ name: s.topic, partitions }], timeoutMs: 5_000 }
      const to = { leader: { topic: s.topic, partition: 0 } }
      await stage.client.cluster.request(DeleteRecords, body, { to })
      const { id } = await stage.admin.rewind(plan)
      await eventually(() => reading.since(0, id).length === 40, 'the rest is read')
      assert.deepEqual(reading.since(0, id), range(60, 100))
      assert.deepEqual(
        reading.moved.map(({ from, to: at }) => [from, at]),
        [[10, 60]]
      )
      const clamped = await stage.admin.planRewind(s.group, { to: { offset: 10 } })
      assert.deepEqual(
        clamped.partitions.map(p => [p.target, p.clamped]),
        [[60, 'start']]
      )
    }
  )

  rule('a consumer with rewindable: false is a foreign member', async t => {
    const s = await stage.scene(1, 10)
    t.after(() => s[Symbol.asyncDispose]())
    s.join({ rewindable: false })
    await s.settled(1, 10)
    await assert.rejects(s.rewind('earliest'), { code: 'REWIND_REFUSED' })
  })

  rule(
    'W14 handler: one that ignores its signal may finish, its record is not committed, and what follows is new',
    async t => {
      const s = await stage.scene(1, 30)
      t.after(() => s[Symbol.asyncDispose]())
      const consumer = stage.client.consumer({
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
      await s.rewind({ offset: 5 })
      assert.deepEqual(errors, ['PROCESSING_TIMEOUT'])
      finish()
      await eventually(() => log.includes('29 again'), 'the rest is handled')
      const since = log.slice(log.indexOf('20') + 1)
      assert.deepEqual(
        since.filter(entry => entry.endsWith('again')),
        range(5, 30).map(n => `${n} again`)
      )
      assert.deepEqual(since.slice(0, 2), ['signal', 'finished'])
      await s.settled(1, 30)
      await consumer.close()
      await running
    }
  )

  rule('W14: onRewind that throws or hangs is reported, and the rewind goes on', async t => {
    const s = await stage.scene(1, 10)
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
    await s.settled(1, 10)
    for (let i = 0; i < 2; i++) await s.rewind({ offset: 3 })
    await eventually(() => reading.last(0) === 9, 'it is read again')
    assert.deepEqual(
      reading.errors.map(({ message }) => /onRewind (threw|did not end)/.exec(message)?.[1]),
      ['threw', 'did not end']
    )
  })

  rule(
    'consumer.rewind from inside the loop rewinds the whole group, its own record included',
    async t => {
      const s = await stage.scene(2, 40)
      t.after(() => s[Symbol.asyncDispose]())
      const consumer = stage.client.consumer({ group: s.group, topics: [s.topic] })
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
    }
  )

  rule(
    'W15 bounded replay: exactly the window comes again, then the group goes on where it was',
    async t => {
      const s = await stage.scene(2, 100)
      t.after(() => s[Symbol.asyncDispose]())
      const reading = s.join({ partitionMaxBytes: 600 })
      await s.settled(2, 100)
      const { id } = await stage.admin.replay(s.group, {
        topics: [s.topic],
        from: { offset: 30 },
        until: { offset: 52 }
      })
      await s.settled(2, 100)
      await fill(stage.client, s.topic, 2, 1)
      await s.settled(2, 101)
      for (const partition of [0, 1]) {
        assert.deepEqual(reading.since(partition, id), range(30, 52))
        assert.deepEqual(reading.since(partition, `${id}.`), [100])
      }
    }
  )

  rule('W15: a new owner in the middle of a replay goes on inside it, and ends it', async t => {
    const s = await stage.scene(1, 100)
    t.after(() => s[Symbol.asyncDispose]())
    const first = stage.client.consumer({ group: s.group, topics: [s.topic], rewindCheckMs: 100 })
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
    const { id } = await stage.admin.replay(s.group, {
      topics: [s.topic],
      from: { offset: 10 },
      until: { offset: 90 }
    })
    await reading
    const second = s.join()
    await s.settled(1, 100)
    await fill(stage.client, s.topic, 1, 1)
    await s.settled(1, 101)
    assert.deepEqual(again, range(10, 50))
    assert.deepEqual(second.since(0, id), range(50, 90))
    assert.deepEqual(second.since(0, `${id}.`), [100])
  })

  rule('undo goes back to where each owner stood', async t => {
    const s = await stage.scene(2, 60)
    t.after(() => s[Symbol.asyncDispose]())
    const reading = s.join()
    await s.settled(2, 60)
    reading.consumer.pause()
    await s.rewind({ offset: 10 })
    assert.equal((await stage.admin.lag(s.group))[0]?.committed, 10)
    const undone = await stage.admin.undoRewind(s.group)
    assert.deepEqual(
      undone.partitions.map(p => [p.state, p.to]),
      [
        ['applied', 60],
        ['applied', 60]
      ]
    )
    await s.settled(2, 60)
  })

  rule('W6: a caller that gives up leaves the rewind, which still takes place', async t => {
    const s = await stage.scene(1, 30)
    t.after(() => s[Symbol.asyncDispose]())
    const reading = s.join()
    await s.settled(1, 30)
    const abort = new AbortController()
    const plan = await stage.admin.planRewind(s.group, { to: { offset: 12 } })
    const options = { signal: abort.signal, onWritten: () => abort.abort() }
    await assert.rejects(stage.admin.rewind(plan, options), { code: 'ABORTED' })
    await eventually(() => reading.rewound.length === 1 && reading.last(0) === 29, 'it took place')
    assert.deepEqual(
      reading.rewound[0]?.partitions.map(p => p.to),
      [12]
    )
  })
}

type Span = readonly [from: number, to: number]

/** Ten rewinds of partition 0, each after some time in peace, as the machine may be busy with other things. */
async function inTurns(s: Scene, offset: number): Promise<readonly Span[]> {
  const rewinds: Span[] = []
  for (let i = 0; i < 10; i++) {
    const calm = performance.now() + 300
    await eventually(() => performance.now() > calm, 'a while without rewinds')
    const from = performance.now()
    await s.rewind([{ topic: s.topic, partition: 0, offset: offset - i }])
    rewinds.push([from, performance.now()])
  }
  return rewinds
}

/** The 99th percentiles of how long records waited to be read, of those sent `since`. */
function compare(
  got: readonly { readonly offset: number; readonly at: number }[],
  sentAt: readonly number[],
  since: number,
  rewinds: readonly Span[]
): { readonly during: number; readonly without: number } {
  const waits = got.flatMap(({ offset, at }) => {
    const from = sentAt[offset]
    if (from === undefined || from < since) return []
    return [{ ms: at - from, beside: rewinds.some(([a, b]) => from >= a && from <= b) }]
  })
  const p99 = (beside: boolean): number => {
    const all = waits.filter(wait => wait.beside === beside).map(({ ms }) => ms)
    return all.sort((x, y) => x - y)[Math.floor(all.length * 0.99)] ?? 0
  }
  return { during: p99(true), without: p99(false) }
}
