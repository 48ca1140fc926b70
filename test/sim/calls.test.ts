/** Calls settle, nothing goes uncaught or runs hot, nothing is left: each against a history that breaks it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CallChecker } from '../../sim/checkers/calls.ts'
import { type Happening, Violation } from '../../sim/history/events.ts'
import { History } from '../../sim/history/history.ts'

/** What happens, and when: 1 ms after what was before unless it says so. */
type Story = readonly (Happening & { t?: number })[]

function broken(story: Story): string | undefined {
  let t = 0
  const history = new History({ now: () => t, checkers: [new CallChecker()] })
  try {
    for (const event of story) {
      t = event.t ?? t + 1
      history.add('n', 1, event)
    }
    history.end()
  } catch (error) {
    if (error instanceof Violation) return error.rule
    throw error
  }
  return undefined
}

function breaks(rule: string, title: string, bad: Story, good: Story) {
  test(`${rule}: ${title}`, () => {
    assert.equal(broken(bad), rule)
    assert.equal(broken(good), undefined)
  })
}

const call: Happening = { k: 'call', call: 'c', deadlineMs: 10 }

breaks('C1', 'a call never settles', [call], [call, { k: 'settled', call: 'c' }])
breaks(
  'C1',
  'a call settles after its deadline',
  [call, { k: 'settled', call: 'c', t: 1500 }],
  [call, { k: 'settled', call: 'c', t: 900 }]
)
breaks(
  'C1',
  'a call of a process that stood still gets that time on top',
  [call, { k: 'settled', call: 'c', t: 9_000 }],
  [call, { k: 'pause', t: 5 }, { k: 'resume', t: 8_500 }, { k: 'settled', call: 'c', t: 9_000 }]
)
breaks('C2', 'an error goes uncaught', [{ k: 'uncaught', error: 'x' }], [])
breaks('C4', 'something runs hot', [{ k: 'busy', events: 10_000 }], [])
breaks(
  'X1',
  'a close leaves a timer behind',
  [{ k: 'closed', leftovers: '1 timers' }],
  [{ k: 'closed', leftovers: '' }]
)
