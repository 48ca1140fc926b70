/** A bare client of the broker: one connection, any API, any version; no client code of ours in between. */
import assert from 'node:assert/strict'
import type { Env, Socket } from '../../src/base/env.ts'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { Fetch } from '../../src/protocol/api/fetch.ts'
import { ListOffsets } from '../../src/protocol/api/list-offsets.ts'
import { Produce } from '../../src/protocol/api/produce.ts'
import { FrameSplitter, decodeResponse, encodeRequest } from '../../src/protocol/frame.ts'
import { BatchReader } from '../../src/protocol/records/batch.ts'
import { BatchBuilder, type BatchHeader } from '../../src/protocol/records/builder.ts'
import { RecordCursor } from '../../src/protocol/records/cursor.ts'
import { RawRecord } from '../../src/protocol/records/record.ts'
import { RecordSource } from '../../src/protocol/records/source.ts'
import type { Api, Fields, Read, Written } from '../../src/protocol/schema.ts'

export class Wire {
  readonly #waiting = new Map<
    number,
    { resolve: (frame: Buffer) => void; reject: (e: Error) => void }
  >()
  readonly #closed: Promise<void>
  #socket: Socket | undefined
  #id = 0
  /** Correlation ids of answers, in the order in which they came. */
  readonly answered: number[] = []

  private constructor(env: Env, address: string, opened: () => void) {
    const at = address.lastIndexOf(':')
    const splitter = new FrameSplitter(frame => this.#received(frame), 2 ** 30, 65536)
    let closed = () => {}
    this.#closed = new Promise(resolve => {
      closed = resolve
    })
    this.#socket = env.net.connect(
      { host: address.slice(0, at), port: Number(address.slice(at + 1)) },
      {
        onOpen: opened,
        onData: chunk => splitter.push(chunk),
        onClose: error => {
          for (const { reject } of this.#waiting.values()) reject(error ?? new Error('closed'))
          this.#waiting.clear()
          this.#socket = undefined
          opened()
          closed()
        }
      }
    )
  }

  static async connect(env: Env, address: string): Promise<Wire> {
    let wire: Wire | undefined
    await new Promise<void>(resolve => {
      wire = new Wire(env, address, resolve)
    })
    assert(wire)
    return wire
  }

  async ask<Req extends Fields, Res extends Fields>(
    api: Api<Req, Res>,
    version: number,
    body: Written<Req>
  ): Promise<Read<Res>> {
    const correlationId = ++this.#id
    const request = encodeRequest(api, version, { correlationId, clientId: 'wire' }, body)
    const frame = await new Promise<Buffer>((resolve, reject) => {
      if (this.#socket === undefined) return reject(new Error('closed'))
      this.#waiting.set(correlationId, { resolve, reject })
      this.#socket.write(request)
    })
    return decodeResponse(api as Api<Fields, Res>, version, frame)
  }

  /** Sends bytes as they are. */
  send(bytes: Uint8Array): void {
    this.#socket?.write([bytes])
  }

  /** Ends at once, and hard. */
  abort(): void {
    this.#socket?.destroy()
  }

  get closed(): Promise<void> {
    return this.#closed
  }

  async close(): Promise<void> {
    this.#socket?.end()
    await this.#closed
  }

  #received(frame: Buffer): void {
    const id = frame.readInt32BE(0)
    this.answered.push(id)
    this.#waiting.get(id)?.resolve(frame)
    this.#waiting.delete(id)
  }

  /** Produces one batch; the answer of its partition. */
  async produce(
    topic: string,
    partition: number,
    records: Buffer,
    options: { acks?: number; transactionalId?: string; version?: number } = {}
  ) {
    const { acks = -1, transactionalId = null, version = 12 } = options
    const answer = await this.ask(Produce, version, {
      transactionalId,
      acks,
      timeoutMs: 1000,
      topicData: [{ name: topic, partitionData: [{ index: partition, records }] }]
    })
    const only = answer.responses[0]?.partitionResponses[0]
    assert(only)
    return only
  }

  async fetch(
    topic: string,
    partition: number,
    fetchOffset: number,
    options: {
      maxWaitMs?: number
      minBytes?: number
      maxBytes?: number
      partitionMaxBytes?: number
      isolationLevel?: number
    } = {}
  ) {
    const { maxWaitMs = 0, minBytes = 1, isolationLevel = 0, ...limits } = options
    const { maxBytes = 1e6, partitionMaxBytes = 1e6 } = limits
    const partitions = [{ partition, fetchOffset, partitionMaxBytes }]
    const answer = await this.ask(Fetch, 12, {
      maxWaitMs,
      minBytes,
      maxBytes,
      isolationLevel,
      topics: [{ topic, partitions }]
    })
    const only = answer.responses[0]?.partitions[0]
    assert(only)
    return only
  }

  async offset(topic: string, partition: number, timestamp: number, isolationLevel = 0) {
    const partitions = [{ partitionIndex: partition, timestamp }]
    const body = { replicaId: -1, isolationLevel, topics: [{ name: topic, partitions }] }
    const answer = await this.ask(ListOffsets, 9, body)
    const only = answer.topics[0]?.partitions[0]
    assert(only)
    return only
  }
}

const cpu = nodeCpu()

export interface Rec {
  readonly key?: string | null
  readonly value: string | null
  readonly timestamp?: number
}

/** A record batch. */
export function batchOf(records: readonly (string | Rec)[], header: BatchHeader = {}): Buffer {
  const builder = new BatchBuilder({ maxBytes: 10_000_000 })
  for (const record of records) {
    const {
      key = null,
      value,
      timestamp = 1_000
    } = typeof record === 'string' ? { value: record } : record
    assert(builder.append(timestamp, bytes(key), bytes(value)))
  }
  return builder.close(header, cpu).bytes
}

function bytes(text: string | null): Buffer | null {
  return text === null ? null : Buffer.from(text)
}

/** Offset and value of every record: '3:hello'; markers as '4!'. */
export function recordsOf(records: Buffer | null): string[] {
  const found: string[] = []
  for (const batch of new BatchReader(records)) {
    batch.verify(cpu)
    const source = new RecordSource(batch, batch.payload, '', 0)
    const cursor = new RecordCursor(source)
    while (cursor.advance()) {
      const { offset, value } = new RawRecord(source, cursor)
      found.push(batch.isControl ? `${offset}!` : `${offset}:${value?.toString() ?? 'null'}`)
    }
  }
  return found
}
