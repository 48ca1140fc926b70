/** What happens to a group in a random history. */
import fc from 'fast-check'

export const names = ['a', 'b', 'c', 'd'] as const
const topics = ['t', 'u'] as const

export type Step =
  | { do: 'register'; who: string; keep: number; also: boolean; stale: boolean; instance: boolean }
  | { do: 'heartbeat'; who: string; held: boolean; stale: boolean }
  | { do: 'commit'; who: string; topic: string; partition: number; offset: number; stale: boolean }
  | {
      do: 'transact'
      who: string
      topic: string
      partition: number
      offset: number
      producer: number
    }
  | { do: 'end'; producer: number; committed: boolean }
  | {
      do: 'rewind'
      who: string | null
      topic: string
      partitions: number[]
      offset: number
      until: number
    }
  | { do: 'cancel'; topic: string; partitions: number[]; named: boolean }
  | { do: 'leave' | 'disconnect'; who: string }
  | { do: 'topic'; topic: string; partitions: number }
  | { do: 'delete'; topic: string }
  | { do: 'pass'; ms: number }
  | { do: 'restart' }

const who = fc.constantFrom(...names)
const topic = fc.constantFrom(...topics)
const partition = fc.nat(4)
const producer = fc.constantFrom(1, 2)
const seldom = fc.integer({ min: 0, max: 5 }).map(n => n === 0)

export const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('register' as const),
      who,
      keep: fc.nat(1023),
      also: fc.boolean(),
      stale: seldom,
      instance: seldom
    })
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('heartbeat' as const),
      who,
      held: fc.boolean(),
      stale: seldom
    })
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('commit' as const),
      who,
      topic,
      partition,
      offset: fc.nat(99),
      stale: seldom
    })
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('rewind' as const),
      who: fc.option(who),
      topic,
      partitions: fc.uniqueArray(partition, { minLength: 1, maxLength: 4 }),
      offset: fc.integer({ min: -2, max: 120 }),
      until: fc.constantFrom(-1, -1, 60)
    })
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('transact' as const),
      who,
      topic,
      partition,
      offset: fc.nat(99),
      producer
    })
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('end' as const), producer, committed: fc.boolean() })
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('cancel' as const),
      topic,
      partitions: fc.uniqueArray(partition, { minLength: 1, maxLength: 4 }),
      named: seldom
    })
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const), who }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('disconnect' as const), who }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('topic' as const),
      topic,
      partitions: fc.integer({ min: 1, max: 5 })
    })
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), topic }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.nat(6_000) })
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const) }) }
)
