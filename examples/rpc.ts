/**
 * The low-level RPC API: any request of Kafka's protocol to whoever should get it.
 *
 *   npm run build && PLAYHEAD_BOOTSTRAP=127.0.0.1:9092 node build/examples/rpc.js
 *
 * In a project of your own the imports are from 'playhead' and 'playhead/protocol'.
 */
import { Playhead } from '../src/index.ts'
import { DescribeConfigs, ListOffsets } from '../src/protocol.ts'

const bootstrap = (process.env.PLAYHEAD_BOOTSTRAP ?? '127.0.0.1:9092').split(',')
await using kafka = new Playhead({ bootstrap, clientId: 'explorer' })
const topic = `rpc-${process.pid}`
await kafka.admin().createTopics([{ topic, partitions: 1 }])

// Await the answer, from the partition's leader.
const offsets = await kafka.cluster.request(
  ListOffsets,
  {
    replicaId: -1,
    isolationLevel: 0,
    topics: [{ name: topic, partitions: [{ partitionIndex: 0, timestamp: -1 }] }]
  },
  { to: { leader: { topic, partition: 0 } } }
)
console.log(`the log ends at ${offsets.topics[0]?.partitions[0]?.offset}`)

// Or send at once, and look at the handle later.
const call = kafka.cluster.send(
  DescribeConfigs,
  { resources: [{ resourceType: 2, resourceName: topic, configurationKeys: ['cleanup.policy'] }] },
  { to: 'any', timeoutMs: 5_000 }
)
await call.written
const { body } = await call.response
console.log(`its records are kept by: ${body.results[0]?.configs[0]?.value}`)
