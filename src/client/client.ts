/**
 * A client of one Kafka cluster: what producers, consumers and admins share. It connects when first used.
 * `Playhead` of the package's entry is this with the real world given to it.
 */
import type { Env } from '../base/env.ts'
import { Cluster } from '../rpc/cluster.ts'
import type { ClusterOptions } from '../rpc/options.ts'

export class Client implements AsyncDisposable {
  /** The low-level RPC API: any request to a broker, a leader, a coordinator, the controller. */
  readonly cluster: Cluster

  /** Throws INVALID_ARGUMENT. Connects when first used. */
  constructor(env: Env, options: ClusterOptions) {
    this.cluster = new Cluster(env, options)
  }

  /** Closes the connections. Producers and consumers that are still open end with CLOSED. */
  async close(): Promise<void> {
    await this.cluster.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
