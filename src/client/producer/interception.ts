/** What the application sees of its own sends: each record before it is encoded, and what became of each call. */
import type { Clock, Log } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import type { ProducerOptions } from './options.ts'
import type { ProducerRecord } from './record.ts'

export class Interception<K, V> {
  readonly #clock: Clock
  readonly #log: Log
  readonly #onSend: ProducerOptions<K, V>['onSend']
  readonly #onSettled: ProducerOptions<K, V>['onSettled']

  constructor(
    env: { readonly clock: Clock; readonly log: Log },
    { onSend, onSettled }: ProducerOptions<K, V>
  ) {
    this.#clock = env.clock
    this.#log = env.log
    this.#onSend = onSend
    this.#onSettled = onSettled
  }

  /** Calls `send` with what is to be sent instead of `records`, within this call. */
  async around<T>(
    topic: string,
    records: readonly ProducerRecord<K, V>[],
    send: (records: readonly ProducerRecord<K, V>[]) => Promise<T>
  ): Promise<T> {
    const sentAt = this.#clock.monotonic()
    const settled = (error: PlayheadError | undefined): void => {
      const tookMs = this.#clock.monotonic() - sentAt
      try {
        this.#onSettled?.({ topic, records: records.length, tookMs, error })
      } catch (cause) {
        this.#log.error('producer: onSettled threw', { error: String(cause) })
      }
    }
    try {
      const result = await send(records.map(record => this.#seen(topic, record)))
      settled(undefined)
      return result
    } catch (error) {
      if (error instanceof PlayheadError) settled(error)
      throw error
    }
  }

  #seen(topic: string, record: ProducerRecord<K, V>): ProducerRecord<K, V> {
    try {
      return this.#onSend?.(topic, record) ?? record
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause)
      const message = `producer: onSend failed for a record of ${topic}: ${why}`
      throw new PlayheadError('INVALID_ARGUMENT', message, { topic, cause })
    }
  }
}
