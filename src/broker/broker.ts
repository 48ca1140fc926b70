/**
 * A running embedded broker: one process that is one or several brokers of a cluster. It owns the listeners
 * and the store, and ends them all.
 */
import type { Env, TlsOptions } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import { isLoopback } from '../base/loopback.ts'
import { Changes, type Store } from '../base/store.ts'
import { topicNameFault } from './catalog.ts'
import { BrokerCluster, type BrokerNode } from './cluster.ts'
import type { Control } from './control.ts'
import { type MaxVersions, dispatchTable } from './dispatch.ts'
import type { GroupSettings } from './group-configs.ts'
import { Retention } from './retention.ts'
import { connectionCount } from './limits.ts'
import { type BrokerSaslOptions, readSasl } from './sasl/options.ts'
import { Server } from './server.ts'
import { ShiftedClock } from './shifted-clock.ts'

/** What a broker is started with. All of it may be left out. */
export interface BrokerOptions {
  /** Address to listen at. Default 127.0.0.1: anyone who reaches a broker may read, write and rewind all of it. */
  readonly host?: string | undefined
  /** Port of the first broker; the others take the ports after it. Default 0: free ones. */
  readonly port?: number | undefined
  /** How many brokers this process is. Default 1. */
  readonly brokers?: number | undefined
  /** Topics that are there from the start, with their number of partitions. */
  readonly topics?: { readonly [topic: string]: number } | undefined
  /** Whether a client's metadata request creates the topic that it names. Default true, as Kafka. */
  readonly autoCreateTopics?: boolean | undefined
  /** Partitions of a topic that is created without saying how many. Default 1. */
  readonly defaultPartitions?: number | undefined
  /** Highest version to speak of an API, by name, to play an older Kafka; -1 leaves the API out. */
  readonly maxVersions?: MaxVersions | undefined
  /** Timeouts and limits of consumer groups, where Kafka's own defaults don't fit a test. */
  readonly groups?: GroupSettings | undefined
  /** Connections of one broker at a time; more are refused. Default 1,000: see SECURITY.md before you raise it. */
  readonly maxConnections?: number | undefined
  /** Speaks TLS, with this certificate and key, on every listener. Default: plaintext. */
  readonly tls?: TlsOptions | undefined
  /** Who may come in, by which SASL mechanism, on every listener. Default: nobody is asked. */
  readonly sasl?: BrokerSaslOptions | undefined
  /** What clients are told to dial, where it is not `host`: a name that the certificate has, or that others can reach. */
  readonly advertisedHost?: string | undefined
  /** How often retention and compaction go over the logs, in ms. Default 300,000, as Kafka's log.retention.check.interval.ms. */
  readonly retentionCheckMs?: number | undefined
}

const loopback = '127.0.0.1'

/** Whether clients have to show who they are: by SASL, or by a certificate. */
export function asksWho({ sasl, tls }: BrokerOptions): boolean {
  const authorities = tls?.ca ?? tls?.caFile
  return sasl !== undefined || (authorities !== undefined && tls?.insecure !== true)
}

export interface World {
  readonly env: Env
  /** Closed with the broker. */
  readonly store: Store
}

/** Starts the brokers; rejects when an address is not to be had, and then has closed all it opened. */
export async function startBroker(
  world: World,
  options: BrokerOptions = {}
): Promise<EmbeddedBroker> {
  const { host = loopback, tls, sasl } = options
  const { store } = world
  const env = { ...world.env, clock: new ShiftedClock(world.env.clock) }
  const cluster = new BrokerCluster({
    env,
    store,
    dispatch: dispatchTable(options.maxVersions),
    settings: {
      autoCreateTopics: options.autoCreateTopics ?? true,
      defaultPartitions: options.defaultPartitions ?? 1,
      groups: options.groups ?? {},
      maxConnections: options.maxConnections ?? connectionCount,
      sasl: sasl === undefined ? null : readSasl(env, sasl, tls !== undefined || isLoopback(host))
    }
  })
  const broker = new EmbeddedBroker(cluster, options)
  try {
    await broker.open()
  } catch (error) {
    // Why it does not start is what the caller must hear, also when closing fails for the same reason.
    await broker.close().catch((closing: unknown) => {
      env.log.warn('a broker that did not start could not be closed', { error: closing })
    })
    throw error
  }
  return broker
}

/**
 * A broker that runs in this process. Brokers are numbered from 1; all of them share one store and one set of topics, so
 * that a partition or a group can move between them at once. Any Kafka client may use it. Close it, or declare it with
 * `await using`.
 */
export interface Broker extends AsyncDisposable {
  /** Addresses of the brokers whose listeners are open: ['127.0.0.1:43211', …]. What a client's `bootstrap` takes. */
  readonly bootstrap: readonly string[]
  /** What the brokers tell clients as the cluster's id. Kept in the data directory. */
  readonly clusterId: string
  /** Faults for tests: what requests meet on their way to their handlers. */
  readonly control: Control

  /**
   * Lets broker `node` lead the partition, as after an election: the leader epoch rises, and the leader before answers
   * NOT_LEADER_OR_FOLLOWER. Resolves once that is stored.
   * @throws PlayheadError UNKNOWN_PARTITION, or INVALID_ARGUMENT when there is no such broker.
   */
  moveLeader(topic: string, partition: number, node: number): Promise<void>
  /**
   * Lets broker `node` coordinate the group, at once. Its members get NOT_COORDINATOR from the one before.
   * @throws PlayheadError INVALID_ARGUMENT when there is no such broker.
   */
  moveController(group: string, node: number): void
  /** The same for the coordinator of a transactional id. */
  moveTransactionCoordinator(transactionalId: string, node: number): void
  /** Applies retention and compaction now, without waiting for their time (`retentionCheckMs`). */
  retain(): Promise<void>
  /** Ends connections of broker `node`, or of all: in order, or with `reset` hard. Clients may connect again at once. */
  closeConnections(options?: {
    readonly node?: number | undefined
    readonly reset?: boolean | undefined
  }): void
  /**
   * The broker goes: its port closes, its connections end, what it led and coordinated goes to the others. Does nothing
   * when it is stopped already.
   * @throws PlayheadError INVALID_ARGUMENT when there is no such broker.
   */
  stopListener(node: number): Promise<void>
  /**
   * The broker comes back, at the port it had. It leads again only what nobody else does.
   * @throws PlayheadError INVALID_ARGUMENT when there is no such broker, or its port has been taken meanwhile.
   */
  startListener(node: number): Promise<void>
  /** Ends every connection, stores what is under way, and frees every timer, socket and file. Always ends; may be repeated. */
  close(): Promise<void>
}

/** What `startBroker` makes of the ports; `Broker` says what its members are. */
export class EmbeddedBroker implements Broker {
  readonly #cluster: BrokerCluster
  readonly #options: BrokerOptions
  readonly #servers = new Map<number, Server>()
  /** By node: its listener stops and starts one after the other. */
  readonly #turns = new Map<number, Promise<void>>()
  readonly #retention: Retention
  #closing: Promise<void> | undefined

  /** Use `startBroker`. */
  constructor(cluster: BrokerCluster, options: BrokerOptions) {
    this.#cluster = cluster
    this.#options = options
    this.#retention = new Retention(cluster, options.retentionCheckMs ?? 300_000)
  }

  get bootstrap(): readonly string[] {
    const open = [...this.#cluster.nodes.values()].filter(node => node.up)
    return open.map(({ host, port }) =>
      host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
    )
  }

  get clusterId(): string {
    return this.#cluster.clusterId
  }

  get control(): Control {
    return this.#cluster.control
  }

  moveLeader(topic: string, partition: number, node: number): Promise<void> {
    return this.#cluster.moveLeader(topic, partition, node)
  }

  moveController(group: string, node: number): void {
    this.#cluster.moveCoordinator('group', group, node)
  }

  moveTransactionCoordinator(transactionalId: string, node: number): void {
    this.#cluster.moveCoordinator('transaction', transactionalId, node)
  }

  retain(): Promise<void> {
    return this.#retention.sweep()
  }

  closeConnections(options: Parameters<Broker['closeConnections']>[0] = {}): void {
    for (const server of this.#servers.values()) {
      if (options.node === undefined || options.node === server.node) {
        server.closeConnections(options.reset)
      }
    }
  }

  stopListener(node: number): Promise<void> {
    return this.#inTurn(node, async () => {
      const { server, at } = this.#serverOf(node)
      if (!at.up) return
      await this.#cluster.setNode({ ...at, up: false })
      await server.close()
    })
  }

  startListener(node: number): Promise<void> {
    return this.#inTurn(node, async () => {
      const { server, at } = this.#serverOf(node)
      if (at.up) return
      if (this.#closing !== undefined) throw new PlayheadError('CLOSED', 'the broker was closed')
      await server.listen(this.#options.host ?? loopback, at.port, this.#options.tls)
      await this.#cluster.setNode({ ...at, up: true })
    })
  }

  /** A start that overtakes the stop before it would open what that then closes, and it would stay closed. */
  #inTurn(node: number, work: () => Promise<void>): Promise<void> {
    const turn = (this.#turns.get(node) ?? Promise.resolve()).then(work, work)
    this.#turns.set(node, turn)
    return turn
  }

  #serverOf(node: number): { readonly server: Server; readonly at: BrokerNode } {
    const server = this.#servers.get(node)
    const at = this.#cluster.nodes.get(node)
    if (server !== undefined && at !== undefined) return { server, at }
    throw new PlayheadError('INVALID_ARGUMENT', `there is no broker ${node}`)
  }

  /** Part of `startBroker`. */
  async open(): Promise<void> {
    const { host = loopback, port = 0, tls, brokers: count = 1, advertisedHost } = this.#options
    if (!Number.isInteger(count) || count < 1 || count > 100) {
      throw new PlayheadError('INVALID_ARGUMENT', `brokers is ${count}: from 1 to 100 is possible`)
    }
    this.#cluster.load()
    for (let id = 1; id <= count; id++) {
      const server = new Server(id, this.#cluster)
      this.#servers.set(id, server)
      const at = await server.listen(host, port === 0 ? 0 : port + id - 1, tls)
      const node = { id, host: advertisedHost ?? at.host, port: at.port, up: true }
      this.#cluster.nodes.set(id, node)
    }
    if (!isLoopback(host) && !asksWho(this.#options)) {
      this.#cluster.env.log.warn(
        'this broker asks nobody who they are: whoever reaches it may read, write and rewind all of it',
        { bootstrap: this.bootstrap }
      )
    }
    await this.#createTopics()
    await this.#cluster.open()
    this.#retention.start()
  }

  async #createTopics(): Promise<void> {
    const cluster = this.#cluster
    const changes = new Changes()
    for (const [name, count] of Object.entries(this.#options.topics ?? {})) {
      const wrong = topicNameFault(name)
      if (wrong !== undefined) throw new PlayheadError('INVALID_ARGUMENT', wrong)
      if (cluster.catalog.topic(name) !== undefined) continue
      const replicationFactor = cluster.defaultReplicationFactor
      const assignment = cluster.assign(count, replicationFactor)
      cluster.catalog.create({ name, assignment, replicationFactor, configs: new Map() }, changes)
    }
    if (!changes.empty) await cluster.store.commit(changes)
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(): Promise<void> {
    await Promise.all(
      [...this.#servers].map(([node, server]) => this.#inTurn(node, () => server.close()))
    )
    await this.#retention.close()
    await this.#cluster.close()
  }
}
