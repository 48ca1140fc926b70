/** Requests find their broker: by role, through moves, restarts and lies, within their deadline. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { PlayheadError } from '../../src/base/error.ts'
import { ApiVersions } from '../../src/protocol/api/api-versions.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { FindCoordinator } from '../../src/protocol/api/find-coordinator.ts'
import { Heartbeat } from '../../src/protocol/api/heartbeat.ts'
import { ListGroups } from '../../src/protocol/api/list-groups.ts'
import { ListOffsets } from '../../src/protocol/api/list-offsets.ts'
import { Metadata } from '../../src/protocol/api/metadata.ts'
import { Again } from '../../src/rpc/retry.ts'
import { answerError } from '../../src/rpc/answer-errors.ts'
import type { Target } from '../../src/rpc/call.ts'
import { Cluster } from '../../src/rpc/cluster.ts'
import { clientSoftware } from '../../src/rpc/opening.ts'
import { World, everyApi, story, wait } from './fake-broker.ts'

const beat = { groupId: 'g', generationId: 1, memberId: 'm' }
const topicId = 'aaaaaaaaaaaaaaaaaaaaaA'
const offsets = { replicaId: -1, topics: [] }

test('a request to a leader goes to the leader, and after a move to the new one', async () => {
  await story(3, {}, async (world, cluster) => {
    const topic = { id: topicId, leaders: [2], epoch: 1 }
    for (const broker of world.brokers) {
      broker.topics.set('t', topic)
      broker.on(ListOffsets, () => ({
        topics: [
          {
            name: 't',
            partitions: [{ partitionIndex: 0, errorCode: broker.id === topic.leaders[0] ? 0 : 6 }]
          }
        ]
      }))
    }
    const to = { leader: { topic: 't', partition: 0 } }
    assert.equal((await cluster.send(ListOffsets, offsets, { to }).response).node, 2)
    topic.leaders = [1]
    topic.epoch = 2
    const stale = await cluster.send(ListOffsets, offsets, { to }).response
    assert.equal(stale.node, 2, 'nobody knows yet')
    await wait(world, 100)
    const fresh = await cluster.send(ListOffsets, offsets, { to }).response
    assert.equal(fresh.node, 1, 'the code in the answer made the metadata be asked for')
  })
})

test('a leader that dies before anything is written is followed to its successor', async () => {
  await story(2, {}, async (world, cluster) => {
    const topic = { id: topicId, leaders: [1], epoch: 1 }
    for (const broker of world.brokers) {
      broker.topics.set('t', topic)
      broker.on(ListOffsets, () => ({ topics: [] }))
    }
    await cluster.topic('t')
    await world.brokers[1]?.die()
    topic.leaders = [0]
    topic.epoch = 2
    const to = { leader: { topic: 't', partition: 0 } }
    assert.equal((await cluster.send(ListOffsets, offsets, { to }).response).node, 0)
  })
})

test('what is not there is said: topics, partitions, brokers', async () => {
  await story(1, {}, async (world, cluster) => {
    world.brokers[0]?.topics.set('t', { id: topicId, leaders: [0], epoch: 0 })
    const ask = async (to: Target) => {
      const error: unknown = await cluster
        .request(ListOffsets, offsets, { to })
        .catch((e: unknown) => e)
      assert(error instanceof PlayheadError)
      return `${error.code}: ${error.message}`
    }
    assert.match(await ask({ leader: { topic: 'nix', partition: 0 } }), /^UNKNOWN_TOPIC: .*'nix'/)
    assert.match(
      await ask({ leader: { topic: 't', partition: 3 } }),
      /^UNKNOWN_PARTITION: topic 't' has no partition 3: it has 1/
    )
    assert.match(await ask({ node: 9 }), /^CONNECTION_FAILED: broker 9 is not there; there are: 0/)
  })
})

test('those that ask for a coordinator at the same time share the look-up', async () => {
  await story(2, {}, async (world, cluster) => {
    const [first, second] = world.brokers
    assert(first && second)
    first.coordinator = second.coordinator = 1
    second.on(Heartbeat, () => ({ errorCode: 0 }))
    const groups = ['a', 'b', 'a', '__proto__']
    const answers = await Promise.all(
      groups.map(group => cluster.send(Heartbeat, beat, { to: { group } }).response)
    )
    assert.deepEqual(
      answers.map(a => a.node),
      [1, 1, 1, 1]
    )
    const lookUps = [...first.requests(FindCoordinator), ...second.requests(FindCoordinator)]
    assert.deepEqual(
      lookUps.map(({ body }) => body.coordinatorKeys),
      [['a', 'b', '__proto__']]
    )
  })
})

test('a broker that takes one key at a time is asked one at a time', async () => {
  await story(1, {}, async (world, cluster) => {
    const [broker] = world.brokers
    broker?.on(ApiVersions, () => ({
      errorCode: 0,
      apiKeys: everyApi.map(api =>
        api.apiKey === FindCoordinator.key ? { ...api, maxVersion: 2 } : api
      )
    }))
    broker?.on(Heartbeat, () => ({ errorCode: 0 }))
    const groups = ['a', 'b', 'c']
    await Promise.all(groups.map(group => cluster.request(Heartbeat, beat, { to: { group } })))
    assert.deepEqual(
      broker?.requests(FindCoordinator).map(({ body }) => body.key),
      groups
    )
  })
})

test('NOT_COORDINATOR in an answer is data, and makes the next request look again', async () => {
  await story(2, {}, async (world, cluster) => {
    for (const broker of world.brokers) {
      broker.on(Heartbeat, () => ({ errorCode: broker.id === 1 ? 0 : 16 }))
    }
    const to = { group: 'g' }
    assert.equal((await cluster.request(Heartbeat, beat, { to })).errorCode, 16)
    for (const broker of world.brokers) broker.coordinator = 1
    const attempts: number[] = []
    const body = await cluster.retrying({}, async attempt => {
      attempts.push(attempt)
      const answer = await cluster.request(Heartbeat, beat, { to })
      return answer.errorCode === 0 ? answer : new Again(answerError(answer.errorCode, 'beat'))
    })
    assert.equal(body.errorCode, 0)
    assert.deepEqual(attempts, [1])
  })
})

test('a coordinator that is not available is looked for until the deadline, ever more slowly', async () => {
  await story(1, {}, async (world, cluster) => {
    const [broker] = world.brokers
    broker?.on(FindCoordinator, ({ body: { coordinatorKeys } }) => ({
      coordinators: coordinatorKeys.map(key => ({
        key,
        nodeId: -1,
        host: '',
        port: -1,
        errorCode: 15,
        errorMessage: 'no\u001b[2J coordinator'
      }))
    }))
    const to = { group: 'g' }
    const error: unknown = await cluster
      .request(Heartbeat, beat, { to, timeoutMs: 20_000 })
      .catch((e: unknown) => e)
    assert(error instanceof PlayheadError)
    assert.deepEqual([error.code, error.retriable], ['BROKER_ERROR', true])
    assert.match(error.message, /group 'g'.*COORDINATOR_NOT_AVAILABLE: no\\x1b\[2J coordinator/)
    const count = broker?.requests(FindCoordinator).length ?? 0
    assert(count > 10 && count < 40, `${count} look-ups in 20 s`)
  })
})

test('the highest version that both speak is spoken; without one the error names both ranges', async () => {
  await story(1, {}, async (world, cluster) => {
    const [broker] = world.brokers
    broker?.on(ApiVersions, () => ({
      errorCode: 0,
      apiKeys: everyApi
        .filter(api => api.apiKey !== CreateTopics.key)
        .map(api => (api.apiKey === Heartbeat.key ? { ...api, maxVersion: 2 } : api))
    }))
    broker?.on(Heartbeat, () => ({ errorCode: 0 }))
    const to = { node: 0 }
    assert.equal((await cluster.send(Heartbeat, beat, { to }).response).version, 2)
    const one = await cluster.send(Heartbeat, beat, { to, maxVersion: 1 }).response
    assert.equal(one.version, 1)
    const refusal = (error: unknown) =>
      `${(error as PlayheadError).code}: ${(error as PlayheadError).message}`
    assert.match(
      await cluster.request(Heartbeat, beat, { to, minVersion: 3 }).catch(refusal).then(String),
      /^UNSUPPORTED_VERSION: Heartbeat: .*b0:9092 speaks it in versions 0 to 2; .* versions 3 to 4/
    )
    assert.match(
      await cluster
        .request(CreateTopics, { topics: [], timeoutMs: 1 }, { to })
        .catch(refusal)
        .then(String),
      /^UNSUPPORTED_VERSION: CreateTopics: .*b0:9092 does not speak it/
    )
    assert.equal(await cluster.supports(Heartbeat, 2), true)
    assert.equal(await cluster.supports(Heartbeat, 3), false)
    assert.equal(await cluster.supports(CreateTopics), false)
  })
})

test('a broker that knows only an older ApiVersions says so, and is asked in that version', async () => {
  for (const [known, expected] of [
    [3, [4, 3]],
    [0, [4, 0]]
  ] as const) {
    await story(1, {}, async (world, cluster) => {
      const [broker] = world.brokers
      broker?.on(ApiVersions, asked => {
        if (asked.version <= known) return { errorCode: 0, apiKeys: everyApi }
        // As a broker does: in version 0, with only the range of ApiVersions, or nothing.
        const range = { apiKey: ApiVersions.key, minVersion: 0, maxVersion: known }
        const body = { errorCode: 35, apiKeys: known > 0 ? [range] : [] }
        asked.from.reply({ ...asked, version: 0 }, body)
        return undefined
      })
      await cluster.refresh()
      assert.deepEqual(
        broker?.requests(ApiVersions).map(({ version }) => version),
        expected
      )
    })
  }
})

test('the version we tell brokers is that of the package', () => {
  const { name, version } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    name: string
    version: string
  }
  assert.deepEqual(clientSoftware, { clientSoftwareName: name, clientSoftwareVersion: version })
})

test('with the first broker of the list gone the next is used', async () => {
  await story(
    2,
    { bootstrap: ['gone:9092', 'b9', '[::1]:9', 'b1:9092'] },
    async (world, cluster) => {
      await world.brokers[0]?.die()
      const known = world.brokers[1]
      if (known) known.named = () => [{ nodeId: 1, host: 'b1', port: 9092, rack: null }]
      assert.deepEqual([...(await cluster.refresh()).brokers.keys()], [1])
      assert(world.clock.monotonic() < 1_000)
    }
  )
})

test('the connection to a bootstrap place goes on as that of the broker it turns out to be', async () => {
  await story(1, {}, async (world, cluster) => {
    world.brokers[0]?.on(ListGroups, () => ({ errorCode: 0, groups: [] }))
    await cluster.refresh()
    assert.equal((await cluster.send(ListGroups, {}, { to: { node: 0 } }).response).node, 0)
    assert.equal(world.brokers[0]?.connections.length, 1)
  })
})

test('with no broker at all, a request ends at its deadline with what was tried', async () => {
  await story(1, { requestTimeoutMs: 10_000 }, async (world, cluster) => {
    const [broker] = world.brokers
    await broker?.die()
    const error: unknown = await cluster.request(ListGroups, {}, { to: 'any' }).catch(e => e)
    assert(error instanceof PlayheadError)
    assert.deepEqual([error.code, error.retriable], ['CONNECTION_FAILED', true])
    assert.match(
      error.message,
      /b0:9092: ECONNREFUSED, nobody listens there \(tried for 10000 ms\)/
    )
    const tookMs = world.clock.monotonic()
    assert(tookMs >= 10_000 && tookMs < 10_500)
  })
})

test('a broker that accepts and hangs up is dialled ever more slowly', async () => {
  await story(1, { requestTimeoutMs: 30_000 }, async (world, cluster) => {
    const [broker] = world.brokers
    broker?.on(ApiVersions, asked => {
      asked.from.socket.destroy()
    })
    await assert.rejects(cluster.refresh())
    const dials = broker?.connections.length ?? 0
    assert(dials > 10 && dials < 40, `${dials} dials in 30 s`)
  })
})

test('a broker that opens well and then cuts every request is not asked in a hot loop', async () => {
  await story(1, { requestTimeoutMs: 30_000 }, async (world, cluster) => {
    const [broker] = world.brokers
    broker?.on(Metadata, asked => {
      asked.from.socket.destroy()
    })
    await assert.rejects(cluster.refresh())
    const dials = broker?.connections.length ?? 0
    assert(dials > 10 && dials < 60, `${dials} dials in 30 s`)
  })
})

test('twenty calls on one signal warn of nothing and leave no listener', async () => {
  const warnings: Error[] = []
  const note = (warning: Error) => void warnings.push(warning)
  process.on('warning', note)
  await story(1, {}, async (world, cluster) => {
    world.brokers[0]?.on(ListGroups, () => ({ errorCode: 0, groups: [] }))
    const { signal } = new AbortController()
    const calls = Array.from({ length: 20 }, () =>
      cluster.request(ListGroups, {}, { to: { node: 0 }, signal })
    )
    await Promise.all(calls)
  })
  process.off('warning', note)
  assert.deepEqual(warnings, [])
})

test('options that make no sense are refused at once, by name', () => {
  const env = new World().env()
  const make = (options: object) => () => new Cluster(env, { bootstrap: ['b0'], ...options })
  assert.throws(make({ bootstrap: [] }), {
    code: 'INVALID_ARGUMENT',
    message: /bootstrap is empty/
  })
  assert.throws(make({ bootstrap: ['http://b0:1'] }), {
    message: /'http:\/\/b0:1' is not host:port/
  })
  assert.throws(make({ bootstrap: ['b0:99999'] }), { message: /is not host:port/ })
  assert.throws(make({ requestTimeoutMs: 0 }), { message: /requestTimeoutMs is 0/ })
  assert.throws(make({ metadataMaxAgeMs: NaN }), { message: /metadataMaxAgeMs is NaN/ })
})
