/**
 * A broker that does what a test says, in a world of virtual time and memory: it answers ApiVersions, Metadata
 * and FindCoordinator by itself, and all else, or those too, as scripted. A script may also answer nothing,
 * or write bytes that no broker would.
 */
import assert from 'node:assert/strict'
import { pbkdf2Sync } from 'node:crypto'
import type { Cpu, Env, LogFields, Socket } from '../../src/base/env.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { MemoryNetwork } from '../../src/net/memory.ts'
import { ApiVersions } from '../../src/protocol/api/api-versions.ts'
import { FindCoordinator } from '../../src/protocol/api/find-coordinator.ts'
import { Metadata } from '../../src/protocol/api/metadata.ts'
import { apiByKey, apis } from '../../src/protocol/apis.ts'
import {
  FrameSplitter,
  decodeRequest,
  encodeResponse,
  readRequestStart
} from '../../src/protocol/frame.ts'
import type { Api, RequestRead, ResponseWritten } from '../../src/protocol/schema.ts'
import { Cluster } from '../../src/rpc/cluster.ts'
import type { ClusterOptions } from '../../src/rpc/options.ts'
import { VirtualClock } from '../../sim/world/clock.ts'
import { SeededRandom } from '../../sim/world/random.ts'

/** A request as the broker got it. */
export interface Asked<A extends Api = Api> {
  readonly api: A
  readonly version: number
  readonly correlationId: number
  readonly clientId: string | null
  readonly body: RequestRead<A>
  readonly from: FakeConnection
}

/** Undefined: no answer (now). */
type Script<A extends Api> = (
  asked: Asked<A>
) => ResponseWritten<A> | undefined | Promise<ResponseWritten<A> | undefined>

export class World {
  readonly clock = new VirtualClock()
  readonly random: SeededRandom
  readonly network: MemoryNetwork
  readonly brokers: FakeBroker[] = []
  /** Every line that was logged, as text. */
  readonly logged: string[] = []

  constructor(seed = 1) {
    this.random = new SeededRandom(seed)
    this.network = new MemoryNetwork({ clock: this.clock, random: this.random.split('network') })
  }

  env(node = 'client'): Env {
    const note = (message: string, fields?: LogFields) => {
      this.logged.push(`${message} ${fields ? Object.values(fields).map(String).join(' ') : ''}`)
    }
    const log = { debug: note, info: note, warn: note, error: note }
    const { clock, random } = this
    const cpu: Cpu = {
      ...nodeEnv().cpu,
      // Virtual time does not wait for threads.
      pbkdf2: async (algorithm, password, salt, iterations) =>
        pbkdf2Sync(password, salt, iterations, algorithm === 'sha256' ? 32 : 64, algorithm)
    }
    return { clock, random: random.split(node), net: this.network.node(node), cpu, log }
  }

  /** Brokers b0, b1, …, listening. */
  async start(count = 1): Promise<FakeBroker> {
    for (let id = 0; id < count; id++) {
      const broker = new FakeBroker(this, id)
      this.brokers.push(broker)
      await broker.listen()
    }
    const [first] = this.brokers
    assert(first)
    return first
  }

  cluster(options: Partial<ClusterOptions> = {}): Cluster {
    return new Cluster(this.env(), { bootstrap: ['b0:9092'], ...options })
  }

  /** Runs a program in virtual time, and what is left to be done of its world is nothing. */
  async play<T>(program: () => Promise<T>, withinMs = 600_000): Promise<T> {
    return await this.clock.play(program(), withinMs)
  }
}

export class FakeBroker {
  readonly id: number
  readonly connections: FakeConnection[] = []
  /** Every request that came, in order. */
  readonly asked: Asked[] = []
  /** Topics as Metadata tells them: name and the leader of each partition. */
  readonly topics = new Map<string, { id: string; leaders: number[]; epoch: number }>()
  coordinator = 0
  readonly #world: World
  readonly #scripts = new Map<number, Script<Api>>()
  #stop: (() => Promise<void>) | null = null

  constructor(world: World, id: number) {
    this.#world = world
    this.id = id
    this.on(ApiVersions, () => ({ errorCode: 0, apiKeys: everyApi }))
    this.on(Metadata, ({ body }) => this.#metadata(body.topics?.map(t => t.name ?? '') ?? null))
    this.on(FindCoordinator, ({ body: { key, coordinatorKeys }, version }) => {
      const at = {
        nodeId: this.coordinator,
        host: `b${this.coordinator}`,
        port: 9092,
        errorCode: 0
      }
      return version >= 4
        ? { coordinators: coordinatorKeys.map(k => ({ key: k, errorMessage: null, ...at })) }
        : { key, errorMessage: null, ...at }
    })
  }

  get host(): string {
    return `b${this.id}`
  }

  on<A extends Api>(api: A, script: Script<A>): this {
    this.#scripts.set(api.key, script as unknown as Script<Api>)
    return this
  }

  /** What came of one API. */
  requests<A extends Api>(api: A): Asked<A>[] {
    return this.asked.filter(asked => asked.api.key === api.key) as unknown as Asked<A>[]
  }

  get alive(): boolean {
    return this.#stop !== null
  }

  async listen(): Promise<void> {
    const net = this.#world.network.node(this.host)
    const listener = await net.listen({ host: this.host, port: 9092 }, socket => {
      const connection = new FakeConnection(this, socket)
      this.connections.push(connection)
      return connection.handler
    })
    this.#stop = () => listener.close()
  }

  /** Refuses connections from now on, and cuts those there are. */
  async die(): Promise<void> {
    await this.#stop?.()
    this.#stop = null
    for (const connection of this.connections) connection.socket.destroy()
  }

  async answer(asked: Asked): Promise<void> {
    this.asked.push(asked)
    const script = this.#scripts.get(asked.api.key)
    assert(script, `broker ${this.id} has an answer for ${asked.api.name}`)
    const body = await script(asked)
    if (body !== undefined) asked.from.reply(asked, body)
  }

  #metadata(names: readonly string[] | null): ResponseWritten<typeof Metadata> {
    const topics = (names ?? [...this.topics.keys()]).map(name => {
      const topic = this.topics.get(name)
      const partitions = (topic?.leaders ?? []).map((leaderId, partitionIndex) => ({
        errorCode: leaderId < 0 ? 5 : 0,
        partitionIndex,
        leaderId,
        leaderEpoch: topic?.epoch ?? 0,
        replicaNodes: [leaderId],
        isrNodes: [leaderId]
      }))
      return { name, topicId: topic?.id ?? zeroId, errorCode: topic ? 0 : 3, partitions }
    })
    return { clusterId: 'fake', controllerId: 0, brokers: this.named(), topics }
  }

  /** The brokers that this one's Metadata names. */
  named = () =>
    this.#world.brokers.map(({ id, host }) => ({ nodeId: id, host, port: 9092, rack: null }))
}

const zeroId = 'AAAAAAAAAAAAAAAAAAAAAA'

export const everyApi = apis.map(({ key, versions: [minVersion, maxVersion] }) => ({
  apiKey: key,
  minVersion,
  maxVersion
}))

export class FakeConnection {
  readonly socket: Socket
  closed = false
  readonly #broker: FakeBroker
  readonly #splitter = new FrameSplitter(frame => this.#read(frame), 1 << 26, 1 << 16)

  constructor(broker: FakeBroker, socket: Socket) {
    this.#broker = broker
    this.socket = socket
  }

  readonly handler = {
    onData: (chunk: Buffer) => this.#splitter.push(chunk),
    onClose: () => {
      this.closed = true
    }
  }

  reply(asked: Asked, body: unknown, correlationId = asked.correlationId): void {
    this.socket.write(encodeResponse(asked.api, asked.version, correlationId, body as never))
  }

  #read(frame: Buffer): void {
    const { apiKey, apiVersion: version, correlationId, clientId } = readRequestStart(frame)
    const api = apiByKey.get(apiKey)
    assert(api, `API ${apiKey} is declared`)
    // A newer ApiVersions than this broker's is for the script to judge; its body can be read all the same.
    const body = decodeRequest(api, version, frame)
    void this.#broker.answer({ api, version, correlationId, clientId, body, from: this })
  }
}

/** Plays a story on some brokers; afterwards nothing is left of the client. */
export async function story(
  brokers: number,
  options: Partial<ClusterOptions>,
  tell: (world: World, cluster: Cluster) => Promise<void>
): Promise<void> {
  const world = new World()
  await world.start(brokers)
  await world.play(async () => {
    const cluster = world.cluster(options)
    await tell(world, cluster)
    await cluster.close()
    for (const broker of world.brokers) await broker.die()
  })
  assert.equal(world.clock.pending, 0, 'no timer is left')
}

/** In virtual time. */
export function wait(world: World, ms: number): Promise<void> {
  return new Promise(resolve => void world.clock.after(ms, resolve))
}
