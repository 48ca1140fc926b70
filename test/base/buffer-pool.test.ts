/** Memory that is used again is never two people's at once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { BufferPool } from '../../src/base/buffer-pool.ts'

test('whatever is taken and given back, what is taken is nobody else’s, and of the length that was asked for', () => {
  const steps = fc.array(
    fc.oneof(
      fc.record({ take: fc.integer({ min: 0, max: 70_000 }) }),
      fc.record({ give: fc.nat(20), part: fc.boolean(), twice: fc.boolean() })
    ),
    { maxLength: 200 }
  )
  fc.assert(
    fc.property(steps, all => {
      const pool = new BufferPool(200_000)
      const held: Buffer[] = []
      let mark = 0
      for (const step of all) {
        if ('take' in step) {
          const buffer = pool.take(step.take)
          assert.equal(buffer.length, step.take)
          held.push(buffer.fill(++mark % 251))
        } else {
          const [buffer] = held.splice(step.give, 1)
          if (buffer === undefined) continue
          const given = step.part && buffer.length > 8 ? buffer.subarray(4, 8) : buffer
          pool.give(given)
          if (step.twice) pool.give(given)
        }
        for (const buffer of held) assert(buffer.every(byte => byte === buffer[0]))
      }
    }),
    { numRuns: 60 }
  )
})

test('what was given back is taken again; what is not the pool’s is not kept', () => {
  const pool = new BufferPool(1 << 20)
  const first = pool.take(100_000)
  pool.give(first)
  assert.equal(pool.take(90_000).buffer, first.buffer)
  const foreign = Buffer.allocUnsafeSlow(1 << 17)
  pool.give(foreign)
  assert.notEqual(pool.take(1 << 17).buffer, foreign.buffer)
})

test('no more than so many bytes lie unused', () => {
  const pool = new BufferPool(1 << 17)
  const [one, two] = [pool.take(1 << 17), pool.take(1 << 17)]
  pool.give(one)
  pool.give(two)
  assert.equal(pool.take(1 << 17).buffer, one.buffer)
  assert.notEqual(pool.take(1 << 17).buffer, two.buffer)
})
