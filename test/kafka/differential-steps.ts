/** Requests for the differential test, drawn by chance: mostly right, now and then slightly wrong. */
import type { Random } from '../../src/base/env.ts'

/** What is asked, by names: the topic t2, the producer p1. */
export type Step =
  | {
      readonly do: 'create'
      readonly topic: string
      readonly partitions: number
      readonly replicas: number
      readonly config?: readonly [string, string | null]
      readonly validateOnly: boolean
    }
  | { readonly do: 'delete'; readonly topic: string }
  | {
      readonly do: 'grow'
      readonly topic: string
      readonly count: number
      readonly validateOnly: boolean
    }
  | { readonly do: 'metadata'; readonly topic: string }
  | {
      readonly do: 'produce'
      readonly topic: string
      readonly partition: number
      readonly values: readonly string[]
      readonly acks: number
      readonly version: number
      readonly damage: 'none' | 'crc' | 'twice' | 'large'
    }
  | {
      readonly do: 'idempotent'
      readonly topic: string
      readonly partition: number
      readonly producer: string
      readonly sequence: number
      readonly epoch: number
    }
  | {
      readonly do: 'transactional'
      readonly topic: string
      readonly partition: number
      readonly id: string
      readonly sequence: number
      readonly epoch: number
      readonly version: number
      readonly nonTransactional: boolean
    }
  | { readonly do: 'init'; readonly id: string; readonly timeoutMs: number; readonly keep: boolean }
  | {
      readonly do: 'add'
      readonly id: string
      readonly topic: string
      readonly partition: number
      readonly epoch: number
    }
  | {
      readonly do: 'end'
      readonly id: string
      readonly commit: boolean
      readonly epoch: number
      readonly version: number
    }
  | {
      readonly do: 'fetch'
      readonly topic: string
      readonly partition: number
      readonly offset: number
      readonly isolation: number
      readonly maxBytes: number
    }
  | {
      readonly do: 'offsets'
      readonly topic: string
      readonly partition: number
      readonly at: number
      readonly isolation: number
    }
  | {
      readonly do: 'epoch'
      readonly topic: string
      readonly partition: number
      readonly epoch: number
      readonly current: number
    }
  | {
      readonly do: 'cut'
      readonly topic: string
      readonly partition: number
      readonly offset: number
    }
  | { readonly do: 'configs'; readonly topic: string }
  | {
      readonly do: 'alter'
      readonly topic: string
      readonly name: string
      readonly how: number
      readonly value: string | null
    }
  | { readonly do: 'coordinator'; readonly kind: number; readonly key: string }

const kinds: readonly Step['do'][] = [
  'create',
  'create',
  'delete',
  'grow',
  'metadata',
  'produce',
  'produce',
  'produce',
  'idempotent',
  'idempotent',
  'transactional',
  'transactional',
  'transactional',
  'init',
  'add',
  'end',
  'end',
  'fetch',
  'fetch',
  'fetch',
  'offsets',
  'offsets',
  'epoch',
  'cut',
  'configs',
  'alter',
  'coordinator'
]

export function draw(random: Random): Step {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random.next() * from.length)] as T
  const rarely = <T>(usual: T, others: readonly T[]): T =>
    random.next() < 0.85 ? usual : pick(others)
  const topic = rarely(pick(['t0', 't1', 't2']), ['', '..', 'no such', 't9'])
  const partition = rarely(pick([0, 1]), [-1, 2, 99])
  const id = pick(['x', 'y'])
  switch (pick(kinds)) {
    case 'create':
      return {
        do: 'create',
        topic,
        partitions: rarely(pick([1, 2, 3]), [0, -2]),
        replicas: rarely(1, [-1, 0, 2]),
        ...(random.next() < 0.3 && {
          config: pick([
            ['retention.ms', '1000000'],
            ['retention.ms', 'x'],
            ['cleanup.policy', 'compact'],
            ['no.such', '1'],
            ['max.message.bytes', '-1']
          ] as const)
        }),
        validateOnly: random.next() < 0.1
      }
    case 'delete':
      return { do: 'delete', topic: random.next() < 0.3 ? topic : 't9' }
    case 'grow':
      return {
        do: 'grow',
        topic,
        count: rarely(pick([2, 3, 4]), [0, -1]),
        validateOnly: random.next() < 0.2
      }
    case 'metadata':
      return { do: 'metadata', topic }
    case 'produce':
      return {
        do: 'produce',
        topic,
        partition,
        values: pick([['a'], ['b', 'c'], ['d', 'e', 'f']]),
        acks: rarely(-1, [1, 2]),
        version: pick([3, 7, 9, 12]),
        damage: rarely('none' as const, ['crc', 'twice', 'large'] as const)
      }
    case 'idempotent':
      return {
        do: 'idempotent',
        topic,
        partition,
        producer: pick(['p', 'q']),
        sequence: pick([0, 0, 1, 1, 2, 3, 5]),
        epoch: rarely(0, [1, 2])
      }
    case 'transactional':
      return {
        do: 'transactional',
        topic,
        partition,
        id,
        sequence: pick([0, 0, 1, 2]),
        epoch: rarely(0, [-1, 1]),
        version: 12,
        nonTransactional: random.next() < 0.05
      }
    case 'init':
      return {
        do: 'init',
        id,
        timeoutMs: rarely(60_000, [0, -1, 1_000_000_000]),
        keep: random.next() < 0.3
      }
    case 'add':
      return { do: 'add', id, topic, partition, epoch: rarely(0, [-1, 1]) }
    case 'end':
      return { do: 'end', id, commit: random.next() < 0.5, epoch: rarely(0, [-1, 1]), version: 5 }
    case 'fetch':
      return {
        do: 'fetch',
        topic,
        partition,
        offset: pick([0, 0, 1, 2, 3, 5, 8, 13, 100]),
        isolation: pick([0, 1]),
        maxBytes: pick([1, 100, 1_000_000])
      }
    case 'offsets':
      return {
        do: 'offsets',
        topic,
        partition,
        at: pick([-1, -1, -2, -2, -3, -4, 0, 1, 2]),
        isolation: pick([0, 1])
      }
    case 'epoch':
      return {
        do: 'epoch',
        topic,
        partition,
        epoch: pick([0, 0, 1, -1]),
        current: rarely(0, [-1, 1, 5])
      }
    case 'cut':
      return { do: 'cut', topic, partition, offset: pick([0, 1, 3, -1, -2, 1000]) }
    case 'configs':
      return { do: 'configs', topic }
    case 'alter':
      return {
        do: 'alter',
        topic,
        how: pick([0, 0, 1, 2, 3]),
        ...pick([
          { name: 'retention.ms', value: '5000000' },
          { name: 'cleanup.policy', value: 'compact' },
          { name: 'cleanup.policy', value: 'delete' },
          { name: 'retention.ms', value: 'x' },
          { name: 'no.such', value: '1' }
        ])
      }
    case 'coordinator':
      return { do: 'coordinator', kind: pick([0, 1, 2, 3]), key: pick(['k', '']) }
  }
}
