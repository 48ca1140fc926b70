/** The broker of the bench, alone in its process: `node broker.js PARTITIONS MEMBERS`. */
import { Broker } from '../../src/broker.ts'

const [partitions = '', members = ''] = process.argv.slice(2)
const broker = await Broker.start({
  topics: { t: Number(partitions) },
  maxConnections: Number(members) + 100,
  groups: { maxSize: Number(members) + 1 }
})
process.send?.({ bootstrap: broker.bootstrap })
const start = process.cpuUsage()
process.on('message', () => {
  const { rss, heapUsed } = process.memoryUsage()
  const { user, system } = process.cpuUsage(start)
  process.send?.({ rssMb: rss / 2 ** 20, heapMb: heapUsed / 2 ** 20, cpuMs: (user + system) / 1e3 })
})
process.on('disconnect', () => process.exit(0))
