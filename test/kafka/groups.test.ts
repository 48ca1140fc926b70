/** The same stories of groups as test/broker/, told to a real Kafka. */
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { consumerGroupStories } from '../broker/consumer-group-stories.ts'
import { kafka } from './cluster.ts'

const env = nodeEnv({ cpu: nodeCpu() })

consumerGroupStories(() => ({ env, bootstrap: kafka.bootstrap[0] ?? '' }))
