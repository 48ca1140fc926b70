/**
 * A broker in a process of its own, to be killed: `node child.js DIRECTORY DURABILITY`. Prints its address, how long it
 * took to open, and how many changes it had to read one by one for that.
 */
import type { Log } from '../../src/base/env.ts'
import { Broker } from '../../src/broker.ts'

const [dataDir = '', durability] = process.argv.slice(2)
if (durability !== 'fsync' && durability !== 'os') throw new Error(`durability ${durability}`)
let replayed: unknown
const log: Log = {
  debug() {},
  info(_message, fields) {
    replayed ??= fields?.['replayed']
  },
  warn: (message, fields) => process.stderr.write(`${message} ${JSON.stringify(fields)}\n`),
  error: (message, fields) => process.stderr.write(`${message} ${String(fields?.['error'])}\n`)
}
const startedAt = performance.now()
const broker = await Broker.start({ dataDir, durability, topics: { t: 3, x: 2 }, log })
const openMs = performance.now() - startedAt
process.stdout.write(`${JSON.stringify({ address: broker.bootstrap[0], openMs, replayed })}\n`)
