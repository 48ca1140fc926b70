/** Values on the command line: parsed strictly, and named in the message when they are wrong. */
import { InvalidArgumentError } from 'commander'
import { PlayheadError } from '../base/error.ts'
import type { TopicPartition } from '../client/partition.ts'

/** A parser for a whole number of at least `least`. */
export function wholeNumber(option: string, least: number): (text: string) => number {
  return text => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
    if (!Number.isSafeInteger(value) || value < least) {
      throw new InvalidArgumentError(`${option} takes a whole number from ${least} on.`)
    }
    return value
  }
}

/** The most partitions that a range names: a typo must not name a billion. */
const mostPartitions = 100_000

/** What `--topic orders` and `--topic orders:0,3-5` name. */
export interface TopicChoice {
  readonly topics: readonly string[]
  readonly partitions: readonly TopicPartition[]
}

/** Reads `--topic` options: whole topics, or partitions of them. Throws INVALID_ARGUMENT. */
export function topicChoice(texts: readonly string[]): TopicChoice {
  const topics: string[] = []
  const partitions: TopicPartition[] = []
  for (const text of texts) {
    const at = text.indexOf(':')
    const topic = at < 0 ? text : text.slice(0, at)
    if (topic === '') throw wrong(text)
    if (at < 0) topics.push(topic)
    else {
      const numbers = text.slice(at + 1).split(',')
      for (const partition of numbers.flatMap(part => rangeOf(part, text))) {
        partitions.push({ topic, partition })
      }
    }
  }
  return { topics, partitions }
}

function rangeOf(part: string, text: string): number[] {
  const [, first, last = first] = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part) ?? []
  const from = Number(first)
  const count = Number(last) - from + 1
  if (first === undefined || count < 1 || count > mostPartitions) throw wrong(text)
  return Array.from({ length: count }, (_, i) => from + i)
}

function wrong(text: string): PlayheadError {
  return new PlayheadError(
    'INVALID_ARGUMENT',
    `--topic ${text}: write orders, or with partitions orders:0,3-5`
  )
}
