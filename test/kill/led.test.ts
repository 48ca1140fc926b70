/**
 * Rules G and W of a group that a controller leads: members, processes of their own, are rewound by TCP while they and
 * the broker are killed (-9) and started again; their histories are judged by the checkers of the simulation.
 */
import { test } from 'node:test'
import { silentLog } from '../../src/base/node/log.ts'
import { Playhead } from '../../src/index.ts'
import { ChildBroker } from '../broker/child.ts'
import { judgeToTheEnd } from '../kafka/rewind/history.ts'
import { answerLine, callLine, eventually, fill, Team } from '../kafka/rewind/team.ts'

const partitions = 6
const perPartition = 12_000
const rewinds = 12
const sessionTimeoutMs = 2_000
const nodes = ['a', 'b', 'c'] as const
const [topic, group] = ['crash', 'crash']

test('12 rewinds of a led group while members and the broker are killed: the rules of groups and rewinds hold', async t => {
  const broker = await ChildBroker.start({
    topics: { [topic]: partitions },
    groups: { minSessionTimeoutMs: 100 }
  })
  // What is being killed comes back first: nothing of it outlives the test.
  let killer = Promise.resolve()
  t.after(() => killer.finally(() => broker.end()))
  const bootstrap = [broker.address]
  const client = new Playhead({ bootstrap, clientId: 'led-crash', log: silentLog })
  t.after(() => client.close())
  const admin = client.admin()
  await fill(client, topic, partitions, perPartition)
  const protocol = 'controller' as const
  const team = new Team({ bootstrap, group, topic, sessionTimeoutMs, protocol })
  t.after(() => team[Symbol.asyncDispose]())
  for (const node of nodes) team.start(node)
  const committed = async () => {
    const lag = await admin.lag(group)
    return new Map(lag.map(p => [p.partition, p.committed ?? 0]))
  }
  await eventually(
    async () =>
      [...(await committed()).values()].filter(offset => offset > 200).length === partitions,
    'every partition is consumed'
  )

  const ids = new Map<string, { id: string; to: number }>()
  for (let i = 0; i < rewinds; i++) {
    const at = await committed()
    const to = [0, 1, 2].map(n => {
      const partition = (i + 2 * n) % partitions
      const offset = Math.max(0, (at.get(partition) ?? 0) - 500 * (1 + ((i + n) % 5)))
      return { topic, partition, offset }
    })
    const targets = Object.fromEntries(to.map(p => [`${topic}:${p.partition}`, p.offset]))
    const plan = await admin.planRewind(group, { to })
    if (i % 4 === 1) {
      const node = nodes[i % 3] ?? 'a'
      killer = killer.then(async () => {
        await team.kill(node)
        team.start(node)
      })
    }
    if (i % 4 === 3) killer = killer.then(() => broker.restart())
    team.write(callLine(`w${i}`, group, targets))
    const result = await admin.rewind(plan, { timeoutMs: 90_000 })
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
})
