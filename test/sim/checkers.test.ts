/** Each rule against a history that breaks it, and one that does not: a checker that sees nothing proves nothing. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CommitChecker } from '../../sim/checkers/commits.ts'
import { CoverageChecker } from '../../sim/checkers/coverage.ts'
import { GroupChecker } from '../../sim/checkers/group.ts'
import { LogChecker } from '../../sim/checkers/log.ts'
import { OrderChecker } from '../../sim/checkers/order.ts'
import { RewindChecker } from '../../sim/checkers/rewind.ts'
import { type Checker, type Happening, type Of, Violation } from '../../sim/history/events.ts'
import { History } from '../../sim/history/history.ts'

/** What happens, at which node, when: 1 ms after what was before unless it says so. */
type Story = readonly (Happening | (Happening & { t?: number; node?: string }))[]

/** The rule that the story breaks; undefined: none. */
function broken(checker: Checker, story: Story): string | undefined {
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

function breaks(rule: string, title: string, make: () => Checker, bad: Story, good: Story) {
  test(`${rule}: ${title}`, () => {
    assert.equal(broken(make(), bad), rule)
    assert.equal(broken(make(), good), undefined)
  })
}

const tp = 'a:0'
const v = (n: number) => `a:0/p#${n}`
const sent = (n: number, tx?: string): Happening[] => [
  { k: 'send', v: v(n), tp, once: true, ...(tx !== undefined && { tx }) }
]
const ok = (n: number, offset: number): Happening => ({ k: 'send.ok', v: v(n), tp, offset })
const final = (n: number, offset: number): Happening => ({ k: 'final', tp, offset, v: v(n) })
const ended: Happening = { k: 'final.end', tp, start: 0, end: 10 }
const join = (member = 'm', group = 'g'): Happening => ({
  k: 'join',
  member,
  group,
  committedOnly: true,
  sessionMs: 1000
})
const assigned = (member = 'm'): Happening => ({ k: 'assigned', member, tps: [tp] })
const deliver = (offset: number, rewindId = '0', member = 'm', n = offset): Happening => ({
  k: 'deliver',
  member,
  tp,
  offset,
  v: v(n),
  rewindId
})
const handled = (offset: number): Happening => ({ k: 'handled', member: 'm', tp, offset })
const commit = (
  offset: number,
  rewindId: string | null = '0',
  connection = 1,
  member = 'm'
): Happening => ({ k: 'commit.applied', group: 'g', tp, offset, rewindId, member, connection })

// ── The log ──────────────────────────────────────────────────────────────────────────────────────────────────────

const log = () => new LogChecker()

breaks(
  'L1',
  'an offset has two values',
  log,
  [...sent(1), ...sent(2), ok(1, 5), ok(2, 5)],
  [...sent(1), ...sent(2), ok(1, 5), ok(2, 6)]
)
breaks(
  'L2',
  'a value is at two offsets',
  log,
  [...sent(1), ok(1, 5), final(1, 6)],
  [...sent(1), ok(1, 5), final(1, 5)]
)
breaks(
  'L2',
  'a value turns up in another partition',
  log,
  [...sent(1), { k: 'final', tp: 'b:0', offset: 1, v: v(1) }],
  [...sent(1), { k: 'final', tp: 'a:0', offset: 1, v: v(1) }]
)
breaks(
  'L2',
  'a damaged value is delivered',
  log,
  [...sent(1), { k: 'final', tp, offset: 1, v: 'damaged: "x"' }],
  [...sent(1), final(1, 1)]
)
breaks('L2', 'a value comes from nowhere', log, [final(1, 1)], [...sent(1), final(1, 1)])
breaks(
  'L3',
  'an acknowledged record is gone, one behind it is there',
  log,
  [...sent(1), ...sent(2), ok(1, 1), ok(2, 2), final(2, 2), ended],
  [...sent(1), ...sent(2), ok(1, 1), ok(2, 2), final(1, 1), final(2, 2), ended]
)
breaks(
  'L4',
  'the last acknowledged record is gone',
  log,
  [...sent(1), ok(1, 1), ended],
  [...sent(1), ok(1, 1), { k: 'cut', tp, start: 2 }, ended]
)
breaks(
  'L5',
  'a record that was refused is delivered',
  log,
  [...sent(1), { k: 'send.fail', v: v(1), why: '' }, final(1, 1)],
  [...sent(1), { k: 'send.info', v: v(1), why: '' }, final(1, 1)]
)
breaks(
  'L5',
  'an aborted record is delivered',
  log,
  [...sent(1, 't'), ok(1, 1), { k: 'tx', tx: 't', end: 'aborted' }, final(1, 1)],
  [...sent(1, 't'), ok(1, 1), { k: 'tx', tx: 't', end: 'aborted' }, ended]
)
breaks(
  'L5',
  'half a transaction is visible',
  log,
  [
    ...sent(1, 't'),
    ...sent(2, 't'),
    ok(1, 1),
    ok(2, 2),
    { k: 'tx', tx: 't', end: 'unknown' },
    final(1, 1),
    ended
  ],
  [
    ...sent(1, 't'),
    ...sent(2, 't'),
    ok(1, 1),
    ok(2, 2),
    { k: 'tx', tx: 't', end: 'unknown' },
    final(1, 1),
    final(2, 2),
    ended
  ]
)
breaks(
  'L7',
  'offsets fall in the order of sending',
  log,
  [...sent(1), ...sent(2), ok(1, 6), ok(2, 5)],
  [...sent(1), ...sent(2), ok(2, 6), ok(1, 5)]
)

// ── Delivery ─────────────────────────────────────────────────────────────────────────────────────────────────────

const order = () => new OrderChecker()
const start = [join(), assigned()]

breaks(
  'L6',
  'a record comes twice',
  order,
  [...start, deliver(1), deliver(1)],
  [...start, deliver(1), deliver(2)]
)
breaks(
  'L6',
  'a record is skipped, as is known afterwards',
  order,
  [...start, deliver(1), deliver(3), final(2, 2)],
  [...start, deliver(1), deliver(3), final(3, 3)]
)
breaks(
  'L6',
  'a record is skipped that another has seen',
  order,
  [...start, join('o'), assigned('o'), deliver(2, '0', 'o'), deliver(1), deliver(3)],
  [...start, join('o'), assigned('o'), deliver(2, '0', 'o'), deliver(2), deliver(3)]
)
breaks(
  'L6',
  'the first record from where a rewind led is skipped',
  order,
  [...start, { k: 'applied', member: 'm', tp, id: '1', from: 9, to: 2 }, deliver(4), final(3, 3)],
  [...start, { k: 'applied', member: 'm', tp, id: '1', from: 9, to: 2 }, deliver(4), final(4, 4)]
)
breaks(
  'W1',
  'a record from before the place a rewind led to',
  order,
  [...start, { k: 'applied', member: 'm', tp, id: '1', from: 1, to: 5 }, deliver(4)],
  [...start, { k: 'applied', member: 'm', tp, id: '1', from: 1, to: 5 }, deliver(5)]
)
breaks(
  'G2',
  'a record of a partition that was given up',
  order,
  [...start, deliver(1), { k: 'revoked', member: 'm', tps: [tp] }, deliver(2)],
  [...start, deliver(1), { k: 'revoked', member: 'm', tps: [tp] }, assigned(), deliver(2)]
)
breaks(
  'G2',
  'a record before the assignment',
  order,
  [join(), deliver(1)],
  [join(), assigned(), deliver(1)]
)

const window: Happening = {
  k: 'ledger',
  group: 'g',
  tp,
  id: '1',
  target: 2,
  state: 'pending',
  window: { until: 4, resume: 9 }
}
const replay: Happening[] = [
  ...start,
  window,
  { k: 'applied', member: 'm', tp, id: '1', from: 9, to: 2 },
  deliver(2, '1')
]
breaks(
  'W15',
  'a replay goes on before where the group was',
  order,
  [...replay, deliver(3, '1'), deliver(8, '1.')],
  [...replay, deliver(3, '1'), deliver(9, '1.')]
)
const sought = (member = 'm'): Happening => ({ k: 'seek', member, tp, from: 3, to: 0 })
breaks(
  'W15',
  'a record behind the end of a replay; not after a seek has left it, though the log is cut there',
  order,
  [...replay, { k: 'moved', member: 'm', tp, from: 0, to: 3 }, deliver(3, '1'), deliver(4, '1')],
  [...replay, sought(), { k: 'moved', member: 'm', tp, from: 0, to: 3 }, deliver(4, '1')]
)
const owner: Happening[] = [...start, window, { k: 'moved', member: 'm', tp, from: 2, to: 5 }]
breaks(
  'L6',
  'a record is left out; not behind a replay whose window was cut before its new owner got anything',
  order,
  [...owner, deliver(8, '1.'), final(5, 5)],
  [...owner, deliver(9, '1.'), final(5, 5)]
)
breaks(
  'L6',
  'a record of a replay is left out',
  order,
  [...replay, deliver(9, '1.'), final(3, 3)],
  [...replay, deliver(9, '1.'), final(4, 4)]
)

// ── The group ────────────────────────────────────────────────────────────────────────────────────────────────────

const group = () => new GroupChecker()

breaks(
  'G1',
  "what a member yields may be another's before it is told",
  () => new GroupChecker(),
  [join('m'), join('n'), assigned('m'), assigned('n')],
  [join('m'), join('n'), assigned('m'), { k: 'yielded', member: 'm', tps: [tp] }, assigned('n')]
)
breaks(
  'G1',
  'a partition has two owners in touch with the group',
  group,
  [...start, join('o'), { k: 'heartbeat', member: 'm' }, assigned('o')],
  [...start, join('o'), { k: 'revoked', member: 'm', tps: [tp] }, assigned('o')]
)
breaks(
  'G1',
  'who must join a rebalance within a second is out after that, and not before',
  group,
  [
    { ...(start[0] as Of<'join'>), sessionMs: 6_000, rebalanceMs: 1_000 },
    assigned(),
    join('o'),
    { ...assigned('o'), t: 400 }
  ],
  [
    { ...(start[0] as Of<'join'>), sessionMs: 6_000, rebalanceMs: 1_000 },
    assigned(),
    join('o'),
    { ...assigned('o'), t: 1_200 }
  ]
)
breaks(
  'G1',
  'who was expelled and has not heard of it is no owner that counts, and who still is, is',
  group,
  [...start, join('o'), { k: 'heartbeat', member: 'm', t: 990 }, { ...assigned('o'), t: 995 }],
  [
    join('o'),
    ...start,
    { k: 'heartbeat', member: 'm', t: 1_200 },
    { ...assigned('o'), t: 1_300 },
    { k: 'lost', member: 'm', tps: [tp] },
    { ...assigned('m'), t: 1_400 }
  ]
)
breaks(
  'G11',
  'what is transient ends reading',
  group,
  [...start, { k: 'ended', member: 'm', why: 'UNKNOWN_PARTITION' }],
  [...start, { k: 'ended', member: 'm', why: 'handler' }]
)
breaks(
  'G12',
  'a member out of touch for its whole session gets a record',
  group,
  [...start, { ...deliver(1), t: 1500 }],
  [...start, { k: 'heartbeat', member: 'm', t: 900 }, { ...deliver(1), t: 1500 }]
)
breaks(
  'G4',
  'a record is handled that was not delivered',
  group,
  [...start, handled(1)],
  [...start, deliver(1), handled(1)]
)
breaks(
  'G3',
  "the group's generation falls",
  group,
  [
    { k: 'group.gen', group: 'g', gen: 2, owners: {} },
    { k: 'group.gen', group: 'g', gen: 1, owners: {} }
  ],
  [
    { k: 'group.gen', group: 'g', gen: 1, owners: {} },
    { k: 'group.gen', group: 'g', gen: 2, owners: {} }
  ]
)

// ── Commits ──────────────────────────────────────────────────────────────────────────────────────────────────────

const commits = () => new CommitChecker()

breaks(
  'G5',
  'the committed offset falls',
  commits,
  [commit(5), commit(4)],
  [commit(5), commit(4, '1')]
)
breaks(
  'G5',
  'the committed offset falls; one that was expelled unheard seeks there, too, after its owner has',
  commits,
  [join('n'), assigned('n'), join(), assigned(), sought('n'), commit(5), commit(4)],
  [join('n'), assigned('n'), join(), assigned(), commit(5), sought('m'), sought('n'), commit(4)]
)
breaks(
  'G5',
  'the committed offset falls; where it sought before anything was committed, a commit may have been on its way',
  commits,
  [join(), assigned(), commit(5), commit(4)],
  [join(), assigned(), { k: 'seek', member: 'm', tp, from: 5, to: 0 }, commit(5), commit(4)]
)
breaks(
  'G5',
  'a seek lets its member commit less, and nobody else',
  commits,
  [
    join(),
    assigned(),
    commit(5),
    { k: 'seek', member: 'm', tp, to: 2 },
    commit(5),
    commit(4, '0', 1, 'o'),
    commit(3, '0', 1, 'o'),
    commit(2, '0', 1, 'o'),
    { k: 'quiet' }
  ],
  [join(), assigned(), commit(5), { k: 'seek', member: 'm', tp, to: 2 }, commit(3), { k: 'quiet' }]
)
breaks('G5', 'a commit without envelope', commits, [commit(5, null)], [commit(5)])
breaks(
  'G5',
  'what a late commit did is not healed',
  commits,
  [join(), assigned(), commit(5, '0', 2), commit(4, '0', 1), { k: 'quiet' }],
  [join(), assigned(), commit(5, '0', 2), commit(4, '0', 1), commit(5, '0', 2), { k: 'quiet' }]
)
breaks(
  'W4',
  'a commit from before the rewind, in order, by who knew of it',
  commits,
  [commit(5, '1', 1), commit(9, '0', 1)],
  [commit(5, '1', 2), commit(9, '0', 1), commit(5, '1', 2)]
)

const rewinds = () => new RewindChecker()
const rewound = (w: string, id: string): Happening[] => [
  { k: 'rewind', w, group: 'g', to: { [tp]: 2 } },
  { k: 'rewind.ok', w, id, applied: { [tp]: 2 }, superseded: [] }
]
const applied = (id: string): Happening => ({ k: 'applied', member: 'm', tp, id, from: 9, to: 2 })

breaks(
  'W1',
  'a record of the time before, after its owner applied the rewind',
  rewinds,
  [...start, applied('1'), deliver(9, '0')],
  [...start, applied('1'), deliver(2, '1')]
)
breaks(
  'W4',
  'a new owner starts as if there had been no rewind',
  rewinds,
  [...start, ...rewound('w', '1'), { k: 'lost', member: 'm', tps: [tp] }, assigned(), deliver(9)],
  [
    ...start,
    ...rewound('w', '1'),
    { k: 'lost', member: 'm', tps: [tp] },
    assigned(),
    deliver(2, '1')
  ]
)
breaks(
  'W8',
  'a later rewind has a lower id',
  rewinds,
  [...rewound('w', '2'), ...rewound('x', '1')],
  [...rewound('w', '1'), ...rewound('x', '2')]
)
breaks(
  'W8',
  'a caller is not told what became of a partition',
  rewinds,
  [
    { k: 'rewind', w: 'w', group: 'g', to: { [tp]: 2 } },
    { k: 'rewind.ok', w: 'w', id: '1', applied: {}, superseded: [] }
  ],
  [
    { k: 'rewind', w: 'w', group: 'g', to: { [tp]: 2 } },
    { k: 'rewind.ok', w: 'w', id: '1', applied: {}, superseded: [tp] }
  ]
)
breaks(
  'W10',
  'a rewind is applied twice by one owner',
  rewinds,
  [...start, applied('1'), applied('1')],
  [...start, applied('1'), applied('2')]
)

breaks(
  'G6',
  'a record below the committed offset was handled by nobody',
  () => new CoverageChecker(),
  [...start, handled(1), commit(3), final(1, 1), final(2, 2), ended],
  [...start, handled(1), handled(2), commit(3), final(1, 1), final(2, 2), ended]
)
