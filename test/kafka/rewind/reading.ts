/** A consumer in this process, and what it got. */
import type { Consumer } from '../../../src/client/consumer/consumer.ts'
import type { GroupOptions } from '../../../src/client/consumer/options.ts'
import type { Rewound } from '../../../src/client/consumer/rewound.ts'
import type { PlayheadError } from '../../../src/index.ts'
import type { Playhead } from '../../../src/index.ts'

export interface Got {
  readonly offset: number
  /** The rewind it belongs to; '0': none. */
  readonly id: string
  /** performance.now() */
  readonly at: number
}

export class Reading {
  readonly consumer: Consumer
  /** By partition. */
  readonly got = new Map<number, Got[]>()
  readonly rewound: Rewound[] = []
  readonly moved: { readonly partition: number; readonly from: number; readonly to: number }[] = []
  readonly errors: PlayheadError[] = []
  readonly given: string[] = []
  readonly #loop: Promise<void>

  constructor(client: Playhead, options: GroupOptions) {
    this.consumer = client.consumer({ commitIntervalMs: 100, ...options })
    this.consumer.on('rewound', event => void this.rewound.push(event))
    this.consumer.on('moved', event => void this.moved.push(event))
    this.consumer.on('error', ({ error }) => void this.errors.push(error))
    for (const name of ['assigned', 'revoked', 'lost'] as const) {
      this.consumer.on(name, ({ partitions }) => {
        for (const { partition } of partitions) this.given.push(`${name} ${partition}`)
      })
    }
    this.#loop = this.#read()
  }

  async #read(): Promise<void> {
    for await (const record of this.consumer) {
      const { partition, offset } = record
      const id = this.consumer.rewindOf(record) ?? '0'
      const list = this.got.get(partition) ?? []
      this.got.set(partition, list)
      list.push({ offset, id, at: performance.now() })
    }
  }

  /** The offset got last of a partition; -1: none. */
  last(partition: number): number {
    return this.got.get(partition)?.at(-1)?.offset ?? -1
  }

  /** The offsets got with a rewind, in order. */
  since(partition: number, id: string): number[] {
    return (this.got.get(partition) ?? []).filter(got => got.id === id).map(got => got.offset)
  }

  async close(): Promise<void> {
    await this.consumer.close()
    await this.#loop
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** from, from + 1, … up to and without `to`. */
export function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i)
}
