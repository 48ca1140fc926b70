/**
 * What all brokers of the cluster share, as they are one process: the store, the catalog of topics, and who
 * leads what. A `Server` per broker takes the connections; handlers get this by their context.
 */
import { BufferPool } from '../base/buffer-pool.ts'
import type { Env, Timer } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import { Changes, type Store } from '../base/store.ts'
import { KafkaError } from '../protocol/errors.ts'
import type { Api, RequestRead } from '../protocol/schema.ts'
import { Catalog, catalogLog, catalogTopics } from './catalog.ts'
import { Faults } from './control.ts'
import { type Coordinated, Coordinators } from './coordinators.ts'
import { errorAnswer } from './error-answer.ts'
import { FetchSessions } from './fetch-sessions.ts'
import type { GroupSettings } from './group-configs.ts'
import { GroupHost } from './group-host.ts'
import { GuardedStore } from './guarded-store.ts'
import type { Context, Dispatch, Handler, Reply } from './handler.ts'
import { spaces } from './keys.ts'
import { keptAnswerBytes } from './limits.ts'
import type { Partition } from './partition.ts'
import { RequestMemory } from './request-memory.ts'
import type { ShiftedClock } from './shifted-clock.ts'
import { Transactions } from './transactions.ts'
import { Authenticator } from './sasl/authentication.ts'
import type { SaslSettings } from './sasl/options.ts'
import { isRewind } from './sasl/rights.ts'
import { StoredCluster, readStored, writeStored } from './stored.ts'

/** One broker of the cluster. */
export interface BrokerNode {
  /** From 1 on. */
  readonly id: number
  readonly host: string
  readonly port: number
  /** Whether its listener is open: a stopped one leads nothing that clients can reach. */
  readonly up: boolean
}

export interface ClusterSettings {
  readonly autoCreateTopics: boolean
  readonly defaultPartitions: number
  readonly groups: GroupSettings
  /** Of one broker. */
  readonly maxConnections: number
  /** Null: nobody is asked who they are. */
  readonly sasl: SaslSettings | null
}

export interface BrokerClusterOptions {
  readonly env: Env & { readonly clock: ShiftedClock }
  readonly store: Store
  readonly dispatch: Dispatch
  readonly settings: ClusterSettings
}

/** Partitions that got a new leader, and in which epoch. */
type Elections = ReadonlyMap<Partition, number>

const clusterKey = Buffer.from([spaces.meta, 0])

/** Producer ids are stored in blocks of so many, so that giving one out seldom waits for the store. */
const producerIdBlock = 1000n

/** All that is in memory of what is stored. */
interface State {
  readonly catalog: Catalog
  readonly groups: GroupHost
  readonly transactions: Transactions
}

/** A store that will not write again is asked so often whether it does, and read in the meantime. */
const repairEveryMs = 1_000

export class BrokerCluster {
  readonly env: Env
  readonly store: GuardedStore
  readonly dispatch: Dispatch
  readonly settings: ClusterSettings
  readonly authenticator: Authenticator | null
  readonly control: Faults
  readonly requests = new RequestMemory()
  /** Memory that answers are made of. */
  readonly answers = new BufferPool(keptAnswerBytes)
  readonly clusterId: string
  /** By id, in rising order. */
  readonly nodes = new Map<number, BrokerNode>()
  readonly coordinators = new Coordinators(this.nodes)
  readonly #fetchSessions = new Map<number, FetchSessions>()
  #isOpen = false
  #opened: () => void = () => {}
  readonly #opening = new Promise<void>(resolve => {
    this.#opened = () => {
      this.#isOpen = true
      resolve()
    }
  })
  #state: State
  #repairing: Timer | undefined
  #connectionIds = 0
  #nextProducerId: bigint
  #storedProducerId: bigint

  constructor(options: BrokerClusterOptions) {
    const { env, store } = options
    this.env = env
    this.store = new GuardedStore(store, error => this.#storeFailed(error))
    this.dispatch = options.dispatch
    this.settings = options.settings
    const { sasl } = options.settings
    this.authenticator = sasl && new Authenticator(env, sasl)
    this.control = new Faults(env.clock, id => this.catalog.topicById(id)?.name)
    this.#state = this.#newState()
    const stored = store.get(clusterKey)
    const known = stored === undefined ? undefined : readStored(StoredCluster, stored)
    this.clusterId = known?.clusterId ?? env.cpu.randomBytes(16).toString('base64url')
    this.#nextProducerId = known?.nextProducerId ?? 0n
    this.#storedProducerId = this.#nextProducerId
  }

  get catalog(): Catalog {
    return this.#state.catalog
  }

  get groups(): GroupHost {
    return this.#state.groups
  }

  get transactions(): Transactions {
    return this.#state.transactions
  }

  /** Takes in what is stored; at once, so that no request sees a part of it. */
  load(): void {
    const { catalog, groups, transactions } = this.#state
    catalog.load()
    for (const { name, partitions } of catalog.topics.values()) {
      for (const { index, log } of partitions) {
        if (!log.damaged) continue
        const where = { topic: name, partition: index }
        this.env.log.error('a partition is damaged: it can be read around the damage only', where)
      }
    }
    groups.load()
    // Last: it may end a transaction whose time is up, with its markers and offsets.
    transactions.load()
    catalog.watch(({ created, grown, deleted }) => {
      const topic = created ?? grown ?? deleted
      if (topic !== undefined) groups.topicChanged(topic, deleted !== undefined)
    })
  }

  /** The brokers are there: every partition gets a leader, and requests that came meanwhile are handled. */
  async open(): Promise<void> {
    const changes = new Changes()
    this.#reserveProducerIds(changes)
    const elected = this.elect(changes)
    await this.store.commit(changes)
    for (const [partition, epoch] of elected) partition.led(epoch)
    this.#opened()
  }

  close(): Promise<void> {
    this.#repairing?.cancel()
    this.control.close()
    this.#end(this.#state)
    return this.store.close()
  }

  #newState(): State {
    const { env, store } = this
    const catalog = new Catalog(store, env.cpu)
    const topics = catalogTopics(catalog)
    const log = (topic: string, partition: number) => catalogLog(catalog, topic, partition)
    const groups = new GroupHost({ env, store, topics, log, settings: this.settings.groups })
    const transactions = new Transactions({
      env,
      store,
      catalog,
      newProducerId: changes => this.newProducerId(changes),
      offsets: groups
    })
    groups.admit = commit => transactions.admitOffsets(commit)
    return { catalog, groups, transactions }
  }

  #end({ groups, transactions }: State): void {
    groups.close()
    transactions.close()
  }

  /** A commit failed: what is in memory is given up for what is stored, as if the process had begun again. */
  #storeFailed(error: PlayheadError): void {
    this.env.log.error('a write to the store failed: what is stored is read anew', { error })
    const delayMs = error.retriable ? 0 : repairEveryMs
    this.#repairing = this.env.clock.after(delayMs, () => {
      const before = this.#state
      this.#end(before)
      this.#state = this.#newState()
      this.store.repaired()
      this.load()
      const changes = new Changes()
      // When it fails again, this is tried again.
      this.#store(this.elect(changes), changes).catch(() => {})
      // Who waits at a partition looks at its successor.
      for (const { partitions } of before.catalog.topics.values()) {
        for (const partition of partitions) partition.changed()
      }
    })
  }

  /** The broker that is shown as the controller: all are one process, so any may be. */
  get controllerId(): number {
    for (const { id, up } of this.nodes.values()) if (up) return id
    return -1
  }

  /** The fetch sessions of one broker. */
  fetchSessions(node: number): FetchSessions {
    let sessions = this.#fetchSessions.get(node)
    if (sessions === undefined) {
      sessions = new FetchSessions(this.env.random)
      this.#fetchSessions.set(node, sessions)
    }
    return sessions
  }

  nextConnectionId(): number {
    return ++this.#connectionIds
  }

  /** An id that no producer ever had, once `changes` are stored. */
  newProducerId(changes: Changes): bigint {
    const id = this.#nextProducerId++
    if (id >= this.#storedProducerId) this.#reserveProducerIds(changes)
    return id
  }

  /** Whether a request's memory may be used again once it is answered. */
  letsGo({ letsGo }: Handler): boolean {
    return letsGo === true && !this.store.keepsValues && !this.control.hasRules
  }

  /** Every request passes here on its way from a connection to its handler. */
  answer(
    handler: Handler,
    request: RequestRead<Api>,
    context: Context
  ): Reply<Api> | Promise<Reply<Api>> {
    if (!this.#isOpen) return this.#opening.then(() => this.answer(handler, request, context))
    const { authentication } = context.connection
    if (authentication !== null && !authentication.mayRewind && isRewind(handler.api, request)) {
      const code = KafkaError.GROUP_AUTHORIZATION_FAILED
      return errorAnswer(handler.api, context.version, request, code)
    }
    const reply = this.control.handle(handler, request, context)
    if (!(reply instanceof Promise)) return reply
    return reply.catch((error: unknown) => {
      if (!(error instanceof PlayheadError && error.code === 'STORAGE_FAILED')) throw error
      const { api } = handler
      const coordinated = api.to === 'group' || api.to === 'transaction'
      const { COORDINATOR_NOT_AVAILABLE, KAFKA_STORAGE_ERROR } = KafkaError
      const code = coordinated ? COORDINATOR_NOT_AVAILABLE : KAFKA_STORAGE_ERROR
      return errorAnswer(api, context.version, request, code)
    })
  }

  /** Replicas for `count` partitions more, each list beginning with the leader, spread over the brokers. */
  assign(count: number, replicationFactor: number, firstIndex = 0): number[][] {
    const up = [...this.nodes.values()].filter(node => node.up).map(node => node.id)
    const ids = up.length >= replicationFactor ? up : [...this.nodes.keys()]
    const shift = firstIndex + Math.floor(this.env.random.next() * ids.length)
    return Array.from({ length: count }, (_, index) =>
      Array.from(
        { length: replicationFactor },
        (_, replica) => ids[(shift + index + replica) % ids.length] as number
      )
    )
  }

  /** As many replicas as Kafka would like, three, where there are as many brokers. */
  get defaultReplicationFactor(): number {
    return Math.min(3, this.nodes.size)
  }

  /** Gives every partition a leader that is up, where its own is not, as far as there is one among its replicas. */
  elect(changes: Changes): Elections {
    const elected = new Map<Partition, number>()
    const up = (id: number) => this.nodes.get(id)?.up ?? false
    for (const { partitions } of this.catalog.topics.values()) {
      for (const partition of partitions) {
        if (up(partition.nextLeader)) continue
        // With fewer brokers than before the replicas may all be gone, but not the data: it is in this process.
        const known = partition.replicas.some(id => this.nodes.has(id))
        const candidates = known ? partition.replicas : [...this.nodes.keys()]
        const leader = candidates.find(up) ?? -1
        if (leader !== partition.nextLeader) elected.set(partition, partition.lead(leader, changes))
      }
    }
    return elected
  }

  /** They lead once it is stored that they do. */
  async #store(elected: Elections, changes: Changes): Promise<void> {
    if (!changes.empty) await this.store.commit(changes)
    for (const [partition, epoch] of elected) partition.led(epoch)
  }

  /** Moves a partition to another leader, as an election would. */
  async moveLeader(topic: string, index: number, node: number): Promise<void> {
    const partition = this.catalog.partition(topic, index)
    if (partition === undefined) {
      throw new PlayheadError('UNKNOWN_PARTITION', `there is no ${topic}-${index} to move`)
    }
    this.#checkNode(node)
    const changes = new Changes()
    await this.#store(new Map([[partition, partition.lead(node, changes)]]), changes)
  }

  moveCoordinator(kind: Coordinated, name: string, node: number): void {
    this.#checkNode(node)
    this.coordinators.move(kind, name, node)
  }

  /** A broker's listener was opened, or closed: what it led goes to others. */
  async setNode(node: BrokerNode): Promise<void> {
    this.nodes.set(node.id, node)
    const changes = new Changes()
    await this.#store(this.elect(changes), changes)
  }

  #checkNode(id: number): void {
    if (this.nodes.has(id)) return
    const known = [...this.nodes.keys()].join(', ')
    throw new PlayheadError('INVALID_ARGUMENT', `there is no broker ${id}, only ${known}`)
  }

  /** Who leads, for a client that asked the wrong broker; not in versions that have no place for it. */
  leaderHint(partition: Partition, isKnown: boolean) {
    const { leader: leaderId, leaderEpoch } = partition
    return isKnown ? { currentLeader: { leaderId, leaderEpoch } } : {}
  }

  /** The addresses of the leaders that answers hint at, each once (KIP-951). */
  endpointsOf(
    answers: Iterable<{
      readonly currentLeader?: { readonly leaderId?: number | undefined } | undefined
    }>
  ) {
    const ids = new Set<number>()
    for (const { currentLeader } of answers)
      if (currentLeader?.leaderId) ids.add(currentLeader.leaderId)
    const found = []
    for (const nodeId of ids) {
      const node = this.nodes.get(nodeId)
      if (node !== undefined) found.push({ nodeId, host: node.host, port: node.port, rack: null })
    }
    return found
  }

  #reserveProducerIds(changes: Changes): void {
    this.#storedProducerId = this.#nextProducerId + producerIdBlock
    const { clusterId } = this
    const value = writeStored(StoredCluster, { clusterId, nextProducerId: this.#storedProducerId })
    changes.put(clusterKey, value)
  }
}
