/**
 * The final read: every partition from its start to its end, by bare Fetch requests and with an own idea of which
 * records count, so that it does not share the consumer's errors.
 */
import { Fetch } from '../../src/protocol/api/fetch.ts'
import { ListOffsets } from '../../src/protocol/api/list-offsets.ts'
import { type BatchView, BatchReader } from '../../src/protocol/records/batch.ts'
import { RawRecord, RecordIterator } from '../../src/protocol/records/record.ts'
import { RecordSource } from '../../src/protocol/records/source.ts'
import { Cluster } from '../../src/rpc/cluster.ts'
import { nameOfValue } from '../history/values.ts'
import type { Process } from '../world/process.ts'
import { sleep } from '../world/world.ts'
import type { Stage } from './stage.ts'

interface Place {
  readonly topic: string
  readonly topicId: string
  readonly partition: number
}

const maxBytes = 64 * 1024 * 1024

/** Reads everything into the history. */
export function readerProgram(stage: () => Stage): (process: Process) => Promise<void> {
  return async process => {
    const { world, topics, bootstrap } = stage()
    const cluster = new Cluster(process.env, { bootstrap, clientId: 'reader' })
    for (const name of topics.names) {
      const { topicId, partitions } = await cluster.topic(name)
      for (const partition of partitions.keys()) {
        await readPartition(stage(), process, cluster, { topic: name, topicId, partition })
      }
    }
    await cluster.close()
    world.saw(process, { k: 'closed', leftovers: process.leftovers })
  }
}

async function readPartition(
  stage: Stage,
  process: Process,
  cluster: Cluster,
  at: Place
): Promise<void> {
  const tp = `${at.topic}:${at.partition}`
  const start = await lookUp(cluster, at, -2)
  // A transaction that nobody ended keeps the end back until the coordinator aborts it.
  const end = await lookUp(cluster, at, -1)
  for (let offset = start; offset < end; ) {
    const next = await fetch(stage, process, cluster, at, offset)
    if (next === offset) await sleep(stage.world, process, 500)
    offset = next
  }
  stage.world.saw(process, { k: 'final.end', tp, start, end })
}

async function lookUp(cluster: Cluster, at: Place, timestamp: number): Promise<number> {
  const answer = await cluster.request(
    ListOffsets,
    {
      replicaId: -1,
      isolationLevel: 0,
      topics: [{ name: at.topic, partitions: [{ partitionIndex: at.partition, timestamp }] }],
      timeoutMs: 10_000
    },
    { to: { leader: at } }
  )
  return answer.topics[0]?.partitions[0]?.offset ?? -1
}

async function fetch(
  stage: Stage,
  process: Process,
  cluster: Cluster,
  at: Place,
  offset: number
): Promise<number> {
  const partition = { partition: at.partition, fetchOffset: offset, partitionMaxBytes: maxBytes }
  const answer = await cluster.request(
    Fetch,
    {
      replicaState: {},
      maxWaitMs: 0,
      minBytes: 0,
      maxBytes,
      isolationLevel: 1,
      topics: [{ topic: at.topic, topicId: at.topicId, partitions: [partition] }],
      forgottenTopicsData: []
    },
    { to: { leader: at } }
  )
  const got = answer.responses[0]?.partitions[0]
  if (got === undefined || got.errorCode !== 0 || got.records === null) return offset
  const aborted = new Aborted(got.abortedTransactions ?? [])
  const batches = new BatchReader(got.records)
  let next = offset
  for (let batch = batches.next(); batch !== undefined; batch = batches.next()) {
    batch.verify(process.env.cpu)
    if (!aborted.skips(batch)) await take(stage, process, at, batch, offset)
    next = batch.nextOffset
  }
  return next
}

async function take(
  stage: Stage,
  process: Process,
  at: Place,
  batch: BatchView,
  from: number
): Promise<void> {
  const payload =
    batch.compression === 'none' ? batch.payload : await batch.decompress(process.env.cpu, maxBytes)
  const source = new RecordSource(batch, payload, at.topic, at.partition)
  const tp = `${at.topic}:${at.partition}`
  for (const record of new RecordIterator(source, RawRecord, from)) {
    const v = nameOfValue(record.value)
    stage.world.saw(process, { k: 'final', tp, offset: record.offset, v })
  }
}

/** Which batches of transactions do not count: those between an aborted one's first offset and its marker. */
class Aborted {
  readonly #starts: { readonly producerId: bigint; readonly firstOffset: number }[]
  readonly #open = new Set<bigint>()

  constructor(
    transactions: readonly { readonly producerId: bigint; readonly firstOffset: number }[]
  ) {
    this.#starts = [...transactions].sort((a, b) => a.firstOffset - b.firstOffset)
  }

  skips(batch: BatchView): boolean {
    while ((this.#starts[0]?.firstOffset ?? Infinity) <= batch.lastOffset) {
      this.#open.add((this.#starts.shift() as { producerId: bigint }).producerId)
    }
    if (batch.isControl) {
      this.#open.delete(batch.producerId)
      return true
    }
    return batch.isTransactional && this.#open.has(batch.producerId)
  }
}
