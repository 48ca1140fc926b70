/** Node's own implementations of the ports: its clock and its log. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import fc from 'fast-check'
import { nodeClock } from '../../src/base/node/clock.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { lineLog } from '../../src/base/node/log.ts'
import { printable } from '../../src/base/printable.ts'
import { Secret } from '../../src/base/secret.ts'

test('a timer of Node never fires early by the monotonic clock', async () => {
  const early: number[] = []
  const delays = Array.from({ length: 200 }, (_, i) => i / 7)
  await Promise.all(
    delays.map(delayMs => {
      const due = nodeClock.monotonic() + delayMs
      return new Promise<void>(resolve => {
        nodeClock.after(delayMs, () => {
          if (nodeClock.monotonic() < due) early.push(delayMs)
          resolve()
        })
      })
    })
  )
  assert.deepEqual(early, [])
})

test('a delay longer than Node can wait does not fire at once, and can be cancelled', async () => {
  let fired = 0
  const timer = nodeClock.after(2 ** 31 + 5, () => fired++)
  await new Promise<void>(resolve => nodeClock.after(20, resolve))
  assert.equal(fired, 0)
  timer.cancel()
  timer.cancel()
  assert(!process.getActiveResourcesInfo().includes('Timeout'))
})

test('soon comes after all promise jobs, and not when cancelled', async () => {
  const order: string[] = []
  await new Promise<void>(resolve => {
    nodeClock.soon(() => order.push('cancelled')).cancel()
    nodeClock.soon(() => {
      order.push('soon')
      resolve()
    })
    void (async () => {
      for (let i = 0; i < 10; i++) await null
      order.push('promises')
    })()
    order.push('now')
  })
  assert.deepEqual(order, ['now', 'promises', 'soon'])
})

function lines(level: 'debug' | 'warn' = 'debug') {
  const written: string[] = []
  const clock = { ...nodeClock, now: () => 0 }
  return { written, log: lineLog({ level, clock, write: line => written.push(line) }) }
}

test('a log line holds time, level, message and fields', () => {
  const { log, written } = lines()
  const error = new Error('no connection', { cause: new Error('refused') })
  log.info('joined', { group: 'a b', generation: 3, topics: ['x'], none: undefined, error })
  assert.deepEqual(written, [
    `1970-01-01T00:00:00.000Z INFO  joined group="a b" generation=3 topics=[ 'x' ] ` +
      `error="no connection: refused"\n`
  ])
})

test('a log writes nothing below its level', () => {
  const { log, written } = lines('warn')
  log.debug('a')
  log.info('b')
  log.warn('c')
  log.error('d')
  assert.equal(written.length, 2)
})

test('whatever is logged stays one printable line', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.anything(), (text, value) => {
      const { log, written } = lines()
      log.warn(text, { [text]: text, value })
      const line = written.join('')
      assert(line.endsWith('\n'))
      assert.doesNotMatch(line.slice(0, -1), /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202e]/)
    })
  )
  assert.equal(printable('\u001b[2Ja\r\n\u009b\u202e'), '\\x1b[2Ja\\r\\n\\x9b\\u202e')
})

test('a long value is cut off', () => {
  const { log, written } = lines()
  log.warn('', { long: 'x'.repeat(100_000) })
  assert(Number(written[0]?.length) < 1_100)
})

test('a secret shows only when it is revealed', () => {
  const secret = new Secret('canary')
  const { log, written } = lines()
  log.error('login', { secret, nested: { secret }, list: [secret] })
  const shown = [
    ...written,
    String(secret),
    `${secret}`,
    JSON.stringify({ secret }),
    inspect(secret, { showHidden: true }),
    inspect({ deep: [secret] }),
    JSON.stringify(Object.entries(secret))
  ].join()
  assert.doesNotMatch(shown, /canary/)
  assert.match(shown, /secret=\*\*\*/)
  assert.equal(secret.reveal(), 'canary')
})

test('the Node env is complete, and its log is quiet below a warning', async () => {
  const env = nodeEnv()
  assert.equal(env.cpu.crc32c(Buffer.from('123456789')), 0xe306_9283)
  const draws = Array.from({ length: 100 }, () => env.random.next())
  assert(draws.every(draw => draw >= 0 && draw < 1) && new Set(draws).size > 90)
  const listener = await env.net.listen({ host: '127.0.0.1', port: 0 }, () => {
    throw new Error('nobody dials')
  })
  assert(listener.port > 0)
  await listener.close()
  env.log.info('not shown')
})
