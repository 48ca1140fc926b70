/** Groups of the embedded broker. */
import { after, before } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { classicGroupStories } from './classic-group-stories.ts'
import { consumerGroupStories } from './consumer-group-stories.ts'
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
