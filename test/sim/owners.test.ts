/** The checker of groups of several processes sees each way in which two of them can have one partition. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Happening } from '../../sim/history/events.ts'
import { OwnerChecker } from '../kafka/mixed/owners.ts'

const said = (...events: readonly (readonly [node: string, event: Happening])[]) => {
  const checker = new OwnerChecker()
  for (const [i, [node, event]] of events.entries()) checker.on({ i, t: i, node, inc: 1, ...event })
  return checker
}
const tps = ['t:0']
const assigned = (member: string) => [member, { k: 'assigned', member, tps }] as const
const revoked = (member: string) => [member, { k: 'revoked', member, tps }] as const
const gets = (member: string) =>
  [member, { k: 'deliver', member, tp: 't:0', offset: 1, v: 'v', rewindId: '0' }] as const

test('a partition that goes to another in order, or from one that is gone, has one owner', () => {
  const { moves } = said(assigned('a'), gets('a'), revoked('a'), assigned('b'), gets('b'))
  assert.equal(moves, 2)
  said(assigned('a'), ['a', { k: 'left', member: 'a' }], assigned('b'))
  said(assigned('a'), ['a', { k: 'crash' }], assigned('b'), gets('b'))
  said(assigned('a'), ['a', { k: 'pause' }], assigned('b'), ['a', { k: 'lost', member: 'a', tps }])
})

test('two owners at once, and a record to who has lost its partition, are violations', () => {
  assert.throws(() => said(assigned('a'), assigned('b')), /G1.*t:0 goes to b, and a has it/)
  assert.throws(() => said(assigned('a'), revoked('a'), gets('a')), /G1/)
  assert.throws(
    () => said(assigned('a'), ['a', { k: 'pause' }], assigned('b'), gets('a')),
    /G1.*a got t:0@1 of b/
  )
})
