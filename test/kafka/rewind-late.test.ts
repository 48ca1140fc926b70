/**
 * Late commits (live-rewind.md): the coordinator hangs, a commit that was sent to it is given up as its connection
 * breaks, a rewind is acknowledged on a new connection, and when the coordinator wakes up it takes them in either order.
 */
import assert from 'node:assert/strict'
import { after, before, type TestContext, test } from 'node:test'
import { nodeEnv } from '../../src/base/node/env.ts'
import { silentLog } from '../../src/base/node/log.ts'
import { Client } from '../../src/client/client.ts'
import { ledgerOf, readSlots, writeEntries } from '../../src/client/ledger.ts'
import { effective } from '../../src/group/ledger/position.ts'
import { OffsetCommit } from '../../src/protocol/api/offset-commit.ts'
import { nextSequence, type Sequence } from '../../src/protocol/embedded/rewind-envelope.ts'
import { kafka, type OwnCluster } from './cluster.ts'
import { SeverableNet } from './rewind/severed.ts'
import { eventually, fill } from './rewind/team.ts'

const roundsOf = { consumer: 100, classic: 20 } as const
const rewindCheckMs = 50
let own: OwnCluster
let caller: Client

before(async () => {
  own = await kafka.startOwn({ brokers: 2, extra: { 'offsets.topic.replication.factor': '1' } })
  caller = new Client(nodeEnv(), { bootstrap: own.bootstrap, clientId: 'caller' })
})

after(async () => {
  await caller.close()
  await own.down()
})

/** A group whose coordinator is another broker than its ledger's, so that one can hang without the other. */
async function splitGroup(): Promise<{ readonly group: string; readonly coordinator: number }> {
  for (;;) {
    const group = own.uniqueName('late')
    const coordinator = await caller.cluster.coordinator({ group })
    if (coordinator !== (await caller.cluster.coordinator({ group: ledgerOf(group) }))) {
      return { group, coordinator }
    }
  }
}

for (const protocol of ['consumer', 'classic'] as const) {
  test(`W4 precedence, ${protocol}: of ${roundsOf[protocol]} rewinds beside a commit given up at a hanging coordinator, none ends at an old position`, t =>
    late(protocol, t))
}

async function late(protocol: 'consumer' | 'classic', t: TestContext): Promise<void> {
  const rounds = roundsOf[protocol]
  const topic = own.uniqueName('late')
  const { group, coordinator } = await splitGroup()
  const ledger = ledgerOf(group)
  await caller.admin().createTopics([{ topic, partitions: 1, replicationFactor: 1 }])
  await fill(caller, topic, 1, 1_000)
  const { topicId } = await caller.cluster.topic(topic)
  const port = Number(own.bootstrap[coordinator]?.split(':')[1])
  const real = nodeEnv({ log: silentLog })
  const net = new SeverableNet(real.net)
  const client = new Client({ ...real, net }, { bootstrap: own.bootstrap, clientId: 'owner' })
  const applied: Sequence[] = []
  const consumer = client.consumer({
    group,
    topics: [topic],
    protocol,
    commit: 'manual',
    rewindCheckMs,
    fetchMaxWaitMs: 100
  })
  consumer.on('rewound', ({ id }) => void applied.push(id))
  consumer.on('error', ({ error }) => void error)
  t.after(async () => {
    await consumer.close({ timeoutMs: 2_000 })
    await client.close()
  })
  let position = 0
  const reading = (async () => {
    for await (const { offset } of consumer) position = offset + 1
  })()
  const slots = async () => {
    const partitions = [{ topic, topicId, partition: 0 }]
    const found = await readSlots(caller.cluster, group, ledger, partitions, () => topicId)
    return found.get(`${topic}/0`) ?? { commit: null, entry: null }
  }
  await eventually(() => position === 1_000, 'everything is read')
  await consumer.commit()

  const overridden = new Set<number>()
  let last: Sequence = '0'
  for (let round = 0; round < rounds; round++) {
    await eventually(() => position === 1_000, 'everything is read again')
    await own.pause(coordinator)
    // The commit is written, and given up. What it would commit is the end: 1,000.
    net.hold(port)
    const given = consumer.commit().catch(() => {})
    // Where the connection is just being made anew, it is not written, and nothing can come late.
    const soon = performance.now() + 200
    const written = () => net.holds(port, OffsetCommit.key)
    await eventually(() => written() || performance.now() > soon, 'the commit is written')
    const arrive = net.sever(port)
    const now = Date.now()
    last = nextSequence(now, [last], 'late')
    const entry = {
      sequence: last,
      state: 'pending' as const,
      topicId,
      created: now,
      expires: now + 60_000,
      target: round,
      before: { offset: 1_000, sequence: '0' },
      until: null,
      resume: null,
      who: 'test',
      reason: ''
    }
    await writeEntries(caller.cluster, ledger, [{ topic, partition: 0, entry }])
    // The owner jumps, and its acknowledgement waits at the coordinator, behind or before the commit given up.
    await eventually(() => consumer.rewindOf({ topic, partition: 0 }) === last, 'it jumped')
    await own.resume(coordinator)
    const late = new Promise<void>(resolve => {
      setTimeout(() => {
        arrive()
        resolve()
      }, Math.random() * 100)
    })
    await given
    await eventually(() => applied.includes(last), 'the rewind is acknowledged')
    await writeEntries(caller.cluster, ledger, [
      { topic, partition: 0, entry: { ...entry, state: 'done' } }
    ])
    const looksEnd = performance.now() + 100
    while (performance.now() < looksEnd) {
      const { commit, entry: done } = await slots()
      if (commit && commit.sequence !== last) overridden.add(round)
      const at = effective(commit, done, Date.now())
      assert.equal(at.sequence, last, `round ${round}: would start at ${JSON.stringify(at)}`)
    }
    await late
    // While its owner lives, the group's own offset is put right, too.
    await eventually(
      async () => (await slots()).commit?.sequence === last,
      `round ${round}: what a late commit did is healed`,
      5_000
    )
  }
  t.diagnostic(`in ${overridden.size} of ${rounds} rounds the late commit was seen to have won`)
  assert.ok(overridden.size > 0, 'the test has teeth: late commits do win')
  await consumer.close()
  await reading
}
