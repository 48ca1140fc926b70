/** Groups, commits and rewinds: each rule (G, W) against a history that breaks it, and one that does not. */
import { CommitChecker } from '../../sim/checkers/commits.ts'
import { CoverageChecker } from '../../sim/checkers/coverage.ts'
import { GroupChecker } from '../../sim/checkers/group.ts'
import { RewindChecker } from '../../sim/checkers/rewind.ts'
import type { Happening, Of } from '../../sim/history/events.ts'
import {
  assigned,
  breaks,
  commit,
  deliver,
  ended,
  final,
  handled,
  join,
  sought,
  start,
  tp
} from './story.ts'

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
  'G1',
  'what came late in its name gives away what a member has until it hears of that, and no longer',
  group,
  [
    ...start,
    join('o'),
    { k: 'heartbeat', member: 'm', late: true },
    { k: 'heartbeat', member: 'm' },
    assigned('o')
  ],
  [...start, join('o'), { k: 'heartbeat', member: 'm', late: true }, assigned('o')]
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
breaks(
  'W4',
  'of two commits by a member the later is from before; of two calls, which know nothing of each other, it may be',
  commits,
  [
    { k: 'commit.try', commit: 1, group: 'g', memberId: 'm' },
    { ...commit(5, '1'), commit: 1 } as Happening,
    { k: 'commit.try', commit: 2, group: 'g', memberId: 'm' },
    { ...commit(9, '0'), commit: 2 } as Happening
  ],
  [
    { k: 'commit.try', commit: 1, group: 'g', memberId: '' },
    { ...commit(5, '1'), commit: 1 } as Happening,
    { k: 'commit.try', commit: 2, group: 'g', memberId: '' },
    { ...commit(9, '0'), commit: 2 } as Happening
  ]
)

breaks(
  'G5',
  'a member commits less than before; but who lost a partition goes on where a late commit has left it',
  commits,
  [...start, commit(5, '0', 2), commit(3, '0', 2)],
  [
    ...start,
    commit(5, '0', 2),
    commit(3, '0', 1),
    { k: 'lost', member: 'm', tps: [tp] },
    assigned(),
    commit(4, '0', 2)
  ]
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
