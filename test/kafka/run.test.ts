/** The stories of `run`, told to a real Kafka. */
import { runStories } from '../client/consumer/run-stories.ts'
import { kafka } from './cluster.ts'

runStories(() => kafka.bootstrap)
