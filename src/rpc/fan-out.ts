/**
 * Questions that concern several brokers: split by who can answer what, asked side by side, and put together.
 * What fails in passing (a leader moved, a coordinator loads, a connection broke: all of these only read) is
 * asked again where it belongs by then, until the deadline, alone. The outcomes stand in the order of the
 * items, each a value or the error that it ended with, so that one bad item spoils no other.
 */
import { PlayheadError } from '../base/error.ts'
import { KafkaError } from '../protocol/errors.ts'
import { answerError } from './answer-errors.ts'
import type { Cluster, WaitOptions } from './cluster.ts'
import { backoffMs, callBackoff, isPassing, sleep } from './retry.ts'

export type Outcome<T> =
  | { readonly value: T; readonly error: null }
  | { readonly value: null; readonly error: PlayheadError }

/** How one kind of question is asked. `T` is what becomes of one item. */
export interface Question<Item, T> {
  /** The broker that can answer for this item. */
  place(item: Item, waiting: Waiting): Promise<number>
  /** That broker could not: it is to be found again. */
  moved(item: Item): void
  /** Asks one broker about some items; what it leaves out counts as failed in passing. */
  ask(
    node: number,
    items: readonly Item[],
    waiting: Waiting
  ): Promise<ReadonlyMap<Item, Outcome<T>>>
}

/** For how long a broker may be asked: what is left of the whole question's time. */
export type Waiting = WaitOptions & { readonly timeoutMs: number }

export async function fanOut<Item, T>(
  cluster: Cluster,
  items: readonly Item[],
  options: WaitOptions,
  question: Question<Item, T>
): Promise<readonly Outcome<T>[]> {
  const { clock, random } = cluster.env
  const { signal, timeoutMs } = options
  const waiting = cluster.within({ signal, timeoutMs })
  const deadline = clock.monotonic() + waiting.timeoutMs
  const outcomes = new Map<Item, Outcome<T>>()
  let left = [...new Set(items)]
  for (let attempt = 1; left.length > 0; attempt++) {
    await askOnce(left, waiting, question, outcomes)
    left = left.filter(item => {
      const error = outcomes.get(item)?.error
      return error instanceof PlayheadError && isPassing(error)
    })
    const waitMs = backoffMs(random, callBackoff, attempt)
    if (left.length === 0 || clock.monotonic() + waitMs >= deadline) break
    for (const item of left) question.moved(item)
    await sleep(clock, waitMs, [cluster.closing, signal])
  }
  return items.map(item => outcomes.get(item) ?? failed(unanswered()))
}

async function askOnce<Item, T>(
  items: readonly Item[],
  waiting: Waiting,
  question: Question<Item, T>,
  outcomes: Map<Item, Outcome<T>>
): Promise<void> {
  const byNode = new Map<number, Item[]>()
  const place = async (item: Item) => {
    try {
      const node = await question.place(item, waiting)
      const there = byNode.get(node)
      if (there) there.push(item)
      else byNode.set(node, [item])
    } catch (error) {
      outcomes.set(item, failed(onlyOurs(error)))
    }
  }
  await Promise.all(items.map(place))
  const ask = async ([node, there]: [number, readonly Item[]]) => {
    try {
      const answers = await question.ask(node, there, waiting)
      for (const item of there) outcomes.set(item, answers.get(item) ?? failed(unanswered()))
    } catch (error) {
      for (const item of there) outcomes.set(item, failed(onlyOurs(error)))
    }
  }
  await Promise.all([...byNode].map(ask))
}

export function failed(error: PlayheadError): {
  readonly value: null
  readonly error: PlayheadError
} {
  return { value: null, error }
}

function done<T>(value: T): Outcome<T> {
  return { value, error: null }
}

function unanswered(): PlayheadError {
  const message = 'the broker left this out of its answer'
  return new PlayheadError('BROKER_ERROR', message, { retriable: true })
}

/** What gave up as a whole rejects as a whole; a bug is not an outcome. */
function onlyOurs(error: unknown): PlayheadError {
  if (!(error instanceof PlayheadError) || error.code === 'ABORTED' || error.code === 'CLOSED') {
    throw error
  }
  return error
}

export function byTopic<Item extends { readonly topic: string }>(
  items: readonly Item[]
): [topic: string, items: Item[]][] {
  const topics = new Map<string, Item[]>()
  for (const item of items) {
    const of = topics.get(item.topic)
    if (of) of.push(item)
    else topics.set(item.topic, [item])
  }
  return [...topics]
}

/** As many requests as the item named most often needs, so that each names each at most once. */
export function eachOnce<Item>(
  items: readonly Item[],
  nameOf: (item: Item) => string
): readonly (readonly Item[])[] {
  const seen = new Map<string, number>()
  const requests: Item[][] = []
  for (const item of items) {
    const times = seen.get(nameOf(item)) ?? 0
    seen.set(nameOf(item), times + 1)
    const request = requests[times]
    if (request) request.push(item)
    else requests.push([item])
  }
  return requests
}

/** What one part of an answer means. */
export function outcome<A extends { readonly errorCode: number }, T>(
  answer: A,
  what: string,
  value: (answer: A) => T,
  details: {
    readonly topic?: string
    readonly partition?: number
    readonly group?: string
    readonly brokerMessage?: string | null
  } = {}
): Outcome<T> {
  return answer.errorCode === KafkaError.NONE
    ? done(value(answer))
    : failed(answerError(answer.errorCode, what, details))
}
