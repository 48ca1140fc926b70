/** The landing rules against histories that break them, and ones that do not. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LandingChecker } from '../../sim/checkers/landing.ts'
import { type Happening, Violation } from '../../sim/history/events.ts'
import { History } from '../../sim/history/history.ts'

const id = '1764510212345aaaa'
const tp = 't:0'
const join = (member: string): Happening => {
  return { k: 'join', member, group: 'g', committedOnly: true, sessionMs: 1 }
}
const assigned = (member: string): Happening => ({ k: 'assigned', member, tps: [tp] })
const deliver = (member: string, offset: number, rewindId = '0'): Happening => {
  return { k: 'deliver', member, tp, offset, v: `${offset}`, rewindId }
}
const rewind: Happening = { k: 'rewind', w: 'w', group: 'g', to: { [tp]: 5 } }
const applied = (member: string): Happening => ({ k: 'applied', member, tp, id, from: 9, to: 5 })

/** As the final read finds it: a record at each offset. */
const log = Array.from(
  { length: 10 },
  (_, offset): Happening => ({ k: 'final', tp, offset, v: `${offset}` })
)

function broken(story: readonly Happening[]): string | undefined {
  const history = new History({ now: () => 0, checkers: [new LandingChecker()] })
  try {
    for (const event of [...story, ...log]) history.add('n', 1, event)
  } catch (error) {
    if (error instanceof Violation) return error.rule
    throw error
  }
  return undefined
}

test('W1: the next owner begins between the target and what was delivered since', () => {
  const before = [join('a'), assigned('a'), rewind, applied('a'), deliver('a', 5, id)]
  const next = [join('b'), assigned('b')]
  assert.equal(broken([...before, ...next, deliver('b', 7, id)]), 'W1')
  assert.equal(broken([...before, ...next, deliver('b', 4, id)]), 'W1')
  assert.equal(broken([...before, ...next, deliver('b', 6, id)]), undefined)
  assert.equal(broken([...before, ...next, deliver('b', 5, id)]), undefined)
})

test('W1: the first record of a group is not behind its beginning', () => {
  assert.equal(broken([join('a'), assigned('a'), deliver('a', 1)]), 'W1')
  assert.equal(broken([join('a'), assigned('a'), deliver('a', 0)]), undefined)
})

test('W1: an owner that died before it could say where it went is no excuse for the next', () => {
  const died = [join('a'), assigned('a'), rewind, deliver('a', 5, id), join('b'), assigned('b')]
  assert.equal(broken([...died, deliver('b', 7, id)]), 'W1')
  assert.equal(broken([...died, deliver('b', 6, id)]), undefined)
})

test('W3: nobody applies a rewind to a partition that no call named', () => {
  const start = [join('a'), assigned('a')]
  assert.equal(broken([...start, applied('a')]), 'W3')
  assert.equal(broken([...start, rewind, applied('a')]), undefined)
})
