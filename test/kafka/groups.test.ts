/** The same stories as in test/broker/, told to a real Kafka: of groups, offsets, tools, and batches that lie. */
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { adminStories } from '../broker/admin-stories.ts'
import { batchStories } from '../broker/batch-stories.ts'
import { classicGroupStories } from '../broker/classic-group-stories.ts'
import { consumerGroupStories } from '../broker/consumer-group-stories.ts'
import { offsetStories } from '../broker/offset-stories.ts'
import { kafka } from './cluster.ts'

const env = nodeEnv({ cpu: nodeCpu() })

const site = () => ({ env, bootstrap: kafka.bootstrap[0] ?? '' })

consumerGroupStories(site)
classicGroupStories(site)
offsetStories(site)
batchStories(site)
adminStories(site)
