/** The stories of reading, told to a real Kafka. */
import { readingStories, storiesOfIds } from '../client/consumer/reading-stories.ts'
import { kafka } from './cluster.ts'

readingStories(() => kafka.bootstrap)
storiesOfIds(() => kafka.bootstrap)
