/** A broker in a process of its own, to be killed: `node child.js DIRECTORY DURABILITY`. Prints its address, and how long it took to open. */
import { Broker } from '../../src/broker.ts'

const [dataDir = '', durability] = process.argv.slice(2)
if (durability !== 'fsync' && durability !== 'os') throw new Error(`durability ${durability}`)
const startedAt = performance.now()
const broker = await Broker.start({ dataDir, durability, topics: { t: 3, x: 2 } })
const openMs = performance.now() - startedAt
process.stdout.write(`${JSON.stringify({ address: broker.bootstrap[0], openMs })}\n`)
