/** A broker in a process of its own, to be killed: `node child-broker.js DIRECTORY DURABILITY [OPTIONS]`, more options as JSON. Prints its address. */
import { Broker, type StartOptions } from '../../src/broker.ts'

const [dataDir = '', durability = 'fsync', more = '{}'] = process.argv.slice(2)
assertDurability(durability)
const options = JSON.parse(more) as StartOptions
const broker = await Broker.start({ dataDir, durability, topics: { t: 3 }, ...options })
process.stdout.write(`${broker.bootstrap[0]}\n`)

function assertDurability(text: string): asserts text is 'fsync' | 'os' {
  if (text !== 'fsync' && text !== 'os') throw new Error(`durability ${text}`)
}
