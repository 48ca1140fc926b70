/**
 * A transaction coordinator in memory, by the rules of Kafka's (TransactionCoordinator, TransactionMetadata), for
 * transaction.version 1 and 2. Markers are written at once. A test decides what goes wrong.
 */
import assert from 'node:assert/strict'
import { KafkaError } from '../../src/protocol/errors.ts'
import type { PartitionLog, Produced } from './brokers.ts'

/** What goes wrong with a request. `cut`: the connection, before or after it took effect. */
export type CoordinatorFault =
  | 'none'
  | { readonly code: number }
  | { readonly cut: 'before' | 'after' }

interface Transaction {
  id: bigint
  epoch: number
  /** A producer that comes with it repeats what gave it the current one. */
  lastEpoch: number
  state: 'empty' | 'ongoing' | 'committed' | 'aborted'
  readonly partitions: Set<string>
  /** What was appended, and is neither committed nor aborted. */
  open: { readonly log: PartitionLog; readonly values: readonly string[] }[]
  offsets: Map<string, number>
}

interface Fields {
  readonly [name: string]: unknown
}

export class MemoryCoordinator {
  readonly features: readonly unknown[]
  readonly transactions = new Map<string, Transaction>()
  /** Committed offsets: 'group topic-partition'. */
  readonly offsets = new Map<string, number>()
  onRequest: (api: string) => CoordinatorFault = () => 'none'
  readonly #version: number
  #ids = 5000n

  constructor(transactionVersion: number) {
    this.#version = transactionVersion
    this.features = [
      { name: 'transaction.version', maxVersionLevel: transactionVersion, minVersionLevel: 1 }
    ]
  }

  answer(api: string, version: number, request: unknown): unknown {
    const fields = request as Fields
    if (api === 'FindCoordinator') return this.#find(fields)
    const fault = this.onRequest(api)
    if (typeof fault === 'object' && 'cut' in fault) {
      if (fault.cut === 'after') this.#play(api, version, fields)
      return 'cut'
    }
    const code = typeof fault === 'object' ? fault.code : undefined
    return this.#play(api, version, fields, code)
  }

  /** The code to refuse a batch with, or 0. */
  produce(batch: Produced): number {
    if (!batch.transactional) return 0
    const transaction = this.#byId(batch.producerId)
    if (transaction === undefined) return KafkaError.INVALID_PRODUCER_ID_MAPPING
    if (batch.epoch !== transaction.epoch) return KafkaError.INVALID_PRODUCER_EPOCH
    if (this.#version < 2 && !transaction.partitions.has(`${batch.topic}-${batch.partition}`)) {
      return KafkaError.INVALID_TXN_STATE
    }
    return 0
  }

  appended(batch: Produced, log: PartitionLog): void {
    if (!batch.transactional) return
    const transaction = this.#byId(batch.producerId)
    assert(transaction)
    transaction.state = 'ongoing'
    transaction.open.push({ log, values: batch.values })
  }

  #byId(id: bigint): Transaction | undefined {
    return [...this.transactions.values()].find(transaction => transaction.id === id)
  }

  #find({ coordinatorKeys }: Fields): unknown {
    const keys = coordinatorKeys as string[]
    const coordinators = keys.map(key => ({
      key,
      nodeId: 0,
      host: 'b0',
      port: 9092,
      errorCode: 0,
      errorMessage: null
    }))
    return { throttleTimeMs: 0, coordinators }
  }

  /** With `code` it answers so, and does nothing. */
  #play(api: string, version: number, request: Fields, code?: number): unknown {
    switch (api) {
      case 'InitProducerId':
        return { throttleTimeMs: 0, ...this.#init(request, code) }
      case 'EndTxn':
        return { throttleTimeMs: 0, ...this.#end(request, version, code) }
      case 'AddPartitionsToTxn':
        return this.#addPartitions(request, code)
      case 'AddOffsetsToTxn':
        return { throttleTimeMs: 0, errorCode: code ?? this.#join(request) }
      case 'TxnOffsetCommit':
        return this.#commitOffsets(request, code)
      default:
        throw new Error(`${api} is not played here`)
    }
  }

  #init(request: Fields, code?: number): Fields {
    const none = { producerId: -1n, producerEpoch: -1 }
    if (code !== undefined) return { errorCode: code, ...none }
    const name = request['transactionalId'] as string
    const { producerId, producerEpoch } = request as { producerId: bigint; producerEpoch: number }
    let found = this.transactions.get(name)
    if (found === undefined) {
      found = {
        id: this.#ids++,
        epoch: -1,
        lastEpoch: -1,
        state: 'empty',
        partitions: new Set(),
        open: [],
        offsets: new Map()
      }
      this.transactions.set(name, found)
    }
    const mine = producerId === found.id
    if (producerId !== -1n && mine && producerEpoch === found.lastEpoch) {
      return { errorCode: 0, producerId: found.id, producerEpoch: found.epoch }
    }
    if (producerId !== -1n && !(mine && producerEpoch === found.epoch)) {
      return { errorCode: KafkaError.PRODUCER_FENCED, ...none }
    }
    this.#close(found, false)
    found.state = 'empty'
    found.lastEpoch = producerId === -1n ? -1 : found.epoch
    found.epoch++
    return { errorCode: 0, producerId: found.id, producerEpoch: found.epoch }
  }

  #end(request: Fields, version: number, code?: number): Fields {
    const found = this.transactions.get(request['transactionalId'] as string)
    assert(found)
    const committed = request['committed'] === true
    const epoch = request['producerEpoch'] as number
    const answer = (errorCode: number) => ({
      errorCode,
      ...(version >= 5 ? { producerId: found.id, producerEpoch: found.epoch } : {})
    })
    if (code !== undefined) return answer(code)
    const result = committed ? 'committed' : 'aborted'
    const repeated = version >= 5 && epoch === found.lastEpoch && found.state === result
    if (repeated) return answer(0)
    if (epoch !== found.epoch) return answer(KafkaError.PRODUCER_FENCED)
    const empty = found.state !== 'ongoing'
    if (empty && version < 5)
      return answer(found.state === result ? 0 : KafkaError.INVALID_TXN_STATE)
    if (empty && committed) return answer(KafkaError.INVALID_TXN_STATE)
    this.#close(found, committed)
    found.state = result
    if (version >= 5) {
      found.lastEpoch = found.epoch
      found.epoch++
    }
    return answer(0)
  }

  #close(transaction: Transaction, committed: boolean): void {
    if (committed) {
      for (const { log, values } of transaction.open) log.committed.push(...values)
      for (const [key, offset] of transaction.offsets) this.offsets.set(key, offset)
    }
    transaction.open = []
    transaction.offsets = new Map()
    transaction.partitions.clear()
  }

  #join(request: Fields): number {
    const id = (request['transactionalId'] ?? request['v3AndBelowTransactionalId']) as string
    const epoch = (request['v3AndBelowProducerEpoch'] ?? request['producerEpoch']) as number
    const found = this.transactions.get(id)
    if (found === undefined || found.epoch !== epoch) return KafkaError.PRODUCER_FENCED
    found.state = 'ongoing'
    return 0
  }

  #addPartitions(request: Fields, code?: number): unknown {
    const topics = request['v3AndBelowTopics'] as { name: string; partitions: number[] }[]
    const partitionErrorCode =
      code ??
      this.#join({
        transactionalId: request['v3AndBelowTransactionalId'],
        producerEpoch: request['v3AndBelowProducerEpoch']
      })
    const found = this.transactions.get(request['v3AndBelowTransactionalId'] as string)
    return {
      throttleTimeMs: 0,
      resultsByTopicV3AndBelow: topics.map(({ name, partitions }) => ({
        name,
        resultsByPartition: partitions.map(partitionIndex => {
          if (partitionErrorCode === 0) found?.partitions.add(`${name}-${partitionIndex}`)
          return { partitionIndex, partitionErrorCode }
        })
      }))
    }
  }

  #commitOffsets(request: Fields, code?: number): unknown {
    const errorCode = code ?? this.#join(request)
    const found = this.transactions.get(request['transactionalId'] as string)
    const topics = request['topics'] as {
      name: string
      partitions: { partitionIndex: number; committedOffset: number }[]
    }[]
    return {
      throttleTimeMs: 0,
      topics: topics.map(({ name, partitions }) => ({
        name,
        partitions: partitions.map(({ partitionIndex, committedOffset }) => {
          const key = `${String(request['groupId'])} ${name}-${partitionIndex}`
          if (errorCode === 0) found?.offsets.set(key, committedOffset)
          return { partitionIndex, errorCode }
        })
      }))
    }
  }
}
