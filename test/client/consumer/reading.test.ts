/** The stories of reading, told to the embedded broker. */
import { after, before } from 'node:test'
import { Broker } from '../../../src/broker.ts'
import { readingStories } from './reading-stories.ts'

let broker: Broker

before(async () => {
  broker = await Broker.start()
})
after(() => broker.close())

readingStories(() => broker.bootstrap)
