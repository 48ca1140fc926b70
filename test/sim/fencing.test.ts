/** What the coordinator takes, and work in transactions: each rule against a history that breaks it, and one that does not. */
import { FencingChecker } from '../../sim/checkers/fencing.ts'
import { TransactionChecker } from '../../sim/checkers/transactions.ts'
import type { Happening } from '../../sim/history/events.ts'
import { breaks } from './story.ts'

const tp = 'a:0'
const v = (n: number) => `a:0/p#${n}`
const final = (n: number, offset: number): Happening => ({ k: 'final', tp, offset, v: v(n) })
const applied = (id: string): Happening => ({ k: 'applied', member: 'm', tp, id, from: 9, to: 2 })
const start: readonly Happening[] = [
  { k: 'join', member: 'm', group: 'g', committedOnly: true, sessionMs: 1000 },
  { k: 'assigned', member: 'm', tps: [tp] }
]

// ── Fencing ──────────────────────────────────────────────────────────────────────────────────────────────────────

const fencing = () => new FencingChecker()
const told = (epoch: number, joins = false, member = 'm'): Happening => {
  return { k: 'heartbeat', member, group: 'g', memberId: `id-${member}`, epoch, joins }
}
const gives = (owner: string): Happening => {
  return { k: 'group.gen', group: 'g', gen: 0, owners: { [tp]: owner } }
}
const tries = (epoch: number, member = 'm'): Happening => {
  return { k: 'commit.try', commit: 1, group: 'g', memberId: `id-${member}`, epoch }
}
const takes = (member = 'm'): Happening => {
  return {
    k: 'commit.applied',
    group: 'g',
    tp,
    offset: 5,
    rewindId: '0',
    member,
    connection: 1,
    commit: 1
  }
}

breaks(
  'G3',
  'the epoch of a member falls while it is one',
  fencing,
  [told(1, true), told(3), told(2)],
  [told(1, true), told(3), told(2, true)]
)
breaks(
  'G3',
  'a commit of an epoch before its partition was given is taken',
  fencing,
  [told(1, true), told(3), gives('m'), tries(2), takes()],
  [told(1, true), told(3), gives('m'), told(4), tries(3), takes()]
)
breaks(
  'G3',
  'a commit of a zombie is taken, whose partition is another member’s',
  fencing,
  [told(1, true), gives('m'), told(1, true, 'o'), gives('o'), tries(1), takes()],
  [told(1, true), gives('m'), told(1, true, 'o'), tries(1), gives('o'), takes()]
)

// ── Work in transactions ─────────────────────────────────────────────────────────────────────────────────────────

const work = () => new TransactionChecker()
const offsets = (id: string): Happening => {
  return { k: 'tx.offsets', tx: 't', member: 'm', at: { [tp]: id } }
}
const ends = (end: 'committed' | 'aborted'): Happening => ({ k: 'tx', tx: 't', end })
const made = (n: number, rewindId: string): Happening => {
  const of = { group: 'g', tp: 'in:0', offset: 7, rewindId }
  return { k: 'send', v: v(n), tp, once: true, tx: `t${n}`, of }
}

breaks(
  'W16',
  'work from before a rewind is committed after it',
  work,
  [...start, applied('1'), offsets('0'), ends('committed')],
  [...start, applied('1'), offsets('0'), ends('aborted'), offsets('1'), ends('committed')]
)
breaks(
  'W16',
  'a record is worked on twice at one rewind',
  work,
  [...start, made(1, '0'), made(2, '0'), final(1, 1), final(2, 2)],
  [...start, made(1, '0'), made(2, '1'), final(1, 1), final(2, 2)]
)

const took: Happening = { k: 'tx.offsets', tx: 't', member: 'm', at: { 'in:0': '0' } }
const commit = (connection: number): Happening => {
  const of = { group: 'g', tp: 'in:0', offset: 0, rewindId: '0', member: 'm' }
  return { k: 'commit.applied', ...of, connection }
}
breaks(
  'W16',
  "a late commit undoes a transaction's offsets if it comes while that is open; its owner puts right what comes before",
  work,
  [...start, commit(2), commit(1), made(1, '0'), took, made(2, '0'), final(1, 1), final(2, 2)],
  [...start, commit(2), made(1, '0'), took, commit(1), made(2, '0'), final(1, 1), final(2, 2)]
)
