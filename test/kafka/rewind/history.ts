/** Histories of real processes: one file each, a line per event, judged by the simulation's checkers. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { LandingChecker } from '../../../sim/checkers/landing.ts'
import { OrderChecker } from '../../../sim/checkers/order.ts'
import { RewindChecker } from '../../../sim/checkers/rewind.ts'
import type { GroupProtocol } from '../../../src/client/consumer/options.ts'
import type { TopicPartitionOffset } from '../../../src/client/partition.ts'
import type { AssignorName } from '../../../src/group/member/strategies.ts'
import type { Happened, Happening, RewindId, Tp } from '../../../sim/history/events.ts'

/** What a member is told when it is started. */
export interface Order {
  readonly bootstrap: readonly string[]
  readonly group: string
  readonly topic: string
  readonly node: string
  readonly inc: number
  readonly file: string
  readonly commitIntervalMs?: number
  readonly rewindCheckMs?: number
  readonly partitionMaxBytes?: number
  readonly sessionTimeoutMs?: number
  readonly protocol?: GroupProtocol
  readonly assignors?: readonly AssignorName[]
}

/** What a caller is told when it is started. */
export interface Call {
  readonly bootstrap: readonly string[]
  readonly group: string
  readonly to: readonly TopicPartitionOffset[]
}

/** Many deliveries in one line. */
export interface BatchLine {
  readonly k: 'batch'
  readonly member: string
  readonly tp: Tp
  readonly rewindId: RewindId
  readonly offsets: readonly number[]
}

export type Line = Happening | BatchLine

type Stamped = Line & { readonly t: number; readonly node: string; readonly inc: number }

/** All events of all files, in the order of the machine's clock. A line that a kill cut short is left out. */
export function readHistory(files: readonly string[]): Happened[] {
  const lines = files.flatMap(file => {
    const text = readFileSync(file, 'utf8')
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    return whole.split('\n').flatMap(line => (line === '' ? [] : [JSON.parse(line) as Stamped]))
  })
  lines.sort((a, b) => a.t - b.t)
  const events: Happened[] = []
  for (const line of lines) {
    const { t, node, inc } = line
    if (line.k !== 'batch') {
      events.push({ ...line, i: events.length })
      continue
    }
    const { member, tp, rewindId } = line
    for (const offset of line.offsets) {
      const v = `${tp}@${offset}`
      const deliver = { k: 'deliver' as const, member, tp, offset, v, rewindId }
      events.push({ i: events.length, t, node, inc, ...deliver })
    }
  }
  return events
}

/** Throws the first rule that doesn't hold, with what happened to that partition around it. */
export function judge(events: readonly Happened[]): void {
  const checkers = [new OrderChecker(), new RewindChecker(), new LandingChecker()]
  for (const event of events) {
    if (event.k === 'uncaught') throw new Error(event.error)
    try {
      for (const checker of checkers) checker.on(event)
    } catch (error) {
      throw new Error(`${String(error)}\n${around(events, event)}`, { cause: error })
    }
  }
  for (const checker of checkers) if ('end' in checker) checker.end()
}

function around(events: readonly Happened[], at: Happened): string {
  const tps = 'tp' in at ? [at.tp] : []
  const isNear = (event: Happened) => {
    if (event.k === 'deliver') return tps.includes(event.tp)
    return true
  }
  const before = events.slice(Math.max(0, at.i - 5_000), at.i + 1).filter(isNear)
  return before
    .slice(-40)
    .map(event => JSON.stringify(event))
    .join('\n')
}

/** The offsets of `tp` that somebody got with a rewind of at least `id`. */
export function deliveredSince(events: readonly Happened[], tp: Tp, id: RewindId): Set<number> {
  const found = new Set<number>()
  for (const event of events) {
    if (event.k === 'deliver' && event.tp === tp && event.rewindId >= id) found.add(event.offset)
  }
  return found
}

/**
 * Judges the history of a group that has come to the end of a topic whose every value names its partition and offset, and
 * asserts that after the last rewind of each partition (`rewound`) nothing from the target on was left out.
 */
export function judgeToTheEnd(
  history: Happened[],
  {
    topic,
    partitions,
    perPartition
  }: Readonly<Record<'partitions' | 'perPartition', number>> & {
    readonly topic: string
  },
  rewound: ReadonlyMap<Tp, { readonly id: RewindId; readonly to: number }>
): void {
  for (let partition = 0; partition < partitions; partition++) {
    for (let offset = 0; offset < perPartition; offset++) {
      const tp = `${topic}:${partition}`
      const final = { k: 'final' as const, tp, offset, v: `${tp}@${offset}` }
      history.push({ i: history.length, t: Infinity, node: 'reader', inc: 1, ...final })
    }
  }
  judge(history)
  for (const [tp, { id, to }] of rewound) {
    const got = deliveredSince(history, tp, id)
    for (let offset = to; offset < perPartition; offset++) {
      assert.ok(got.has(offset), `${tp}@${offset} was not delivered after rewind ${id} to ${to}`)
    }
  }
}
