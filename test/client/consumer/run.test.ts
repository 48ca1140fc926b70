/** `run`: handlers that fail, are slow, or are overtaken. The real consumer and broker in virtual time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ConsumerRecord } from '../../../src/client/consumer/record.ts'
import type { DeadLetter } from '../../../src/client/consumer/retries.ts'
import type { HandlerContext } from '../../../src/client/consumer/run.ts'
import { Producer } from '../../../src/client/producer/producer.ts'
import { PlayheadError } from '../../../src/base/error.ts'
import { Client } from '../../../src/client/client.ts'
import { string } from '../../../src/client/serde.ts'
import { SeededRandom } from '../../../sim/world/random.ts'
import { numbered, VirtualWorld } from './virtual.ts'

type Record = ConsumerRecord<Buffer, string>

/** The offsets of partition 0 that are committed, as they are. */
function committedOf(world: VirtualWorld): number[] {
  const committed: number[] = []
  world.broker.control.on('OffsetCommit', ({ body }) => {
    const topics = body['topics'] as {
      partitions: { partitionIndex: number; committedOffset: number }[]
    }[]
    for (const { partitionIndex, committedOffset } of topics.flatMap(t => t.partitions)) {
      if (partitionIndex === 0) committed.push(committedOffset)
    }
  })
  return committed
}

for (const order of ['partition', 'key'] as const) {
  test(`${order}: a handler that fails is called again, later and later; what is behind it waits, and is not committed`, async () => {
    const world = await new VirtualWorld().start()
    await world.produce(0, 0, 5)
    const committed = committedOf(world)
    const member = world.member({ commitIntervalMs: 50 })
    const calls: string[] = []
    const at: number[] = []
    const handler = async ({ offset }: Record, { attempt }: HandlerContext) => {
      calls.push(`${offset}#${attempt}`)
      if (offset === 2) at.push(world.clock.monotonic())
      if (offset === 2 && attempt < 4) throw new Error('not yet')
    }
    const run = member.consumer.run(handler, { order, retry: { attempts: 4, firstMs: 1_000 } })
    await world.clock.runUntil(() => calls.includes('2#4'))
    assert.deepEqual(new Set(committed), new Set([2]), 'no further than the one that failed')
    await world.clock.runUntil(() => committed.at(-1) === 5)
    if (order === 'partition') {
      assert.deepEqual(calls, ['0#1', '1#1', '2#1', '2#2', '2#3', '2#4', '3#1', '4#1'])
    }
    const waits = at.slice(1).map((time, i) => time - (at[i] ?? 0))
    for (const [i, wait] of waits.entries()) {
      assert.ok(wait >= 800 * 2 ** i && wait <= 1_250 * 2 ** i, `waited ${waits.join(', ')}`)
    }
    await world.clock.play(member.consumer.close())
    await world.clock.play(run)
    await world.end(member)
  })

  test(`${order}: a record that fails for good goes to the dead letters, and only then it is processed`, async () => {
    const world = await new VirtualWorld().start()
    await world.produce(0, 0, 5)
    const committed = committedOf(world)
    const member = world.member({ commitIntervalMs: 50 })
    const letters: DeadLetter<Buffer, string>[] = []
    let taken = () => {}
    const run = member.consumer.run(
      async ({ offset }) => {
        if (offset === 2) throw new Error('never')
      },
      {
        order,
        retry: { attempts: 3, firstMs: 10 },
        deadLetters: letter => {
          letters.push(letter)
          return new Promise<void>(resolve => (taken = resolve))
        }
      }
    )
    await world.clock.runUntil(() => letters.length === 1)
    await world.clock.advance(1_000)
    assert.deepEqual(new Set(committed), new Set([2]))
    taken()
    await world.clock.runUntil(() => committed.at(-1) === 5)
    const [{ record, error, attempts } = assert.fail()] = letters
    assert.deepEqual([record.value, String(error), attempts], ['0-2', 'Error: never', 3])
    await world.clock.play(member.consumer.close())
    await world.clock.play(run)
    await world.end(member)
  })
}

test('dead letters go to a topic as they were, with where they come from and why', async () => {
  const world = await new VirtualWorld().start({ topics: { t: 2, dead: 1 } })
  const client = new Client(world.env('client2'), { bootstrap: ['b:9092'] })
  const producer = new Producer(world.cluster)
  const sent = {
    partition: 0,
    key: 'k',
    value: '{"a":',
    headers: { trace: '1' },
    timestamp: 12_345
  }
  await world.clock.play(producer.send('t', sent))
  const consumer = client.consumer({
    group: 'g',
    topics: ['t'],
    protocol: 'consumer',
    value: {
      name: 'json',
      serialize: Buffer.from,
      deserialize: (slice: Buffer): unknown => JSON.parse(String(slice))
    }
  })
  let calls = 0
  const run = consumer.run(
    record => {
      calls += 1
      return record.value
    },
    { retry: { attempts: 1 }, deadLetters: 'dead' }
  )
  const dead = world.alone({ assign: [{ topic: 'dead', partition: 0, offset: 0 }] }).read()
  await world.clock.runUntil(() => dead.seen.length === 1)
  const { record } = dead.seen[0] ?? assert.fail()
  assert.equal(calls, 1)
  assert.deepEqual([String(record.key), record.value, record.timestamp], ['k', '{"a":', 12_345])
  const headers = record.headers.map(({ key, value }) => [key, String(value)])
  assert.deepEqual(headers.slice(0, -1), [
    ['trace', '1'],
    ['dead-letter.topic', 't'],
    ['dead-letter.partition', '0'],
    ['dead-letter.offset', '0'],
    ['dead-letter.group', 'g'],
    ['dead-letter.attempts', '1']
  ])
  assert.match(headers.at(-1)?.[1] ?? '', /^PlayheadError: t\[0\] offset 0: its value is not json/)
  await world.clock.play(consumer.close())
  await world.clock.play(run)
  await world.clock.play(producer.close())
  await world.clock.play(client.close())
  await world.end(dead)
})

test('a handler that gives up because its record was overtaken ends nothing', async () => {
  for (const order of ['partition', 'key'] as const) {
    const world = await new VirtualWorld().start()
    await world.produce(0, 0, 5)
    const alone = world.alone()
    const seen: string[] = []
    const run = alone.consumer.run(
      async ({ offset }, { signal }) => {
        seen.push(`${offset}`)
        if (offset !== 2 || seen.length > 3) return
        await new Promise((_, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason as Error))
        )
      },
      { order }
    )
    await world.clock.runUntil(() => seen.length === 3)
    alone.consumer.seek({ topic: 't', partition: 0, offset: 1 })
    await world.clock.runUntil(() => seen.length === 7)
    assert.deepEqual(seen, ['0', '1', '2', '1', '2', '3', '4'])
    await world.clock.play(alone.consumer.close())
    await world.clock.play(run)
    await world.end(alone)
  }
})

test('a partition that has to be given up: its handler may end, hears after a while that it should, and a back-off ends at once', async () => {
  for (const how of ['ends', 'gives up', 'backs off'] as const) {
    const world = await new VirtualWorld().start()
    await world.produce(0, 0, 3)
    await world.produce(1, 0, 3)
    const first = world.member({ revokeWaitMs: 2_000 })
    const began: number[] = []
    const aborted: number[] = []
    const run = first.consumer.run(
      async ({ offset }, { signal, attempt }) => {
        if (offset !== 1) return
        began.push(world.clock.monotonic())
        if (how === 'backs off') throw new Error(`attempt ${attempt}`)
        await new Promise<void>((resolve, reject) => {
          signal.addEventListener('abort', () => {
            aborted.push(world.clock.monotonic())
            if (how === 'ends') resolve()
            else reject(signal.reason as Error)
          })
        })
      },
      { concurrency: 2, retry: { attempts: 9, firstMs: 600_000, mostMs: 600_000 } }
    )
    await world.clock.runUntil(() => began.length === 2)
    const joinedAt = world.clock.monotonic()
    const second = world.member().read()
    await world.clock.runUntil(() => second.seen.length > 0, 60_000)
    const took = world.clock.monotonic() - joinedAt
    const { offset } = second.seen[0]?.record ?? assert.fail()
    assert.equal(offset, how === 'ends' ? 2 : 1, how)
    if (how === 'backs off') assert.ok(took < 8_000, `${took} ms`)
    else assert.equal(aborted.length, 1)
    await world.clock.play(first.consumer.close({ timeoutMs: 1_000 }))
    if (how === 'backs off') await world.clock.play(run)
    await world.end(first, second)
  }
})

test('whatever handlers take and in whatever order they end, no commit is beyond the first that has not', async () => {
  for (let seed = 1; seed <= 10; seed++) {
    const random = new SeededRandom(BigInt(seed))
    const world = await new VirtualWorld().start({ topics: { t: 2 } })
    const producer = new Producer(world.cluster)
    const keys = Array.from({ length: 60 }, () => `k${Math.floor(random.next() * 7)}`)
    await world.clock.play(
      producer.sendMany(
        't',
        keys.map((key, i) => ({ key, value: `${i}`, partition: 0 }))
      )
    )
    const open = new Set(keys.map((_, offset) => offset))
    const committed = committedOf(world)
    const member = world.member({ commitIntervalMs: 3 })
    const last = new Map<string, number>()
    const run = member.consumer.run(
      async ({ key, offset }, { attempt }) => {
        assert.ok((last.get(String(key)) ?? -1) < offset || attempt > 1, 'in order per key')
        last.set(String(key), offset)
        await new Promise<void>(resolve => world.clock.after(random.next() * 20, resolve))
        if (attempt === 1 && random.next() < 0.2) throw new PlayheadError('TIMED_OUT', 'once')
        open.delete(offset)
      },
      { concurrency: 8, order: 'key', retry: { firstMs: 5 } }
    )
    let checked = 0
    await world.clock.runUntil(() => {
      const first = Math.min(...open, keys.length)
      for (; checked < committed.length; checked++) {
        assert.ok((committed[checked] ?? 0) <= first, `${committed[checked]} with ${first} open`)
      }
      return committed.at(-1) === keys.length
    })
    assert.ok(committed.length > 3)
    await world.clock.play(member.consumer.close())
    await world.clock.play(run)
    await world.clock.play(producer.close())
    await world.end(member)
  }
})

test('run ends with what its last resort failed with, and the record comes again', async () => {
  const world = await new VirtualWorld().start()
  await world.produce(0, 0, 3)
  const member = world.member({ value: string })
  const run = member.consumer.run(
    ({ offset }) => {
      if (offset === 1) throw new Error('bad')
    },
    {
      deadLetters: () => {
        throw new Error('no room for letters')
      }
    }
  )
  await assert.rejects(world.clock.play(run), { message: 'no room for letters' })
  await world.clock.play(member.consumer.close())
  const next = world.member().read()
  await world.clock.runUntil(() => next.seen.length === 2)
  assert.deepEqual(next.values(), numbered(0, 1, 2))
  await world.end(next)
})
