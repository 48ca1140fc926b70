/** What a connection makes of answers, good and bad: in order, checked, and never a hang (invariant P6). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PlayheadError } from '../../src/base/error.ts'
import { ApiVersions } from '../../src/protocol/api/api-versions.ts'
import { Heartbeat } from '../../src/protocol/api/heartbeat.ts'
import { ListGroups } from '../../src/protocol/api/list-groups.ts'
import { Produce } from '../../src/protocol/api/produce.ts'
import { encodeResponse } from '../../src/protocol/frame.ts'
import type { Cluster } from '../../src/rpc/cluster.ts'
import { type Asked, World, story } from './fake-broker.ts'

const beat = { groupId: 'g', generationId: 1, memberId: 'm' }
const node0 = { to: { node: 0 } } as const

function code(expected: string): (error: unknown) => boolean {
  return error => {
    assert(error instanceof PlayheadError, String(error))
    assert.equal(error.code, expected, error.message)
    return true
  }
}

/** What became of each of some calls. */
async function ends(calls: readonly Promise<unknown>[]): Promise<string[]> {
  const results = await Promise.allSettled(calls)
  return results.map(r => (r.status === 'fulfilled' ? 'ok' : (r.reason as PlayheadError).code))
}

async function closed(cluster: Cluster, world: World): Promise<void> {
  await cluster.close()
  for (const broker of world.brokers) await broker.die()
}

test('many requests are on their way at once, and each gets its own answer', async () => {
  const world = new World()
  const broker = await world.start()
  const held: Asked<typeof Heartbeat>[] = []
  broker.on(Heartbeat, asked => {
    held.push(asked)
    // Only once all have come, so that none was waited for.
    if (held.length === 50) {
      for (const one of held) one.from.reply(one, { errorCode: one.body.generationId })
    }
    return undefined
  })
  await world.play(async () => {
    const cluster = world.cluster()
    const calls = Array.from({ length: 50 }, (_, i) =>
      cluster.request(Heartbeat, { ...beat, generationId: i }, node0)
    )
    const answers = await Promise.all(calls)
    assert.deepEqual(
      answers.map(a => a.errorCode),
      Array.from({ length: 50 }, (_, i) => i)
    )
    assert.equal(broker.connections.length, 1)
    await closed(cluster, world)
  })
  assert.equal(world.clock.pending, 0)
})

const violations: readonly {
  readonly what: string
  readonly says: RegExp
  readonly answer: (asked: Asked) => void
}[] = [
  {
    what: 'a correlation id that nobody waits for',
    says: /correlation id 9999 where \d+ \(Heartbeat\) is next/,
    answer: asked => asked.from.reply(asked, { errorCode: 0 }, 9999)
  },
  {
    what: 'the same answer twice',
    says: /correlation id \d+ where \d+ \(Heartbeat\) is next/,
    answer: asked => {
      asked.from.reply(asked, { errorCode: 0 })
      asked.from.reply(asked, { errorCode: 0 })
    }
  },
  {
    what: 'bytes left over after the answer',
    says: /Heartbeat response/,
    answer: asked => {
      const [frame = Buffer.alloc(0)] = encodeResponse(
        asked.api,
        asked.version,
        asked.correlationId,
        { errorCode: 0 }
      )
      const longer = Buffer.concat([frame, Buffer.from([1, 2, 3])])
      longer.writeInt32BE(longer.length - 4)
      asked.from.socket.write([longer])
    }
  },
  {
    what: 'an answer that is too short',
    says: /short frame/,
    answer: asked => {
      const bytes = Buffer.alloc(8)
      bytes.writeInt32BE(4)
      bytes.writeInt32BE(asked.correlationId, 4)
      asked.from.socket.write([bytes])
    }
  },
  {
    what: 'a frame of size -1',
    says: /a frame of -1 bytes/,
    answer: asked => void asked.from.socket.write([Buffer.from([255, 255, 255, 255])])
  },
  {
    what: 'a frame of size 2^31-1',
    says: /a frame of 2147483647 bytes/,
    answer: asked => void asked.from.socket.write([Buffer.from([127, 255, 255, 255])])
  },
  {
    what: 'HTTP',
    says: /This looks like HTTP/,
    answer: asked => void asked.from.socket.write([Buffer.from('HTTP/1.1 400 Bad Request\r\n')])
  },
  {
    what: 'the end of the connection within an answer',
    says: /within an answer/,
    answer: asked => {
      asked.from.socket.write([Buffer.from([0, 0, 0, 100, 0, 0])])
      asked.from.socket.end()
    }
  }
]

for (const { what, says, answer } of violations) {
  test(`${what}: every call on that connection fails at once, the next one works`, async () => {
    const world = new World()
    const broker = await world.start()
    await world.play(async () => {
      const cluster = world.cluster()
      // Ready, so that the violation meets three requests on their way.
      await cluster.refresh()
      broker.on(Heartbeat, () => {
        const [first, , third] = broker.requests(Heartbeat)
        if (first && third) answer(first)
        return undefined
      })
      const before = world.clock.monotonic()
      const calls = [1, 2, 3].map(() => cluster.send(Heartbeat, beat, node0).response)
      const results = await Promise.allSettled(calls)
      const errors = results.flatMap(r => (r.status === 'rejected' ? [r.reason] : []))
      assert(errors.length >= 2)
      for (const error of errors) {
        assert(error instanceof PlayheadError)
        assert(['CONNECTION_LOST', 'MALFORMED_FRAME'].includes(error.code), error.code)
        assert.equal(error.retriable, false, 'it was written: the outcome is unknown')
      }
      assert(
        errors.some(error => says.test((error as Error).message)),
        String(errors)
      )
      assert(world.clock.monotonic() - before < 100, 'no deadline was needed')
      broker.on(Heartbeat, () => ({ errorCode: 0 }))
      assert.equal((await cluster.request(Heartbeat, beat, node0)).errorCode, 0)
      await closed(cluster, world)
    })
    assert.equal(world.clock.pending, 0)
  })
}

test('a silent broker: the call ends at its deadline, unknown; the connection is given up', async () => {
  const world = new World()
  const broker = await world.start()
  broker.on(Heartbeat, () => undefined)
  await world.play(async () => {
    const cluster = world.cluster({ requestTimeoutMs: 7_000 })
    await cluster.refresh()
    const before = world.clock.monotonic()
    await assert.rejects(cluster.request(Heartbeat, beat, node0), error => {
      assert(error instanceof PlayheadError)
      assert.equal(error.code, 'TIMED_OUT')
      assert.equal(error.retriable, false)
      assert.match(error.message, /Heartbeat from .*b0:9092 within 7000 ms.*may or may not/)
      return true
    })
    const tookMs = world.clock.monotonic() - before
    assert(tookMs >= 7_000 && tookMs < 7_100, `${tookMs} ms`)
    broker.on(Heartbeat, () => ({ errorCode: 0 }))
    const { connection } = await cluster.send(Heartbeat, beat, node0).response
    assert(connection > 0)
    assert.equal(broker.connections.length, 2)
    await closed(cluster, world)
  })
})

test('a slow broker keeps its connection: the late answer is dropped, the next one fits', async () => {
  const world = new World()
  const broker = await world.start()
  await world.play(async () => {
    const cluster = world.cluster()
    await cluster.refresh()
    let slow: Asked | undefined
    broker.on(Heartbeat, asked => {
      slow = asked
      return undefined
    })
    const given = cluster.request(Heartbeat, beat, { ...node0, timeoutMs: 1_000 })
    await assert.rejects(given, code('TIMED_OUT'))
    broker.on(Heartbeat, () => ({ errorCode: 27 }))
    assert(slow)
    slow.from.reply(slow, { errorCode: 0 })
    assert.equal((await cluster.request(Heartbeat, beat, node0)).errorCode, 27)
    assert.equal(broker.connections.length, 1)
    assert(world.logged.some(line => line.includes('late answer dropped')))
    await closed(cluster, world)
  })
})

test('a call that is cancelled or aborted is forgotten, and its answer breaks nothing', async () => {
  const world = new World()
  const broker = await world.start()
  await world.play(async () => {
    const cluster = world.cluster()
    await cluster.refresh()
    broker.on(Heartbeat, () => ({ errorCode: 0 }))
    const cancelled = cluster.send(Heartbeat, beat, node0)
    cancelled.cancel()
    const controller = new AbortController()
    const aborted = cluster.send(Heartbeat, beat, { ...node0, signal: controller.signal })
    await aborted.written
    controller.abort()
    const kept = cluster.request(Heartbeat, beat, node0)
    assert.deepEqual(await ends([cancelled.response, aborted.response, kept]), [
      'ABORTED',
      'ABORTED',
      'ok'
    ])
    await closed(cluster, world)
  })
})

test('what was never written fails as definite, what was written as unknown', async () => {
  const world = new World()
  const broker = await world.start()
  await world.play(async () => {
    const cluster = world.cluster()
    broker.on(Heartbeat, asked => {
      asked.from.socket.destroy()
    })
    const lost = await cluster.request(Heartbeat, beat, node0).catch((e: unknown) => e)
    assert(lost instanceof PlayheadError)
    assert.deepEqual([lost.code, lost.retriable], ['CONNECTION_LOST', false])
    await broker.die()
    const refused = await cluster.request(Heartbeat, beat, node0).catch((e: unknown) => e)
    assert(refused instanceof PlayheadError)
    assert.deepEqual([refused.code, refused.retriable], ['CONNECTION_FAILED', true])
    await closed(cluster, world)
  })
})

test('no more requests than the limit are on their way; more wait, and above that fail', async () => {
  const world = new World()
  const broker = await world.start()
  const held: Asked[] = []
  broker.on(Heartbeat, asked => {
    held.push(asked)
    return undefined
  })
  await world.play(async () => {
    const cluster = world.cluster({ maxInFlight: 3, maxWaiting: 4, requestTimeoutMs: 2_000 })
    await cluster.refresh()
    const calls = Array.from({ length: 10 }, () => cluster.send(Heartbeat, beat, node0).response)
    const results = ends(calls)
    assert.deepEqual(await results, [
      ...Array.from({ length: 7 }, () => 'TIMED_OUT'),
      ...Array.from({ length: 3 }, () => 'QUEUE_FULL')
    ])
    assert.equal(held.length, 3)
    await closed(cluster, world)
  })
})

test('a throttled connection rests as long as it is told, but never for days', async () => {
  const world = new World()
  const broker = await world.start()
  const came: number[] = []
  broker.on(Heartbeat, () => {
    came.push(world.clock.monotonic())
    return { errorCode: 0, throttleTimeMs: came.length === 1 ? 2_000 : 2 ** 31 - 1 }
  })
  await world.play(async () => {
    const cluster = world.cluster({ requestTimeoutMs: 60_000 })
    for (let i = 0; i < 3; i++) await cluster.request(Heartbeat, beat, node0)
    const [first = 0, second = 0, third = 0] = came
    assert(second - first >= 2_000 && second - first < 2_100, `${second - first} ms`)
    assert(third - second >= 30_000 && third - second < 30_100, `${third - second} ms`)
    await closed(cluster, world)
  })
})

test('a produce with acks=0 ends once written, without an answer', async () => {
  const world = new World()
  const broker = await world.start()
  broker.on(Produce, () => undefined)
  broker.on(ListGroups, () => ({ errorCode: 0, groups: [] }))
  await world.play(async () => {
    const cluster = world.cluster()
    const body = { acks: 0, timeoutMs: 1000, topicData: [] }
    const call = cluster.send(Produce, body, node0)
    await call.written
    assert.deepEqual((await call.response).body.responses, [])
    // What follows on the same connection is answered in its place.
    const next = await cluster.request(ListGroups, {}, { ...node0, lane: 'produce' })
    assert.deepEqual(next.groups, [])
    await closed(cluster, world)
  })
})

test('close ends every call, whatever it waits for, and leaves no timer and no connection', async () => {
  const world = new World()
  const broker = await world.start()
  broker.on(Heartbeat, () => undefined)
  await world.play(async () => {
    const cluster = world.cluster({ maxInFlight: 1 })
    const written = cluster.send(Heartbeat, beat, node0)
    await written.written
    const calls = [
      written.response,
      cluster.request(Heartbeat, beat, node0),
      cluster.request(Heartbeat, beat, { to: { node: 77 } }),
      cluster.request(Heartbeat, beat, { to: { leader: { topic: 'nix', partition: 0 } } }),
      cluster.request(Heartbeat, beat, { to: { group: 'g' } }),
      cluster.topic('nix'),
      cluster.refresh()
    ]
    const results = ends(calls)
    await cluster.close()
    assert.deepEqual(new Set(await results), new Set(['CLOSED']))
    await assert.rejects(cluster.request(Heartbeat, beat, node0), code('CLOSED'))
    await assert.rejects(cluster.refresh(), code('CLOSED'))
    assert(broker.connections.every(c => c.closed))
    await broker.die()
  })
  assert.equal(world.clock.pending, 0)
})

test('before it is authenticated a broker may not announce a large frame', async () => {
  await story(1, { requestTimeoutMs: 300 }, async (world, cluster) => {
    const size = Buffer.alloc(4)
    size.writeInt32BE(600 * 1024)
    world.brokers[0]?.on(ApiVersions, asked => void asked.from.socket.write([size]))
    await assert.rejects(cluster.refresh(), error => {
      assert(error instanceof PlayheadError)
      assert.deepEqual([error.code, error.retriable], ['CONNECTION_FAILED', true])
      assert.match(error.message, /a frame of 614400 bytes; Kafka frames here have 4 to 524288/)
      return true
    })
  })
})
