/** Consumers of one group on an embedded broker, with what each of them saw. */
import assert from 'node:assert/strict'
import { Broker, type StartOptions } from '../../src/broker.ts'
import {
  type Consumer,
  type ConsumerRecord,
  type GroupOptions,
  Playhead,
  type Rewound
} from '../../src/index.ts'

export interface Hand {
  readonly consumer: Consumer
  readonly seen: ConsumerRecord[]
  readonly rewinds: Rewound[]
  /** 'topic/partition' each. */
  owned: readonly string[]
  /** How often what it owns has changed. */
  changes: number
}

export function reading({ topic, partition, offset }: ConsumerRecord): string {
  return `${topic}/${partition}@${offset}`
}

export class Crew {
  readonly broker: Broker
  readonly kafka: Playhead
  readonly hands: Hand[] = []
  readonly #partitions: number
  readonly #waiting = new Set<() => boolean>()
  #produced = 0

  private constructor(broker: Broker, partitions: number) {
    this.broker = broker
    this.kafka = new Playhead({ bootstrap: broker.bootstrap })
    this.#partitions = partitions
  }

  static async start({
    partitions = 1,
    ...broker
  }: Omit<StartOptions, 'topics'> & { readonly partitions?: number }): Promise<Crew> {
    return new Crew(await Broker.start({ ...broker, topics: { t: partitions } }), partitions)
  }

  join(more: Partial<Omit<GroupOptions, 'assign'>> = {}): Hand {
    const rewinds: Rewound[] = []
    const consumer = this.kafka.consumer({
      group: 'g',
      topics: ['t'],
      protocol: 'controller',
      onRewind: rewound => void rewinds.push(rewound),
      ...more
    })
    const hand: Hand = { consumer, seen: [], rewinds, owned: [], changes: 0 }
    const look = () => {
      hand.owned = consumer.assignment.map(({ topic, partition }) => `${topic}/${partition}`)
      hand.changes++
      this.#look()
    }
    for (const event of ['assigned', 'revoked', 'lost'] as const) consumer.on(event, look)
    const read = async () => {
      for await (const record of consumer) {
        hand.seen.push(record)
        this.#look()
      }
    }
    read().catch((error: unknown) => assert.fail(String(error)))
    this.hands.push(hand)
    return hand
  }

  /** So many, in turn to each partition. */
  async produce(count: number, topic = 't'): Promise<void> {
    const partitions = topic === 't' ? this.#partitions : 1
    const producer = this.kafka.producer()
    const records = Array.from({ length: count }, (_, index) => ({
      value: String(this.#produced + index),
      partition: index % partitions
    }))
    this.#produced += count
    await producer.sendMany(topic, records)
    await producer.close()
  }

  /** Resolves when it holds; it is looked at whenever a consumer saw or got something. */
  until(holds: () => boolean): Promise<void> {
    return new Promise(resolve => {
      this.#waiting.add(() => {
        if (!holds()) return false
        resolve()
        return true
      })
      this.#look()
    })
  }

  readonly #look = (): void => {
    for (const done of this.#waiting) if (done()) this.#waiting.delete(done)
  }

  assertEachOnce(): void {
    const all = this.hands.flatMap(({ seen }) => seen.map(reading))
    assert.equal(new Set(all).size, all.length)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.hands.map(({ consumer }) => consumer.close()))
    await this.kafka.close()
    await this.broker.close()
  }
}
