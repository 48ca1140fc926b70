import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Fifo } from '../../src/base/fifo.ts'

test('a fifo behaves as an array with a limit does', () => {
  const operations = fc.array(
    fc.oneof(
      { weight: 5, arbitrary: fc.integer().map(item => ({ push: item })) },
      { weight: 4, arbitrary: fc.constant('shift' as const) },
      { weight: 1, arbitrary: fc.constant('clear' as const) }
    ),
    { maxLength: 300 }
  )
  let wasFull = 0
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 50 }), operations, (limit, list) => {
      const fifo = new Fifo<number>('items', limit)
      const model: number[] = []
      for (const operation of list) {
        if (operation === 'shift') assert.equal(fifo.shift(), model.shift())
        else if (operation === 'clear') {
          fifo.clear()
          model.length = 0
        } else if (model.length < limit) {
          fifo.push(operation.push)
          model.push(operation.push)
        } else {
          wasFull++
          assert.throws(() => fifo.push(operation.push), { code: 'QUEUE_FULL' })
        }
        assert.equal(fifo.length, model.length)
        assert.equal(fifo.full, model.length === limit)
        assert.equal(fifo.peek(), model[0])
        assert.deepEqual([...fifo], model)
      }
    })
  )
  assert(wasFull > 0)
})

test('a full fifo says which it is and how many it holds', () => {
  const fifo = new Fifo<string>('requests waiting for broker 1', 1)
  fifo.push('first')
  assert.throws(() => fifo.push('second'), {
    message: 'requests waiting for broker 1: full, the limit is 1'
  })
})

test('what left a fifo is not kept alive by it', async () => {
  const fifo = new Fifo<object>('items', 10)
  let collected = 0
  const registry = new FinalizationRegistry(() => collected++)
  for (let i = 0; i < 10; i++) {
    const item = { bytes: new Uint8Array(1000) }
    registry.register(item, i)
    fifo.push(item)
  }
  while (fifo.shift() !== undefined) continue
  const deadline = performance.now() + 10_000
  while (collected < 9 && performance.now() < deadline) {
    // Rubbish, so that the collector runs.
    Array.from({ length: 10_000 }, () => new Array(100))
    await new Promise(resolve => setImmediate(resolve))
  }
  assert(collected >= 9, `${collected} of 10 were collected`)
  assert.equal(fifo.length, 0)
})
