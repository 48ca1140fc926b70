/**
 * The broker of the bench, alone in its process: `node broker.js PARTITIONS MEMBERS [DIR]`. With a directory it keeps what
 * it is told there, synced. Its parent asks it with words: `report`, or `profile`, and `profile FILE` to end that.
 */
import { writeFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { Broker } from '../../src/broker.ts'

const [partitions = '', members = '', dataDir = ''] = process.argv.slice(2)
const broker = await Broker.start({
  topics: { t: Number(partitions) },
  maxConnections: Number(members) + 100,
  groups: { maxSize: Number(members) + 1 },
  ...(dataDir === '' ? {} : { dataDir })
})
process.send?.({ bootstrap: broker.bootstrap })
const start = process.cpuUsage()
let profiler: Session | undefined

process.on('message', async (word: string) => {
  const [what, file] = word.split(' ')
  if (what === 'profile') await profile(file)
  const { rss, heapUsed } = process.memoryUsage()
  const { user, system } = process.cpuUsage(start)
  process.send?.({ rssMb: rss / 2 ** 20, heapMb: heapUsed / 2 ** 20, cpuMs: (user + system) / 1e3 })
})
process.on('disconnect', () => process.exit(0))

async function profile(file: string | undefined): Promise<void> {
  if (file === undefined) {
    profiler = new Session()
    profiler.connect()
    await profiler.post('Profiler.enable')
    await profiler.post('Profiler.start')
  } else if (profiler !== undefined) {
    const { profile: found } = await profiler.post('Profiler.stop')
    writeFileSync(file, JSON.stringify(found))
    profiler.disconnect()
  }
}
