/** The embedded broker: a Kafka broker in this process, for tests, for development, for small things. */
import type { Log } from './base/env.ts'
import { nodeCpu } from './base/node/cpu.ts'
import { nodeFiles } from './base/node/files.ts'
import { nodeEnv } from './base/node/env.ts'
import { type BrokerOptions, type EmbeddedBroker, startBroker } from './broker/broker.ts'
import { JournalStore } from './store/journal.ts'
import { MemoryStore } from './store/memory.ts'

export type { BrokerOptions } from './broker/broker.ts'
export type { Control, Fault, Filter, Rule, SeenRequest } from './broker/control.ts'

export interface StartOptions extends BrokerOptions {
  /** Where everything is kept, made when it isn't there. Default: nowhere, it is in memory and ends with the broker. */
  readonly dataDir?: string | undefined
  /**
   * When something is acknowledged. 'fsync': it survives a power loss; 'os': it survives the end of this process,
   * however sudden, as Apache Kafka by default. Default 'fsync'; in memory there is neither.
   */
  readonly durability?: 'fsync' | 'os' | undefined
  /** Default: warnings and errors, on standard error. */
  readonly log?: Log | undefined
}

export type Broker = EmbeddedBroker
export const Broker = {
  /**
   * Starts a broker, in memory and at a free loopback port unless the options say otherwise. Rejects with
   * INVALID_ARGUMENT when it can't listen, STORAGE_FAILED when the directory is not to be had or damaged.
   */
  async start(options: StartOptions = {}): Promise<Broker> {
    const { log, dataDir, durability = 'fsync' } = options
    const env = nodeEnv({ cpu: nodeCpu(), ...(log && { log }) })
    if (dataDir === undefined) return startBroker({ env, store: new MemoryStore() }, options)
    const files = nodeFiles(dataDir)
    const store = await JournalStore.open({ files, cpu: env.cpu, log: env.log, durability })
    env.log.info('the data directory is open', { dataDir, durability })
    return startBroker({ env, store }, options)
  }
}
