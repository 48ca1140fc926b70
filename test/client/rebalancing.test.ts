/** What an admin sees of a classic group that is being made anew. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Broker } from '../../src/broker.ts'
import { Playhead } from '../../src/index.ts'
import { JoinGroup } from '../../src/protocol/api/join-group.ts'

test('while a classic group rebalances, nobody is told to be the owner of what, and nobody to be foreign to rewinds', async () => {
  await using broker = await Broker.start({ topics: { t: 2 } })
  await using kafka = new Playhead({ bootstrap: broker.bootstrap })
  const consumer = kafka.consumer({ group: 'g', topics: ['t'], protocol: 'classic' })
  const assigned = new Promise<void>(resolve => consumer.on('assigned', () => resolve()))
  const reading = (async () => {
    for await (const _ of consumer) assert.fail('there is nothing to read')
  })()
  await assigned
  const seen = async () => {
    const [group] = await kafka.admin().describeGroups(['g'])
    return { state: group?.state, partitions: group?.members.map(m => m.partitions.length) }
  }
  assert.deepEqual(await seen(), { state: 'Stable', partitions: [2] })

  // Another joins: the group waits for the consumer, which hears of it by its next heartbeat.
  const join = (memberId: string) =>
    kafka.cluster.request(
      JoinGroup,
      {
        groupId: 'g',
        sessionTimeoutMs: 10_000,
        rebalanceTimeoutMs: 10_000,
        memberId,
        protocolType: 'consumer',
        protocols: [{ name: 'cooperative-sticky', metadata: Buffer.alloc(8) }]
      },
      { to: { group: 'g' } }
    )
  const { memberId } = await join('')
  const joined = join(memberId)
  let last = await seen()
  while (last.state !== 'PreparingRebalance') last = await seen()
  assert.deepEqual(last.partitions, [0, 0])
  await consumer.close()
  await reading
  await joined
})
