/**
 * A client of one Kafka cluster: what producers, consumers and admins share. It connects when first used.
 * `Playhead` of the package's entry is this with the real world given to it.
 */
import type { Env } from '../base/env.ts'
import { Cluster } from '../rpc/cluster.ts'
import type { ClusterOptions } from '../rpc/options.ts'
import { Admin } from './admin/admin.ts'
import { Consumer } from './consumer/consumer.ts'
import type { ConsumerOptions } from './consumer/options.ts'
import { Pipeline, type PipelineOptions, type Transform } from './pipeline.ts'
import type { ProducerOptions } from './producer/options.ts'
import { Producer } from './producer/producer.ts'
import type { BytesInput } from './producer/record.ts'

/** A client of one Kafka cluster, in the world that it is given. `Playhead` is one in the real world. */
export class Client implements AsyncDisposable {
  /** The low-level RPC API: any request to a broker, a leader, a coordinator, the controller. */
  readonly cluster: Cluster

  /** Throws INVALID_ARGUMENT. Connects when first used. */
  constructor(env: Env, options: ClusterOptions) {
    this.cluster = new Cluster(env, options)
  }

  /** A producer: idempotent, and to all replicas, unless the options say otherwise. */
  producer<K = BytesInput, V = BytesInput>(options: ProducerOptions<K, V> = {}): Producer<K, V> {
    return new Producer(this.cluster, options)
  }

  /** A consumer: in a group, or of the partitions that it is given. Joins when its first record is asked for. */
  consumer<K = Buffer, V = Buffer>(options: ConsumerOptions<K, V>): Consumer<K, V> {
    return new Consumer(this.cluster, options, () => this.producer())
  }

  /**
   * Reads a group's topics, and writes what `transform` makes of the records, each exactly once: results and offsets
   * are one transaction. Does nothing before its `run` is called.
   */
  pipeline<K = Buffer, V = Buffer, OK = BytesInput, OV = BytesInput>(
    options: PipelineOptions<K, V, OK, OV>,
    transform: Transform<K, V, NoInfer<OK>, NoInfer<OV>>
  ): Pipeline<K, V, OK, OV> {
    const { from, to, maxRecords, transactionTimeoutMs = 30_000 } = options
    const { env } = this.cluster
    const id = () => `${from.group}-${env.cpu.randomBytes(9).toString('base64url')}`
    const { transactionalId = id() } = options
    const reader = this.consumer<K, V>({ ...from, commit: 'manual' })
    const writer = this.producer<OK, OV>({ ...to, transactionalId, transactionTimeoutMs })
    return new Pipeline(env, reader, writer, transform, maxRecords)
  }

  /** Topics, groups, offsets, and the rewinding of live groups. Needs no close of its own. */
  admin(): Admin {
    return new Admin(this.cluster)
  }

  /** Closes the connections. Producers and consumers that are still open end with CLOSED. */
  async close(): Promise<void> {
    await this.cluster.close()
  }

  /** The same as `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
