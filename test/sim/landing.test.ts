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

const joinAtEnd = (member: string): Happening => {
  return { k: 'join', member, group: 'g', committedOnly: true, sessionMs: 1, startFrom: 'latest' }
}
const commit = (offset: number, of = tp): Happening => {
  return {
    k: 'commit.applied',
    group: 'g',
    tp: of,
    offset,
    rewindId: '0',
    member: 'a',
    connection: 1
  }
}

test('G11: a group that began at the end goes on from what it committed, not from a later end', () => {
  const before = [joinAtEnd('a'), assigned('a'), commit(3), joinAtEnd('b'), assigned('b')]
  assert.equal(broken([...before, deliver('b', 5)]), 'W1')
  assert.equal(broken([...before, deliver('b', 3)]), undefined)
})

test('G8: a partition that is newer than the group begins with its first record', () => {
  const created: Happening = { k: 'created', tps: [tp] }
  const before = [joinAtEnd('a'), commit(3, 't:1'), created, assigned('a')]
  assert.equal(broken([...before, deliver('a', 5)]), 'W1')
  assert.equal(broken([...before, deliver('a', 0)]), undefined)
})

test('W12: who is below the log goes to its start, not to its end', () => {
  const before: Happening[] = [join('a'), assigned('a'), rewind, applied('a')]
  const cut: Happening = { k: 'cut', tp, start: 7 }
  const moved = (to: number): Happening => ({ k: 'moved', member: 'a', tp, from: 5, to })
  assert.equal(broken([...before, cut, moved(9)]), 'W12')
  assert.equal(broken([...before, cut, moved(7)]), undefined)
})

test('whoever seeks may pass over records, and the next owner may begin there', () => {
  const sought: Happening = { k: 'seek', member: 'a', tp, from: 5, to: 2 }
  const before = [join('a'), assigned('a'), rewind, applied('a'), sought, join('b'), assigned('b')]
  assert.equal(broken([...before, deliver('b', 1, id)]), 'W1')
  assert.equal(broken([...before, deliver('b', 2, id)]), undefined)
})
