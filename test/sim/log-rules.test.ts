/** Logs, and what a consumer gets of them: each rule (L, W15) against a history that breaks it, and one that does not. */
import { LogChecker } from '../../sim/checkers/log.ts'
import { OrderChecker } from '../../sim/checkers/order.ts'
import type { Happening } from '../../sim/history/events.ts'
import {
  assigned,
  breaks,
  deliver,
  ended,
  final,
  join,
  ok,
  sent,
  sought,
  start,
  tp,
  v
} from './story.ts'

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
