/** The embedded broker: a Kafka broker in this process, for tests, for development, for small things. */
import { randomBytes } from 'node:crypto'
import { crc32c } from '@node-rs/crc32'
import type { Cpu, Env, Log } from './base/env.ts'
import { nodeEnv } from './base/node/env.ts'
import { type BrokerOptions, type EmbeddedBroker, startBroker } from './broker/broker.ts'
import { MemoryStore } from './store/memory.ts'

export type { BrokerOptions } from './broker/broker.ts'

export interface StartOptions extends BrokerOptions {
  readonly log?: Log
  readonly env?: Env
}

const interim = {
  crc32c: (bytes: Uint8Array, seed?: number) => crc32c(bytes, seed),
  randomBytes: (length: number) => randomBytes(length)
} as unknown as Cpu

export type Broker = EmbeddedBroker
export const Broker = {
  /** Starts a broker: in memory, at a free loopback port, unless the options say otherwise. */
  start(options: StartOptions = {}): Promise<Broker> {
    const env = options.env ?? nodeEnv({ cpu: interim, ...(options.log && { log: options.log }) })
    return startBroker({ env, store: new MemoryStore() }, options)
  }
}
