/** No admin call outlasts its time: the client's `requestTimeoutMs`, or its own `timeoutMs`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PlayheadError } from '../../src/base/error.ts'
import { Admin } from '../../src/client/admin/admin.ts'
import { Cluster } from '../../src/rpc/cluster.ts'
import { VirtualWorld } from './consumer/virtual.ts'

interface Wait {
  readonly timeoutMs?: number
}

const t = [{ topic: 't', partition: 0 }]

/** Each call that asks a broker, once. */
const calls: readonly (readonly [string, (admin: Admin, wait: Wait) => Promise<unknown>])[] = [
  ['describeCluster', (admin, wait) => admin.describeCluster(wait)],
  ['apiVersions', (admin, wait) => admin.apiVersions(wait)],
  ['describeConfigs', (admin, wait) => admin.describeConfigs({ topic: 't' }, wait)],
  ['listTopics', (admin, wait) => admin.listTopics(wait)],
  ['createTopics', (admin, wait) => admin.createTopics([{ topic: 'u' }, { topic: 'v' }], wait)],
  ['describeTopics', (admin, wait) => admin.describeTopics(['t'], wait)],
  ['deleteTopics', (admin, wait) => admin.deleteTopics(['t', 'u'], wait)],
  ['addPartitions', (admin, wait) => admin.addPartitions('t', 9, wait)],
  ['listOffsets', (admin, wait) => admin.listOffsets(t, 'latest', wait)],
  ['listGroups', (admin, wait) => admin.listGroups(wait)],
  ['describeGroups', (admin, wait) => admin.describeGroups(['g'], wait)],
  ['lag', (admin, wait) => admin.lag('g', wait)],
  ['offsets', (admin, wait) => admin.offsets('g', wait)],
  ['deleteGroups', (admin, wait) => admin.deleteGroups(['g', 'h'], wait)],
  ['deleteOffsets', (admin, wait) => admin.deleteOffsets('g', t, wait)],
  ['planRewind', (admin, wait) => admin.planRewind('g', { to: 'earliest', ...wait })],
  [
    'planReplay',
    (admin, wait) => admin.planReplay('g', { from: 'earliest', until: { offset: 1 }, ...wait })
  ],
  ['planUndo', (admin, wait) => admin.planUndo('g', wait)],
  ['rewinds', (admin, wait) => admin.rewinds('g', wait)],
  ['cancelRewind', (admin, wait) => admin.cancelRewind('g', wait)]
]

/** What a broker that hangs still answers: a client gets further with each. */
const answered: readonly (readonly string[])[] = [
  [],
  ['ApiVersions'],
  ['ApiVersions', 'Metadata'],
  ['ApiVersions', 'Metadata', 'FindCoordinator', 'ControllerListGroups']
]

for (const [limit, requestTimeoutMs, wait, mostMs] of [
  ['the client’s requestTimeoutMs', 2_000, {}, 2_000],
  ['its own timeoutMs, whatever the client’s requestTimeoutMs is', 20_000, { timeoutMs: 700 }, 700]
] as const) {
  test(`of a broker that hangs, every admin call gives up at ${limit}`, async () => {
    const world = await new VirtualWorld().start()
    for (const apis of answered) {
      world.broker.control.clear()
      world.broker.control.on('*', ({ api }) => (apis.includes(api) ? undefined : 'drop'))
      for (const [name, call] of calls) {
        const bootstrap = ['b:9092']
        const cluster = new Cluster(world.env('admin'), { bootstrap, requestTimeoutMs })
        const startedAt = world.clock.monotonic()
        const ended = call(new Admin(cluster), wait).then(
          () => null,
          (error: unknown) => error
        )
        const error = await world.clock.play(ended)
        const tookMs = world.clock.monotonic() - startedAt
        const what = `${name}, when [${apis}] is answered: ${String(error)} after ${tookMs} ms`
        // A list says by itself which brokers it lacks; and some calls need no more than is answered.
        assert.ok(error === null || error instanceof PlayheadError, what)
        assert.ok(tookMs <= mostMs + 5, what)
        assert.ok(error === null || tookMs >= mostMs / 2, what)
        await world.clock.play(cluster.close())
      }
    }
    await world.end()
  })
}
