/** Reads a consumer in the background, and waits for what it sees: by condition, never for a while. */
import type { Consumer } from '../../src/client/consumer/consumer.ts'
import type { ConsumerRecord } from '../../src/client/consumer/record.ts'

export class Reading<K, V> {
  readonly consumer: Consumer<K, V>
  readonly records: ConsumerRecord<K, V>[] = []
  /** What happened, in order: 'assigned topic/0', 'revoked topic/0', 'lost …', 'error CODE', 'moved …'. */
  readonly events: string[] = []
  /** Resolves when the iterator has ended; rejects with what it threw. */
  readonly ended: Promise<void>
  readonly #waiting = new Set<() => void>()

  constructor(consumer: Consumer<K, V>) {
    this.consumer = consumer
    for (const name of ['assigned', 'revoked', 'lost'] as const) {
      consumer.on(name, ({ partitions }) => {
        for (const { topic, partition } of partitions) this.#saw(`${name} ${topic}/${partition}`)
      })
    }
    consumer.on('error', ({ error }) => this.#saw(`error ${error.code}`))
    consumer.on('moved', ({ from, to, why }) => this.#saw(`moved ${from} ${to} ${why}`))
    this.ended = this.#read()
    this.ended.catch(() => {})
  }

  /** Resolves once `condition` holds: looked at whenever something was seen here, and often besides. */
  async until(
    what: string,
    condition: (reading: this) => boolean,
    withinMs = 30_000
  ): Promise<void> {
    if (condition(this)) return
    await new Promise<void>((resolve, reject) => {
      const look = () => {
        if (condition(this)) stop(resolve)
      }
      const stop = (then: () => void) => {
        this.#waiting.delete(look)
        clearInterval(often)
        clearTimeout(late)
        then()
      }
      const often = setInterval(look, 20)
      const seen = () => `${this.records.length} records, ${this.events.join(', ')}`
      const late = setTimeout(
        () => stop(() => reject(new Error(`never: ${what}; saw ${seen()}`))),
        withinMs
      )
      this.#waiting.add(look)
      this.ended.catch((error: Error) => stop(() => reject(error)))
    })
  }

  values(): V[] {
    return this.records.map(({ value }) => value as V)
  }

  async close(): Promise<void> {
    await this.consumer.close()
    await this.ended
  }

  async #read(): Promise<void> {
    for await (const record of this.consumer) {
      this.records.push(record)
      this.#wake()
    }
  }

  #saw(event: string): void {
    this.events.push(event)
    this.#wake()
  }

  #wake(): void {
    for (const look of this.#waiting) look()
  }
}
