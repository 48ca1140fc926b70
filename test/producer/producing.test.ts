/** The stories of producing, told to the embedded broker, as it is and playing older ones. */
import { after, before, describe } from 'node:test'
import { Broker } from '../../src/broker.ts'
import type { Cluster } from '../../src/rpc/cluster.ts'
import { older } from '../client/older.ts'
import { clusterAt } from '../kafka/reading.ts'
import { producingStories } from './producing-stories.ts'

for (const [name, maxVersions] of [['as it is', undefined] as const, ...Object.entries(older)]) {
  describe(`the embedded broker, ${name}`, () => {
    let broker: Broker
    let cluster: Cluster

    before(async () => {
      broker = await Broker.start(maxVersions === undefined ? {} : { maxVersions })
      cluster = clusterAt(broker.bootstrap)
    })
    after(async () => {
      await cluster.close()
      await broker.close()
    })

    producingStories(() => cluster, 10_000)
  })
}
