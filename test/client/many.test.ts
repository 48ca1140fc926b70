/** Many of a kind on one client, as a process has that reads a dozen topics by a consumer each. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Broker } from '../../src/broker.ts'
import { Playhead } from '../../src/index.ts'

test('a dozen consumers, producers and runs with one signal between them are no leak that Node warns of', async () => {
  const warnings: Error[] = []
  const hear = (warning: Error) => warnings.push(warning)
  process.on('warning', hear)
  await using broker = await Broker.start({ topics: { orders: 1 } })
  const kafka = new Playhead({ bootstrap: broker.bootstrap })
  const stop = new AbortController()
  const dozen = Array.from({ length: 12 }, (_, i) => i)
  const consumers = dozen.map(i =>
    kafka.consumer({ group: `g${i}`, topics: ['orders'], startFrom: 'earliest' })
  )
  const producers = dozen.map(() => kafka.producer())
  let heard = 0
  const runs: Promise<void>[] = []
  const all = new Promise<void>(resolve => {
    const hears = () => void (++heard === dozen.length && resolve())
    for (const each of consumers) runs.push(each.run(hears, { signal: stop.signal }))
  })
  await producers[0]?.send('orders', { value: 'x' })
  await all
  stop.abort()
  await Promise.all(runs)
  await Promise.all([...consumers, ...producers].map(each => each.close()))
  await kafka.close()
  // Warnings are told in a turn of their own.
  await new Promise(resolve => setImmediate(resolve))
  process.off('warning', hear)
  assert.deepEqual(warnings, [])
})
