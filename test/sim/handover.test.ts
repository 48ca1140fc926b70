/** From one owner to the next: each rule against a history that breaks it, and one that does not. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HandoverChecker } from '../../sim/checkers/handover.ts'
import { OrderChecker } from '../../sim/checkers/order.ts'
import type { Checker, Happening } from '../../sim/history/events.ts'
import { type Story, breaks as breaksOf, broken as brokenBy } from './story.ts'

const broken = (story: Story) => brokenBy(new HandoverChecker(), story)
const breaks = (
  rule: string,
  title: string,
  bad: Story,
  good: Story,
  make: () => Checker = () => new HandoverChecker()
) => breaksOf(rule, title, make, bad, good)

const tp = 'a:0'
const [r1, r2] = ['1000000000000aaaa', '1000000000001aaaa'] as const
const join = (member = 'm'): Happening => {
  return { k: 'join', member, group: 'g', committedOnly: true, sessionMs: 1000 }
}
const assigned = (member = 'm'): Happening => ({ k: 'assigned', member, tps: [tp] })
const deliver = (offset: number, rewindId = '0', member = 'm'): Happening => {
  return { k: 'deliver', member, tp, offset, v: `v${offset}`, rewindId }
}
const handled = (offset: number, signalled?: boolean): Happening => {
  return { k: 'handled', member: 'm', tp, offset, ...(signalled !== undefined && { signalled }) }
}
const got = (offset: number, rewindId = '0') => [deliver(offset, rewindId), handled(offset)]
const applied = (offset: number, rewindId = '0', member = 'm'): Happening => {
  return { k: 'commit.applied', group: 'g', tp, offset, rewindId, member, connection: 1 }
}
const tried: Happening = { k: 'commit.try', commit: 1 }
const commit = (offset: number, rewindId = '0', member = 'm'): readonly Happening[] => {
  return [tried, applied(offset, rewindId, member), { k: 'commit.end', commit: 1 }]
}
const owns = (member: string): Happening => ({
  k: 'group.gen',
  group: 'g',
  gen: 0,
  owners: { [tp]: member }
})
const entry = (id: string, more: object = {}): Happening => {
  return { k: 'ledger', group: 'g', tp, id, target: 0, state: 'done', ...more }
}
const mine = [join(), assigned()]
const final = (offset: number): Happening => ({ k: 'final', tp, offset, v: `v${offset}` })

breaks(
  'G4',
  'a commit of what was not handled',
  [...mine, ...got(0), deliver(1), ...commit(2)],
  [...mine, ...got(0), deliver(1), ...commit(1)]
)
breaks(
  'G4',
  'a commit beyond a record that turns out to be there',
  [...mine, ...got(0), ...commit(3), final(2)],
  [...mine, ...got(0), ...commit(3), final(3)]
)
breaks(
  'G4',
  'a report from before a rewind counts after it',
  [
    ...mine,
    ...got(7),
    { k: 'applied', member: 'm', tp, id: r1, from: 8, to: 2 },
    ...got(2, r1),
    ...commit(8, r1),
    final(5)
  ],
  [
    ...mine,
    ...got(7),
    { k: 'applied', member: 'm', tp, id: r1, from: 8, to: 2 },
    ...got(2, r1),
    ...commit(3, r1),
    final(5)
  ]
)
breaks(
  'G4',
  'a seek is committed as if all before it were handled',
  [...mine, ...got(0), ...commit(1), final(3), seek(5), ...commit(5)],
  [...mine, ...got(0), ...commit(1), final(3), seek(5), ...got(5), ...commit(6)]
)
const back: Happening = { k: 'seek', member: 'm', tp, from: 4, to: 0 }
breaks(
  'G4',
  'a commit of before a seek back comes late, but not behind one from after it',
  [...mine, back, ...got(0), ...commit(1), ...commit(4), final(2)],
  [...mine, back, ...got(0), ...commit(4), ...commit(1), final(2)]
)
breaks(
  'W14',
  'the application hears of a rewind after the first record from it',
  [...mine, ...got(3), ...got(0, r1), told()],
  [...mine, ...got(3), told(), ...got(0, r1)]
)
breaks(
  'G3',
  'a commit by whom another has replaced',
  [...mine, owns('m'), join('o'), owns('o'), ...commit(1)],
  [...mine, owns('m'), join('o'), tried, owns('o'), applied(1), { k: 'commit.end', commit: 1 }]
)
breaks(
  'W17',
  'a commit from before a rewind that the controller has recorded',
  [...mine, entry(r1, { led: true }), ...commit(1)],
  [...mine, entry(r1, { led: true }), ...commit(1, r1)]
)
breaks(
  'G6',
  'what was handled is not committed when the partition is given up in order',
  [...mine, ...got(0), ...got(1), ...commit(1), revoked(true)],
  [...mine, ...got(0), ...got(1), ...commit(2), revoked(true)]
)
breaks(
  'G6',
  'nor when its consumer is closed',
  [...mine, ...got(0), revoked(), { k: 'left', member: 'm', drained: true }],
  [...mine, ...got(0), deliver(1), revoked(), handled(1), ...commit(1), left()]
)
breaks(
  'G2',
  'a partition is given up in order while a record is in hand',
  [...mine, ...got(0), ...commit(1), deliver(1), revoked(true)],
  [...mine, ...got(0), ...commit(1), deliver(1), revoked()]
)
test('G6, G2: who is in the middle of a rewind has lost what it handled', () => {
  const story = [...mine, ...got(0), entry(r1, { state: 'pending' }), revoked(true)]
  assert.equal(broken(story), undefined)
})
breaks(
  'G11',
  'an owner begins below what is committed',
  [...mine, ...got(4), ...commit(5), join('o'), assigned('o'), deliver(0, '0', 'o')],
  [...mine, ...got(4), ...commit(5), join('o'), assigned('o'), deliver(5, '0', 'o')]
)
test('G11: unless a late commit has brought that back, or a rewind', () => {
  const before = [...mine, ...got(4), ...commit(5), join('o'), assigned('o')]
  assert.equal(broken([...before, ...commit(2), deliver(2, '0', 'o')]), undefined)
  assert.equal(broken([...before, deliver(0, r1, 'o')]), undefined)
})
test('G11: or a transaction, whose end is not seen', () => {
  const tx: Happening = { k: 'tx.offsets', tx: 't', member: 'm', at: { [tp]: '0' } }
  const before = [...mine, ...got(4), ...commit(5), tx, join('o'), assigned('o')]
  assert.equal(broken([...before, deliver(2, '0', 'o')]), undefined)
})
breaks(
  'W15',
  'behind a replay an owner goes on lower than where the group was',
  [...mine, ...got(8), ...commit(9), ...commit(2, r1), deliver(6, `${r1}.`)],
  [...mine, ...got(8), ...commit(9), ...commit(2, r1), deliver(9, `${r1}.`)]
)
test('W15: a seek back before it is where the group was', () => {
  const back = [...mine, ...got(8), ...commit(9), seek(2), ...got(2), ...commit(3)]
  const rewound = [...back, ...commit(0, r1), jumped(0, r1)]
  assert.equal(broken([...rewound, deliver(3, `${r1}.`)]), undefined)
  assert.equal(broken([...rewound, deliver(2, `${r1}.`)]), 'W15')
})
test('W15: where it is after a rewind that a controller has recorded counts without a commit', () => {
  const led = (id: string, target: number) => entry(id, { led: true, target })
  const story = [...mine, ...got(8), ...commit(9), led(r1, 3), led(r2, 0), jumped(0, r2)]
  assert.equal(broken([...story, deliver(3, `${r2}.`)]), undefined)
  assert.equal(broken([...story, deliver(2, `${r2}.`)]), 'W15')
})
test('W15: behind a replay a seek may lead anywhere, though the log is cut there', () => {
  const over = [...mine, ...got(8), ...commit(9), ...commit(0, r1), jumped(0, r1)]
  const ended = [...over, ...commit(9, `${r1}.`)]
  const cut: Happening = { k: 'moved', member: 'm', tp, from: 0, to: 3 }
  const back = [...ended, seek(0), cut, deliver(3, `${r1}.`)]
  const next = [left(), ...mine, deliver(4, `${r1}.`)]
  assert.equal(broken(back), undefined)
  assert.equal(broken([...back, handled(3), ...commit(4, `${r1}.`), ...next]), undefined)
  assert.equal(broken([...ended, cut, deliver(3, `${r1}.`)]), 'W15')
})
breaks(
  'W15',
  'a replay goes on beyond its window',
  [...mine, entry(r1, { window: { until: 4, resume: 9 } }), deliver(3, r1), deliver(4, r1)],
  [...mine, entry(r1, { window: { until: 4, resume: 9 } }), deliver(3, r1), deliver(9, `${r1}.`)],
  () => new OrderChecker()
)
breaks(
  'W14',
  'a rewind overtakes a handler, and its signal is silent',
  [...mine, deliver(3, r1), { k: 'applied', member: 'm', tp, id: r2, from: 3, to: 0 }, silent()],
  [...mine, deliver(3, r1), { k: 'applied', member: 'm', tp, id: r2, from: 3, to: 0 }, fired()]
)

function jumped(to: number, id: string): Happening {
  return { k: 'applied', member: 'm', tp, id, from: 3, to }
}

function revoked(drained = false): Happening {
  return { k: 'revoked', member: 'm', tps: [tp], ...(drained && { drained }) }
}

function left(): Happening {
  return { k: 'left', member: 'm', drained: true }
}

function silent(): Happening {
  return handled(3, false)
}

function fired(): Happening {
  return handled(3, true)
}

function seek(to: number): Happening {
  return { k: 'seek', member: 'm', tp, to }
}

function told(): Happening {
  return { k: 'announced', member: 'm', id: r1, tps: [tp] }
}
