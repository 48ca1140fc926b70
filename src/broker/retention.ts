/**
 * What a log loses with time: by retention, whole stretches at its beginning; by compaction, what has a newer record.
 * Also who is forgotten: producers and transactional ids that nobody used for long.
 */
import type { Timer } from '../base/env.ts'
import { Changes } from '../base/store.ts'
import type { Topic } from './catalog.ts'
import type { BrokerCluster } from './cluster.ts'
import { compact, compactionEnd, isDirty } from './compaction.ts'
import type { Partition } from './partition.ts'
import { listOf } from './topic-configs.ts'

/** As Kafka's `producer.id.expiration.ms`. */
const producerForgottenMs = 86_400_000

export class Retention {
  readonly #cluster: BrokerCluster
  readonly #everyMs: number
  #timer: Timer | undefined
  #sweeping: Promise<void> | undefined
  #closed = false

  constructor(cluster: BrokerCluster, everyMs: number) {
    this.#cluster = cluster
    this.#everyMs = everyMs
  }

  start(): void {
    if (this.#closed) return
    this.#timer = this.#cluster.env.clock.after(this.#everyMs, () => {
      this.sweep().then(
        () => this.start(),
        (error: unknown) => {
          this.#cluster.env.log.error('retention failed, and is tried again later', { error })
          this.start()
        }
      )
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#timer?.cancel()
    await this.#sweeping?.catch(() => {})
  }

  /** Goes over all partitions once; joins a sweep under way. */
  sweep(): Promise<void> {
    this.#sweeping ??= this.#sweep().finally(() => {
      this.#sweeping = undefined
    })
    return this.#sweeping
  }

  async #sweep(): Promise<void> {
    const { catalog, store, transactions, env } = this.#cluster
    const changes = new Changes()
    transactions.expire(changes)
    for (const topic of catalog.topics.values()) {
      for (const partition of topic.partitions) {
        partition.producers.expire(env.clock.now() - producerForgottenMs, changes)
        if (isDeleted(topic)) this.#retain(partition, topic, changes)
      }
    }
    await store.commit(changes)
    for (const topic of catalog.topics.values()) {
      if (!topic.compacted) continue
      for (const partition of topic.partitions) await this.#compact(partition, topic)
    }
  }

  #retain(partition: Partition, topic: Topic, changes: Changes): void {
    const { log, highWatermark } = partition
    const ms = topic.number('retention.ms')
    const bytes = topic.number('retention.bytes')
    const byTime = ms < 0 ? 0 : log.cutByTime(this.#cluster.env.clock.now() - ms, highWatermark)
    const bySize = bytes < 0 ? 0 : log.cutBySize(bytes, highWatermark)
    partition.cut(Math.max(byTime, bySize), changes)
  }

  async #compact(partition: Partition, topic: Topic): Promise<void> {
    const { env, store, catalog } = this.#cluster
    if (this.#closed) return
    const end = compactionEnd(partition, topic, env.clock.now())
    if (!isDirty(partition, topic, end)) return
    const exists = () =>
      !this.#closed && catalog.partition(topic.name, partition.index) === partition
    try {
      await compact(partition, topic, { env, store, exists })
    } catch (error) {
      const { name } = topic
      env.log.error('a partition could not be compacted', {
        topic: name,
        partition: partition.index,
        error
      })
    }
  }
}

function isDeleted(topic: Topic): boolean {
  return listOf(topic.config('cleanup.policy')).includes('delete')
}
