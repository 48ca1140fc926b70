/** The stories of producing, told to the embedded broker. */
import { after, before } from 'node:test'
import { Broker } from '../../src/broker.ts'
import type { Cluster } from '../../src/rpc/cluster.ts'
import { clusterAt } from '../kafka/reading.ts'
import { producingStories } from './producing-stories.ts'

let broker: Broker
let cluster: Cluster

before(async () => {
  broker = await Broker.start()
  cluster = clusterAt(broker.bootstrap)
})
after(async () => {
  await cluster.close()
  await broker.close()
})

producingStories(() => cluster)
