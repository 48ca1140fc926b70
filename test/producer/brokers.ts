/**
 * Brokers for a producer to send to, in memory and virtual time: they keep a log by Kafka's rules for idempotent
 * and transactional producers (ProducerStateManager), and a test decides what goes wrong with each Produce.
 */
import assert from 'node:assert/strict'
import { gunzipSync, gzipSync } from 'node:zlib'
import { VirtualClock } from '../../sim/world/clock.ts'
import { SeededRandom } from '../../sim/world/random.ts'
import type { Cpu, Env, Log, Socket, SocketHandler } from '../../src/base/env.ts'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { MemoryNetwork } from '../../src/net/memory.ts'
import { apiByKey } from '../../src/protocol/apis.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import {
  decodeRequest,
  encodeResponse,
  FrameSplitter,
  readRequestStart
} from '../../src/protocol/frame.ts'
import { onlyBatch } from '../../src/protocol/records/batch.ts'
import { checkProducedHeader } from '../../src/protocol/records/check.ts'
import { RecordCursor } from '../../src/protocol/records/cursor.ts'
import { RawRecord } from '../../src/protocol/records/record.ts'
import { RecordSource } from '../../src/protocol/records/source.ts'
import type { Produce } from '../../src/protocol/api/produce.ts'
import type { RequestRead } from '../../src/protocol/schema.ts'
import { Cluster } from '../../src/rpc/cluster.ts'
import { MemoryCoordinator } from './coordinator.ts'

/** What a broker does with the batch of one partition. */
export type Fault =
  /** Nothing wrong. */
  | 'none'
  /** Appends, and answers with this code; or does not append. */
  | { readonly code: number; readonly append?: boolean; readonly logStartOffset?: number }
  /** Appends, or not, and cuts the connection. */
  | { readonly cut: true; readonly append: boolean }
  /** Appends, and answers this much later. */
  | { readonly delayMs: number }
  /** Appends, and never answers. */
  | 'silence'

export interface Produced {
  readonly transactional: boolean
  readonly node: number
  readonly topic: string
  readonly partition: number
  readonly producerId: bigint
  readonly epoch: number
  readonly sequence: number
  readonly values: readonly string[]
  readonly bytes: number
  readonly acks: number
}

interface ProducerEntry {
  epoch: number
  last: number
  batches: { first: number; last: number; offset: number }[]
}

export class PartitionLog {
  leader: number
  /** What a transaction has committed. */
  readonly committed: string[] = []
  readonly values: string[] = []
  readonly producers = new Map<bigint, ProducerEntry>()

  constructor(leader: number) {
    this.leader = leader
  }

  append(batch: Produced): { readonly code: number; readonly offset: number } {
    const { producerId, epoch, sequence, values } = batch
    const offset = this.values.length
    if (producerId >= 0n) {
      const entry = this.producers.get(producerId)
      const last = (sequence + values.length - 1) % 2 ** 31
      if (entry !== undefined) {
        if (epoch < entry.epoch) return { code: KafkaError.INVALID_PRODUCER_EPOCH, offset: -1 }
        const again = entry.batches.find(one => one.first === sequence && one.last === last)
        if (epoch === entry.epoch && again) return { code: 0, offset: again.offset }
        const due = epoch === entry.epoch ? (entry.last + 1) % 2 ** 31 : 0
        if (sequence !== due) return { code: KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, offset: -1 }
      }
      const batches = entry?.epoch === epoch ? entry.batches.slice(-4) : []
      batches.push({ first: sequence, last, offset })
      this.producers.set(producerId, { epoch, last, batches })
    }
    this.values.push(...values)
    return { code: 0, offset }
  }
}

const silent: Log = { debug() {}, info() {}, warn() {}, error() {} }
/** Compression without a thread: under virtual time nothing else may take time. */
const cpu: Cpu = {
  ...nodeCpu(),
  compress: (_codec, bytes) => Promise.resolve(gzipSync(bytes, { level: 1 })),
  decompress: (codec, bytes) => Promise.resolve(codec === 'none' ? bytes : gunzipSync(bytes))
}

export interface WorldOptions {
  /** Which protocol of transactions the cluster has finalized. Default 2. */
  readonly transactionVersion?: number
  readonly seed?: number
  readonly brokers?: number
  readonly topics?: Readonly<Record<string, number>>
}

/** A network with brokers b0, b1, …, and a client's cluster on it. */
export class World {
  readonly clock = new VirtualClock()
  readonly random: SeededRandom
  readonly network: MemoryNetwork
  readonly env: Env
  readonly cluster: Cluster
  readonly coordinator: MemoryCoordinator
  readonly logs = new Map<string, Map<number, PartitionLog>>()
  /** Every Produce that came, by partition, in order. */
  readonly produced: Produced[] = []
  /** Requests that came, by API name. */
  readonly requests = new Map<string, number>()
  /** Decides what happens with a batch. */
  onProduce: (batch: Produced) => Fault = () => 'none'
  /** Answers a request instead of the broker, by API name. */
  readonly answers = new Map<string, (request: unknown) => unknown>()
  readonly #brokers: number
  readonly #sockets = new Set<Socket>()
  #ids = 1000n

  constructor(options: WorldOptions = {}) {
    const { seed = 1, brokers = 2, topics = { t: 3 }, transactionVersion = 2 } = options
    this.#brokers = brokers
    this.coordinator = new MemoryCoordinator(transactionVersion)
    this.random = new SeededRandom(seed)
    this.network = new MemoryNetwork({ clock: this.clock, random: this.random.split('net') })
    for (const [name, count] of Object.entries(topics)) this.addTopic(name, count)
    this.env = {
      clock: this.clock,
      random: this.random.split('client'),
      net: this.network.node('client'),
      cpu,
      log: silent
    }
    this.cluster = new Cluster(this.env, { bootstrap: ['b0:9092'] })
    for (let node = 0; node < brokers; node++) this.startBroker(node)
  }

  addTopic(name: string, partitions: number): void {
    const logs = this.logs.get(name) ?? new Map<number, PartitionLog>()
    for (let i = logs.size; i < partitions; i++) logs.set(i, new PartitionLog(i % this.#brokers))
    this.logs.set(name, logs)
  }

  startBroker(node: number): void {
    void this.network
      .node(`b${node}`)
      .listen({ host: '0.0.0.0', port: 9092 }, socket => this.#accept(node, socket))
  }

  log(topic: string, partition: number): PartitionLog {
    const log = this.logs.get(topic)?.get(partition)
    assert(log, `there is ${topic}-${partition}`)
    return log
  }

  /** All values of a topic, by partition. */
  values(topic: string): string[][] {
    return [...(this.logs.get(topic)?.values() ?? [])].map(log => log.values)
  }

  cutAll(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  play<T>(program: Promise<T>, withinMs?: number): Promise<T> {
    return this.clock.play(program, withinMs)
  }

  #accept(node: number, socket: Socket): SocketHandler {
    this.#sockets.add(socket)
    const splitter = new FrameSplitter(
      frame => this.#received(node, socket, frame),
      2 ** 27,
      2 ** 20
    )
    return {
      onData: chunk => splitter.push(chunk),
      onClose: () => this.#sockets.delete(socket)
    }
  }

  #received(node: number, socket: Socket, frame: Buffer): void {
    const { apiKey, apiVersion, correlationId } = readRequestStart(frame)
    const api = apiByKey.get(apiKey)
    assert(api, `API ${apiKey} is declared`)
    this.requests.set(api.name, (this.requests.get(api.name) ?? 0) + 1)
    const request = decodeRequest(api, apiVersion, frame)
    const reply = (body: unknown) => {
      socket.write(encodeResponse(api, apiVersion, correlationId, body as Record<string, never>))
    }
    const scripted = this.answers.get(api.name)?.(request)
    if (scripted !== undefined) return reply(scripted)
    switch (api.name) {
      case 'ApiVersions':
        return reply({ ...versions, finalizedFeatures: this.coordinator.features })
      case 'Metadata':
        return reply(this.#metadata())
      case 'InitProducerId':
        if ((request as { transactionalId: string | null }).transactionalId !== null) break
        return reply({ throttleTimeMs: 0, errorCode: 0, producerId: this.#ids++, producerEpoch: 0 })
      case 'Produce':
        return this.#produce(node, socket, request as RequestRead<typeof Produce>, reply)
      default:
    }
    const answer = this.coordinator.answer(api.name, apiVersion, request)
    if (answer === 'cut') socket.destroy()
    else reply(answer)
  }

  #produce(
    node: number,
    socket: Socket,
    request: RequestRead<typeof Produce>,
    reply: (body: unknown) => void
  ): void {
    let delayMs = 0
    let cut = false
    let answered = request.acks !== 0
    const responses = request.topicData.map(topic => {
      const name = topic.name || nameOf(topic.topicId)
      const partitionResponses = topic.partitionData.map(({ index, records }) => {
        const batch = read(node, name, index, request.acks, records)
        this.produced.push(batch)
        const fault = this.onProduce(batch)
        if (fault === 'silence') answered = false
        if (typeof fault === 'object' && 'cut' in fault) cut = true
        if (typeof fault === 'object' && 'delayMs' in fault) delayMs = fault.delayMs
        return { index, ...this.#judge(batch, fault) }
      })
      return { name, topicId: topic.topicId, partitionResponses }
    })
    if (cut) socket.destroy()
    else if (answered) this.clock.after(delayMs, () => reply({ responses, throttleTimeMs: 0 }))
  }

  #judge(batch: Produced, fault: Fault): { errorCode: number; baseOffset: number } {
    const log = this.logs.get(batch.topic)?.get(batch.partition)
    if (!log) return { errorCode: KafkaError.UNKNOWN_TOPIC_OR_PARTITION, baseOffset: -1 }
    if (log.leader !== batch.node) {
      return { errorCode: KafkaError.NOT_LEADER_OR_FOLLOWER, baseOffset: -1 }
    }
    const withoutAppend = typeof fault === 'object' && 'append' in fault && !fault.append
    if (typeof fault === 'object' && 'code' in fault && fault.append !== true) {
      return { errorCode: fault.code, baseOffset: -1 }
    }
    if (withoutAppend) return { errorCode: 0, baseOffset: -1 }
    const refused = this.coordinator.produce(batch)
    if (refused !== 0) return { errorCode: refused, baseOffset: -1 }
    const before = log.values.length
    const { code, offset } = log.append(batch)
    // Not when it was there already.
    if (log.values.length > before) this.coordinator.appended(batch, log)
    if (typeof fault === 'object' && 'code' in fault) {
      return { errorCode: fault.code, baseOffset: -1 }
    }
    return { errorCode: code, baseOffset: offset }
  }

  #metadata(): unknown {
    return {
      throttleTimeMs: 0,
      clusterId: 'memory',
      controllerId: 0,
      brokers: Array.from({ length: this.#brokers }, (_, nodeId) => ({
        nodeId,
        host: `b${nodeId}`,
        port: 9092
      })),
      topics: Array.from(this.logs, ([name, logs]) => ({
        errorCode: 0,
        name,
        topicId: idOf(name),
        partitions: Array.from(logs, ([partitionIndex, { leader }]) => ({
          errorCode: 0,
          partitionIndex,
          leaderId: leader,
          replicaNodes: [leader],
          isrNodes: [leader]
        }))
      }))
    }
  }
}

/** A topic id from which the name can be read. */
function idOf(name: string): string {
  return Buffer.from(name.padEnd(16, '\0')).toString('base64url')
}

function nameOf(id: string): string {
  return Buffer.from(id, 'base64url').toString().replaceAll('\0', '')
}

const versions = {
  errorCode: 0,
  throttleTimeMs: 0,
  apiKeys: Array.from(apiByKey.values(), ({ key, versions: [minVersion, maxVersion] }) => ({
    apiKey: key,
    minVersion,
    maxVersion
  }))
}

function read(
  node: number,
  topic: string,
  partition: number,
  acks: number,
  records: Buffer | null
): Produced {
  assert(records, 'a partition of Produce has a batch')
  const batch = onlyBatch(records)
  checkProducedHeader(batch, cpu)
  const payload = batch.compression === 'none' ? batch.payload : gunzipSync(batch.payload)
  const source = new RecordSource(batch, payload, topic, partition)
  const cursor = new RecordCursor(source)
  const values: string[] = []
  while (cursor.advance()) values.push(String(new RawRecord(source, cursor).value))
  return {
    node,
    topic,
    partition,
    transactional: batch.isTransactional,
    producerId: batch.producerId,
    epoch: batch.producerEpoch,
    sequence: batch.baseSequence,
    values,
    bytes: batch.sizeBytes,
    acks
  }
}
