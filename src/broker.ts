/** The embedded broker: a Kafka broker in this process, for tests, for development, for small things. */
import type { Env, Log } from './base/env.ts'
import { nodeCpu } from './base/node/cpu.ts'
import { nodeEnv } from './base/node/env.ts'
import { type BrokerOptions, type EmbeddedBroker, startBroker } from './broker/broker.ts'
import { MemoryStore } from './store/memory.ts'

export type { BrokerOptions } from './broker/broker.ts'

export interface StartOptions extends BrokerOptions {
  readonly log?: Log
  readonly env?: Env
}

export type Broker = EmbeddedBroker
export const Broker = {
  /** Starts a broker: in memory, at a free loopback port, unless the options say otherwise. */
  start(options: StartOptions = {}): Promise<Broker> {
    const env = options.env ?? nodeEnv({ cpu: nodeCpu(), ...(options.log && { log: options.log }) })
    return startBroker({ env, store: new MemoryStore() }, options)
  }
}
