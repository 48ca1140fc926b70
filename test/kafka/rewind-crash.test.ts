/** A group of processes is rewound while members and callers are killed, and the histories are judged. */
import assert from 'node:assert/strict'
import { after, before, type TestContext, test } from 'node:test'
import type { Admin } from '../../src/client/admin/admin.ts'
import type { RewindResult } from '../../src/client/admin/rewind-result.ts'
import type { KnownRewind } from '../../src/client/admin/rewind-status.ts'
import { Playhead } from '../../src/index.ts'
import { kafka, type OwnCluster } from './cluster.ts'
import { type Call, judgeToTheEnd } from './rewind/history.ts'
import { answerLine, callLine, eventually, fill, Team } from './rewind/team.ts'

let own: OwnCluster
let client: Playhead
let admin: Admin

before(async () => {
  // A member that was killed is missed after 6 s instead of 45.
  const names = [
    'session.timeout',
    'min.session.timeout',
    'heartbeat.interval',
    'min.heartbeat.interval'
  ]
  const values = ['6000', '6000', '1000', '1000']
  const extra = Object.fromEntries(names.map((n, i) => [`group.consumer.${n}.ms`, values[i] ?? '']))
  own = await kafka.startOwn({ extra })
  client = new Playhead({ bootstrap: own.bootstrap, clientId: 'rewind-crash' })
  admin = client.admin()
})

after(async () => {
  await client.close()
  await own.down()
})

const partitions = 6
const perPartition = 33_334
const rewindsOf = { consumer: 20, classic: 6 } as const

for (const protocol of ['consumer', 'classic'] as const) {
  test(`W6 crash, ${protocol}: ${rewindsOf[protocol]} rewinds while members, callers and the broker are killed; nothing is skipped after a target`, t =>
    crashes(protocol, t))
}

async function crashes(protocol: 'consumer' | 'classic', t: TestContext): Promise<void> {
  const topic = own.uniqueName('crash')
  const group = own.uniqueName('crash')
  await admin.createTopics([{ topic, partitions }])
  await fill(client, topic, partitions, perPartition)
  const { bootstrap } = own
  const team = new Team({ bootstrap, group, topic, protocol, sessionTimeoutMs: 6_000 })
  t.after(() => team[Symbol.asyncDispose]())
  for (const node of ['a', 'b', 'c']) team.start(node)
  const committed = async () => {
    const lag = await admin.lag(group)
    return new Map(lag.map(p => [p.partition, p.committed ?? 0]))
  }
  await eventually(
    async () =>
      [...(await committed()).values()].filter(offset => offset > 500).length === partitions,
    'every partition is consumed'
  )

  const ids = new Map<string, { id: string; to: number }>()
  let killer = Promise.resolve()
  for (let i = 0; i < rewindsOf[protocol]; i++) {
    const chosen = [...Array(partitions).keys()].filter(() => Math.random() < 0.4)
    if (chosen.length === 0) chosen.push(i % partitions)
    const at = await committed()
    const to = chosen.map(partition => ({
      topic,
      partition,
      offset: Math.max(0, (at.get(partition) ?? 0) - Math.floor(Math.random() * 6_000))
    }))
    const targets = Object.fromEntries(to.map(p => [`${topic}:${p.partition}`, p.offset]))
    if (i % 4 === 1) {
      const node = ['a', 'b', 'c'][i % 3] ?? 'a'
      killer = killer.then(async () => {
        await team.kill(node)
        team.start(node)
      })
    }
    // Once or twice it is the broker: coordinator of group and ledger, and leader of all partitions.
    if (i % 9 === 4) {
      killer = killer.then(async () => {
        await own.kill(0)
        await own.start(0)
      })
    }
    team.write(callLine(`w${i}`, group, targets))
    const result = i % 5 === 2 ? await orphaned(team, group, to) : await answered(group, to)
    team.write(answerLine(`w${i}`, result))
    for (const { partition, to: offset } of result.partitions) {
      ids.set(`${topic}:${partition}`, { id: result.id, to: offset })
    }
  }
  await killer
  await eventually(
    async () => [...(await committed()).values()].every(offset => offset === perPartition),
    'the group comes to the end',
    120_000
  )
  await team.stop()

  const history = team.history()
  judgeToTheEnd(history, { topic, partitions, perPartition }, ids)
  const count = (k: string) => history.filter(event => event.k === k).length
  t.diagnostic(
    `${count('deliver')} deliveries, ${count('applied')} jumps, ${count('join')} members`
  )
}

async function answered(group: string, to: Call['to']): Promise<RewindResult> {
  // A partition whose owner was killed has none until the broker's session time-out.
  return await admin.rewind(await admin.planRewind(group, { to }), { timeoutMs: 90_000 })
}

/** Its caller is killed before it has an answer; whoever looks afterwards sees it applied to all, as it was asked for. */
async function orphaned(team: Team, group: string, to: Call['to']): Promise<KnownRewind> {
  await team.rewindAndDie(to)
  let newest: KnownRewind | undefined
  await eventually(
    async () => {
      newest = (await admin.rewinds(group))[0]
      return newest?.partitions.every(({ state }) => state === 'applied') === true
    },
    `a rewind of ${to.length} partitions whose caller was killed takes place`,
    90_000
  )
  assert.ok(newest !== undefined)
  assert.deepEqual(
    new Map(newest.partitions.map(p => [p.partition, p.to])),
    new Map(to.map(p => [p.partition, p.offset]))
  )
  return newest
}
