/**
 * The broker that the fuzzer works on, in a process of its own. Prints its address, and for every line of input what it
 * is like: how many requests it has read, memory after a collection, the longest stop of the event loop, and errors that
 * it calls its own.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { createInterface } from 'node:readline'
import type { Log } from '../../src/base/env.ts'
import { Broker } from '../../src/broker.ts'

const faults = new Set<string>()
let refused = 0
const log: Log = {
  debug() {},
  info() {},
  warn(message) {
    if (message.includes('for its bytes')) refused++
  },
  error: (message, fields) => {
    const error = fields?.['error']
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    if (faults.size < 20) faults.add(`${message}: ${String(fields?.['api'])}: ${text}`)
  }
}
const broker = await Broker.start({ topics: { t: 2 }, log })
let handled = 0
broker.control.on('*', () => {
  handled++
})
const delay = monitorEventLoopDelay({ resolution: 5 })
delay.enable()
process.stdout.write(`${broker.bootstrap[0]}\n`)
createInterface(process.stdin).on('line', () => {
  globalThis.gc?.()
  const { heapUsed, external, rss } = process.memoryUsage()
  const longestMs = delay.max / 1e6
  delay.reset()
  process.stdout.write(
    `${JSON.stringify({ read: handled + refused, bytes: heapUsed + external, rss, longestMs, faults: [...faults] })}\n`
  )
})
