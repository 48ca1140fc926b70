/** A broker in a process of its own, to be killed: `node child-broker.js DIRECTORY DURABILITY`. Prints its address. */
import { Broker } from '../../src/broker.ts'

const [dataDir = '', durability = 'fsync'] = process.argv.slice(2)
assertDurability(durability)
const broker = await Broker.start({ dataDir, durability, topics: { t: 3 } })
process.stdout.write(`${broker.bootstrap[0]}\n`)

function assertDurability(text: string): asserts text is 'fsync' | 'os' {
  if (text !== 'fsync' && text !== 'os') throw new Error(`durability ${text}`)
}
