/** Stories for checkers: a history that breaks a rule, and one that does not. A checker that sees nothing proves nothing. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Checker, type Happening, Violation } from '../../sim/history/events.ts'
import { History } from '../../sim/history/history.ts'

/** What happens, at which node, when: 1 ms after what was before unless it says so. */
export type Story = readonly (Happening | (Happening & { t?: number; node?: string }))[]

/** The rule that the story breaks; undefined: none. */
export function broken(checker: Checker, story: Story): string | undefined {
  let t = 0
  const history = new History({ now: () => t, checkers: [checker] })
  try {
    for (const { ...event } of story as readonly (Happening & { t?: number; node?: string })[]) {
      t = event.t ?? t + 1
      history.add(event.node ?? 'n', 1, event)
    }
    history.end()
  } catch (error) {
    if (error instanceof Violation) return error.rule
    throw error
  }
  return undefined
}

/** Of two stories the checker sees the rule broken in the first, and in the first alone. */
export function breaks(rule: string, title: string, make: () => Checker, bad: Story, good: Story) {
  test(`${rule}: ${title}`, () => {
    assert.equal(broken(make(), bad), rule)
    assert.equal(broken(make(), good), undefined)
  })
}

export const tp = 'a:0'
export const v = (n: number) => `a:0/p#${n}`
export const sent = (n: number, tx?: string): Happening[] => [
  { k: 'send', v: v(n), tp, once: true, ...(tx !== undefined && { tx }) }
]
export const ok = (n: number, offset: number): Happening => ({ k: 'send.ok', v: v(n), tp, offset })
export const final = (n: number, offset: number): Happening => ({ k: 'final', tp, offset, v: v(n) })
export const ended: Happening = { k: 'final.end', tp, start: 0, end: 10 }
export const join = (member = 'm', group = 'g'): Happening => ({
  k: 'join',
  member,
  group,
  committedOnly: true,
  sessionMs: 1000
})
export const assigned = (member = 'm'): Happening => ({ k: 'assigned', member, tps: [tp] })
export const deliver = (offset: number, rewindId = '0', member = 'm', n = offset): Happening => ({
  k: 'deliver',
  member,
  tp,
  offset,
  v: v(n),
  rewindId
})
export const handled = (offset: number): Happening => ({ k: 'handled', member: 'm', tp, offset })
export const commit = (
  offset: number,
  rewindId: string | null = '0',
  connection = 1,
  member = 'm'
): Happening => ({ k: 'commit.applied', group: 'g', tp, offset, rewindId, member, connection })

/** A member with its partition. */
export const start = [join(), assigned()]
export const sought = (member = 'm'): Happening => ({ k: 'seek', member, tp, from: 3, to: 0 })
