/** A process that copies a topic to another by a pipeline until it is killed: `… BOOTSTRAP GROUP FROM TO ID`. */
import { Playhead } from '../../src/index.ts'

const [bootstrap = '', group = '', from = '', to = '', id = ''] = process.argv.slice(2)

const kafka = new Playhead({ bootstrap: bootstrap.split(','), clientId: id, logLevel: 'error' })
const pipeline = kafka.pipeline(
  {
    from: { group, topics: [from], sessionTimeoutMs: 3_000 },
    transactionalId: `${group}-${id}`,
    transactionTimeoutMs: 10_000,
    maxRecords: 200
  },
  records =>
    records.map(({ partition, offset }) => ({ topic: to, value: `${partition}@${offset}` }))
)
await pipeline.run()
