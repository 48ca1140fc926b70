/**
 * The embedded broker against Kafka: some thousand seeded requests, valid and slightly wrong, to both; codes and state must
 * be the same. Groups are compared by the stories of groups.test.ts. What differs by intent is listed here.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SeededRandom } from '../../sim/world/random.ts'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { kafka } from './cluster.ts'
import { draw } from './differential-steps.ts'
import { Subject } from './differential.ts'

const env = nodeEnv({ cpu: nodeCpu() })
const steps = Number(process.env['PLAYHEAD_STEPS'] ?? 1_500)
const seed = Number(process.env['PLAYHEAD_SEED'] ?? 1)

test(`${steps} requests are answered as by Kafka (seed ${seed})`, async () => {
  await using broker = await Broker.start({ defaultPartitions: 1 })
  const prefix = kafka.uniqueName('diff')
  const time = Date.now()
  const [ours, theirs] = await Promise.all([
    Subject.at(env, broker.bootstrap[0] ?? '', prefix, time),
    Subject.at(env, kafka.bootstrap[0] ?? '', prefix, time)
  ])
  const random = new SeededRandom(seed)
  try {
    for (let done = 0; done < steps; done++) {
      const step = draw(random)
      const [own, their] = await Promise.all([ours.take(step), theirs.take(step)])
      assert.deepEqual(own, their, `step ${done}: ${JSON.stringify(step)}`)
    }
  } finally {
    for (const topic of ['t0', 't1', 't2']) await theirs.take({ do: 'delete', topic })
    await ours.close()
    await theirs.close()
  }
})
