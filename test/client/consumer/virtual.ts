/** The real consumer and the real embedded broker in virtual time, with the broker's faults in the test's hand. */
import assert from 'node:assert/strict'
import { simulatedCpu } from '../../../sim/world/cpu.ts'
import { VirtualClock } from '../../../sim/world/clock.ts'
import { SeededRandom } from '../../../sim/world/random.ts'
import type { Env } from '../../../src/base/env.ts'
import { silentLog } from '../../../src/base/node/log.ts'
import { type BrokerOptions, type EmbeddedBroker, startBroker } from '../../../src/broker/broker.ts'
import { Consumer } from '../../../src/client/consumer/consumer.ts'
import type { AssignOptions, GroupOptions } from '../../../src/client/consumer/options.ts'
import type { ConsumerRecord } from '../../../src/client/consumer/record.ts'
import { string } from '../../../src/client/serde.ts'
import { MemoryNetwork } from '../../../src/net/memory.ts'
import { CreateTopics } from '../../../src/protocol/api/create-topics.ts'
import { Produce } from '../../../src/protocol/api/produce.ts'
import { BatchBuilder } from '../../../src/protocol/records/builder.ts'
import { isRetriable } from '../../../src/protocol/errors.ts'
import { answerError } from '../../../src/rpc/answer-errors.ts'
import { Cluster } from '../../../src/rpc/cluster.ts'
import { Again } from '../../../src/rpc/retry.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

/** A consumer that is read in the background, and what it saw and when. */
export class Watched {
  readonly consumer: Consumer<Buffer, string>
  readonly seen: { readonly at: number; readonly record: ConsumerRecord<Buffer, string> }[] = []
  readonly events: string[] = []
  readonly #clock: VirtualClock
  /** What the loop does with each record. */
  handle: (record: ConsumerRecord<Buffer, string>) => unknown = () => {}
  ended = false
  failure: unknown

  constructor(clock: VirtualClock, consumer: Consumer<Buffer, string>) {
    this.#clock = clock
    this.consumer = consumer
    for (const name of ['assigned', 'revoked', 'lost'] as const) {
      consumer.on(name, ({ partitions }) => {
        for (const { partition } of partitions) this.events.push(`${name} ${partition}`)
      })
    }
    consumer.on('error', ({ error }) => this.events.push(`error ${error.code}`))
    consumer.on('moved', ({ from, to, why }) => this.events.push(`moved ${from} ${to} ${why}`))
    consumer.on('stalled', ({ reason }) => this.events.push(`stalled ${reason}`))
  }

  read(): this {
    this.#loop().then(
      () => {
        this.ended = true
      },
      (error: unknown) => {
        this.ended = true
        this.failure = error
      }
    )
    return this
  }

  values(): (string | null)[] {
    return this.seen.map(({ record }) => record.value)
  }

  async #loop(): Promise<void> {
    for await (const record of this.consumer) {
      this.seen.push({ at: this.#clock.monotonic(), record })
      await this.handle(record)
    }
  }
}

export class VirtualWorld {
  readonly clock = new VirtualClock()
  readonly #network: MemoryNetwork
  readonly #random = new SeededRandom(1n)
  readonly cluster: Cluster
  #broker: EmbeddedBroker | undefined

  constructor() {
    this.#network = new MemoryNetwork({ clock: this.clock, random: this.#random })
    this.cluster = new Cluster(this.env('client'), { bootstrap: ['b:9092'] })
  }

  get broker(): EmbeddedBroker {
    assert(this.#broker)
    return this.#broker
  }

  env(node: string): Env {
    return {
      clock: this.clock,
      random: this.#random,
      net: this.#network.node(node),
      cpu: simulatedCpu(this.clock, this.#random),
      log: silentLog
    }
  }

  async start(options: BrokerOptions = {}): Promise<this> {
    const starting = startBroker(
      { env: this.env('b'), store: new MemoryStore() },
      { host: 'b', port: 9092, topics: { t: 2 }, autoCreateTopics: false, ...options }
    )
    this.#broker = await this.clock.play(starting)
    return this
  }

  member(options: Partial<GroupOptions<Buffer, string>> = {}): Watched {
    const consumer = new Consumer<Buffer, string>(this.cluster, {
      group: 'g',
      topics: ['t'],
      value: string,
      // What the tests look at are its heartbeats; by itself a consumer would take the controller's.
      protocol: 'consumer',
      ...options
    })
    return new Watched(this.clock, consumer)
  }

  alone(options: Partial<AssignOptions<Buffer, string>> = {}): Watched {
    const assign = [{ topic: 't', partition: 0, offset: 0 }]
    const consumer = new Consumer<Buffer, string>(this.cluster, {
      assign,
      value: string,
      ...options
    })
    return new Watched(this.clock, consumer)
  }

  /** 'p-0', 'p-1', … as one batch. */
  async produce(partition: number, from: number, count: number, topic = 't'): Promise<void> {
    const builder = new BatchBuilder({ maxBytes: 2 ** 20 })
    for (let i = from; i < from + count; i++) {
      builder.append(this.clock.now(), null, Buffer.from(`${partition}-${i}`))
    }
    const { bytes } = builder.close({}, this.cluster.env.cpu)
    const work = async () => {
      const { topicId } = await this.cluster.topic(topic)
      const partitionData = [{ index: partition, records: bytes }]
      const { responses } = await this.cluster.request(
        Produce,
        { acks: -1, timeoutMs: 1_000, topicData: [{ name: topic, topicId, partitionData }] },
        { to: { leader: { topic, partition } } }
      )
      const { errorCode = -1 } = responses[0]?.partitionResponses[0] ?? {}
      // The leader may have just moved.
      if (isRetriable(errorCode)) return new Again(answerError(errorCode, 'produce'))
      assert.equal(errorCode, 0)
      return undefined
    }
    await this.clock.play(this.cluster.retrying({}, work))
  }

  async createTopic(name: string): Promise<void> {
    const topics = [{ name, numPartitions: 1, replicationFactor: 1, assignments: [], configs: [] }]
    await this.clock.play(this.cluster.request(CreateTopics, { topics }))
  }

  /** Ends everything, and shows that nothing is left behind. */
  async end(...consumers: readonly Watched[]): Promise<void> {
    for (const { consumer } of consumers) await this.clock.play(consumer.close())
    await this.clock.play(this.cluster.close())
    await this.clock.play(this.broker.close())
    await this.clock.advance(1)
    assert.equal(this.clock.pending, 0, 'no timer is left')
    for (const watched of consumers) assert.ok(watched.seen.length === 0 || watched.ended)
  }
}

export function numbered(partition: number, from: number, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${partition}-${from + i}`)
}
