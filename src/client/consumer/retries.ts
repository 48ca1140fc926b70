/**
 * What becomes of a record whose handler fails: it is handled again after a while, as often as the application allows,
 * and then goes to where letters go that cannot be delivered. Its partition (or key) waits meanwhile, so the order holds.
 */
import type { Random } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import type { Header, RecordView } from '../../protocol/records/record.ts'
import { backoffMs } from '../../rpc/retry.ts'
import { invalid } from './options.ts'
import type { ConsumerRecord } from './record.ts'

/** How often a handler that fails is called again for the same record. */
export interface HandlerRetries {
  /** Calls for one record in all, the first included. Default 5. */
  readonly attempts?: number
  /** Before the second call, in ms; twice as long before each further one, ±20 %. Default 200. */
  readonly firstMs?: number
  /** At most so long between two calls, in ms. Default 30,000. */
  readonly mostMs?: number
  /**
   * False: this error is not worth another call. Default: all are, but for a record that its serde cannot read
   * (DESERIALIZATION_FAILED), or an argument that makes no sense (INVALID_ARGUMENT).
   */
  readonly when?: (error: unknown) => boolean
}

/** A record that is given up, and why. */
export interface DeadLetter<K = Buffer, V = Buffer> {
  /** As its handler got it. */
  readonly record: ConsumerRecord<K, V>
  /** What its handler rejected with last. */
  readonly error: unknown
  /** How often the handler was called for it. */
  readonly attempts: number
}

/**
 * Where records go that are given up: a topic, or a function that sees to it, and is awaited. Only then is the record
 * processed; when that fails `run` ends with what it failed with.
 */
export type DeadLetters<K = Buffer, V = Buffer> = string | ((letter: DeadLetter<K, V>) => unknown)

/** What letters are sent with. */
export interface LetterSender {
  send(
    topic: string,
    record: {
      readonly key: Buffer | null
      readonly value: Buffer | null
      readonly headers: readonly (readonly [string, Buffer | string | null])[]
      readonly timestamp: number | undefined
    }
  ): Promise<unknown>
  close(): Promise<void>
}

export interface RetriesHost {
  readonly random: Random
  readonly group: string | null
  /** Made when the first letter is sent. */
  sender(): LetterSender
}

export class Retries<K, V> {
  readonly #host: RetriesHost
  readonly #attempts: number
  readonly #backoff: { readonly firstMs: number; readonly mostMs: number }
  readonly #when: (error: unknown) => boolean
  readonly #letters: DeadLetters<K, V> | undefined
  #sender: LetterSender | null = null

  /** Throws INVALID_ARGUMENT. */
  constructor(
    host: RetriesHost,
    retry: HandlerRetries | undefined,
    letters: DeadLetters<K, V> | undefined
  ) {
    const { attempts = 5, firstMs = 200, mostMs = 30_000, when = isWorthAnother } = retry ?? {}
    if (!Number.isInteger(attempts) || attempts < 1) throw invalid('attempts is a positive integer')
    if (!(firstMs >= 0 && mostMs >= firstMs)) throw invalid('firstMs is from 0 to mostMs')
    if (letters === '') throw invalid('the topic of dead letters has an empty name')
    this.#host = host
    this.#attempts = retry === undefined ? 1 : attempts
    this.#backoff = { firstMs, mostMs }
    this.#when = when
    this.#letters = letters
  }

  /** How long to wait before the next call; undefined: there is none. `attempts` have failed. */
  waitMs(error: unknown, attempts: number): number | undefined {
    if (attempts >= this.#attempts || !this.#when(error)) return undefined
    return backoffMs(this.#host.random, this.#backoff, attempts)
  }

  /** Rejects with the letter's error when there is nowhere to send it. */
  async giveUp(letter: DeadLetter<K, V>): Promise<void> {
    const letters = this.#letters
    if (letters === undefined) throw letter.error
    if (typeof letters !== 'string') {
      await letters(letter)
      return
    }
    this.#sender ??= this.#host.sender()
    // Every record of a consumer is one; what it shows decoded, it has as bytes.
    const bytes = letter.record as unknown as RecordView
    const { timestamp } = letter.record
    await this.#sender.send(letters, {
      key: bytes.keyBytes(),
      value: bytes.valueBytes(),
      headers: headersOf(letter, this.#host.group),
      timestamp: timestamp < 0 ? undefined : timestamp
    })
  }

  async close(): Promise<void> {
    await this.#sender?.close()
  }
}

/** The record's own, then where it was and why it is a dead letter. */
function headersOf(
  { record, error, attempts }: DeadLetter<unknown, unknown>,
  group: string | null
): (readonly [string, Buffer | string | null])[] {
  const { topic, partition, offset, headers } = record
  const own = headers.map(({ key, value }: Header) => [key, value] as const)
  return [
    ...own,
    ['dead-letter.topic', topic],
    ['dead-letter.partition', String(partition)],
    ['dead-letter.offset', String(offset)],
    ['dead-letter.group', group],
    ['dead-letter.attempts', String(attempts)],
    [
      'dead-letter.error',
      error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    ]
  ]
}

function isWorthAnother(error: unknown): boolean {
  if (!(error instanceof PlayheadError)) return true
  return error.code !== 'DESERIALIZATION_FAILED' && error.code !== 'INVALID_ARGUMENT'
}
