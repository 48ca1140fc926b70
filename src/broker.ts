/** The embedded broker: a Kafka broker in this process, for tests, for development, for small things. */
import type { Log } from './base/env.ts'
import { PlayheadError } from './base/error.ts'
import { isLoopback } from './base/loopback.ts'
import { Secret } from './base/secret.ts'
import { nodeCpu } from './base/node/cpu.ts'
import { nodeFiles } from './base/node/files.ts'
import { nodeEnv } from './base/node/env.ts'
import {
  asksWho,
  type Broker as RunningBroker,
  type BrokerOptions,
  startBroker
} from './broker/broker.ts'
import { credentialText, type ScramCredential } from './broker/sasl/users.ts'
import type { ScramMechanism } from './rpc/sasl/scram-keys.ts'
import { JournalStore } from './store/journal.ts'
import { MemoryStore } from './store/memory.ts'

export type { ScramMechanism } from './rpc/sasl/scram-keys.ts'
export type { Log, LogFields, TlsOptions } from './base/env.ts'
export type { Broker as RunningBroker, BrokerOptions } from './broker/broker.ts'
export type { TokenIdentity, TokenValidator } from './broker/sasl/oauthbearer.ts'
export type { BrokerMechanism, BrokerSaslOptions } from './broker/sasl/options.ts'
export type { ScramCredential, UserOptions, UserSecret } from './broker/sasl/users.ts'
export { Secret } from './base/secret.ts'
export type { Control, Fault, Filter, Rule, SeenRequest } from './broker/control.ts'
export type { MaxVersions } from './broker/dispatch.ts'
export type { GroupSettings } from './broker/group-configs.ts'
export { KafkaError, type KafkaErrorName } from './protocol/errors.ts'

/** What `Broker.start` takes. Without any option: one broker at a free loopback port, that keeps everything in memory. */
export interface StartOptions extends BrokerOptions {
  /** Where everything is kept, made when it isn't there. Default: nowhere, it is in memory and ends with the broker. */
  readonly dataDir?: string | undefined
  /**
   * When something is acknowledged. 'fsync': it survives a power loss; 'os': it survives the end of this process,
   * however sudden, as Apache Kafka by default. Default 'fsync'; in memory there is neither.
   */
  readonly durability?: 'fsync' | 'os' | undefined
  /** Must be true for a `host` that others than this machine reach, where nobody has to show who they are (`sasl`, `tls.ca`). */
  readonly open?: boolean | undefined
  /** Takes what the broker has to say. Default: warnings and errors go to standard error. */
  readonly log?: Log | undefined
}

/**
 * What a broker keeps of a password for SCRAM: for `sasl.users`, so that the password itself need not lie anywhere. Kafka
 * stores the same, and takes it by `kafka-storage format --add-scram`.
 * @param iterations How hard guessing is for who steals it, 4,096 to 1,000,000. Default 4,096, as Kafka.
 * @throws PlayheadError INVALID_ARGUMENT.
 */
export function scramCredential(
  mechanism: ScramMechanism,
  password: string | Secret,
  iterations?: number
): Promise<ScramCredential> {
  const secret = typeof password === 'string' ? new Secret(password) : password
  return credentialText(nodeCpu(), mechanism, secret, iterations)
}

/** A running broker. A type and a value of one name, each declared here: a bundler of declarations keeps both only so. */
type Broker = RunningBroker

/** Starts brokers: `await using broker = await Broker.start()`. */
const Broker = {
  /**
   * Starts a broker, in memory and at a free loopback port unless the options say otherwise.
   * @throws PlayheadError INVALID_ARGUMENT when it can't listen there, STORAGE_FAILED when the directory is not to be had,
   * in use, or damaged. What had been opened by then is closed.
   */
  async start(options: StartOptions = {}): Promise<Broker> {
    const { log, dataDir, durability = 'fsync', host = '127.0.0.1' } = options
    if (!isLoopback(host) && options.open !== true && !asksWho(options)) {
      const message = `at ${host} anyone may read, write and rewind everything: ask who they are with \`sasl\` or \`tls.ca\`, or say \`open: true\` if that is meant`
      throw new PlayheadError('INVALID_ARGUMENT', message)
    }
    const env = nodeEnv({ cpu: nodeCpu(), ...(log && { log }) })
    if (dataDir === undefined) return startBroker({ env, store: new MemoryStore() }, options)
    const files = nodeFiles(dataDir)
    const store = await JournalStore.open({ files, cpu: env.cpu, log: env.log, durability })
    env.log.info('the data directory is open', { dataDir, durability })
    return startBroker({ env, store }, options)
  }
}
export { Broker }
