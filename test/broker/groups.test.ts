/** The stories that both brokers are told, of groups, offsets, tools, and batches that lie; and groups of the embedded broker. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { kafkaErrorName } from '../../src/protocol/errors.ts'
import { adminStories } from './admin-stories.ts'
import { batchStories } from './batch-stories.ts'
import { classicGroupStories } from './classic-group-stories.ts'
import { consumerGroupStories } from './consumer-group-stories.ts'
import { Classic } from './classic-wire.ts'
import { Member, commit, committed, until } from './group-wire.ts'
import { Wire } from './wire.ts'
import { offsetStories } from './offset-stories.ts'

const env = nodeEnv({ cpu: nodeCpu() })
let broker: Broker

before(async () => {
  broker = await Broker.start()
})
after(() => broker.close())

const site = () => ({ env, bootstrap: broker.bootstrap[0] ?? '' })

consumerGroupStories(site)
classicGroupStories(site)
offsetStories(site)
batchStories(site)
adminStories(site)

test('a broker that does not coordinate a group says so to every request, and the other takes over', async () => {
  await using pair = await Broker.start({ brokers: 2, topics: { t: 2 } })
  const [first, second] = await Promise.all(pair.bootstrap.map(at => Wire.connect(env, at)))
  assert(first && second)
  pair.moveController('g', 1)
  const one = new Member(first, 'g', ['t'])
  await until([one], () => one.count === 2)
  const elsewhere = new Member(second, 'g', ['t'], one.id)
  assert.equal(await elsewhere.beat(), 'NOT_COORDINATOR')
  const by = { memberId: one.id, epoch: one.epoch }
  assert.deepEqual(await commit(second, 'g', 't', { 0: 1 }, by), ['NOT_COORDINATOR'])
  assert.equal(await committed(second, 'g'), 'NOT_COORDINATOR')
  const classic = new Classic(second, 'g', 't')
  assert.equal(kafkaErrorName((await classic.join()).errorCode), 'NOT_COORDINATOR')
  assert.deepEqual(
    [await classic.beat(), await classic.sync(), (await classic.leave())[0]],
    ['NOT_COORDINATOR', 'NOT_COORDINATOR', 'NOT_COORDINATOR']
  )
  pair.moveController('g', 2)
  assert.equal(await one.beat(), 'NOT_COORDINATOR')
  Object.assign(elsewhere, { epoch: one.epoch, owned: one.owned })
  assert.equal(await elsewhere.beat(), 'NONE')
  assert.deepEqual(await commit(second, 'g', 't', { 0: 1 }, by), ['NONE'])
  await Promise.all([first.close(), second.close()])
})
