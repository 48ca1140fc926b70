/** Record batches against Kafka itself: its Java code reads ours, and we what it writes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Compression } from '../../src/base/env.ts'
import { PlayheadError } from '../../src/base/error.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { AddPartitionsToTxn } from '../../src/protocol/api/add-partitions-to-txn.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { EndTxn } from '../../src/protocol/api/end-txn.ts'
import { Fetch } from '../../src/protocol/api/fetch.ts'
import { InitProducerId } from '../../src/protocol/api/init-producer-id.ts'
import { Produce } from '../../src/protocol/api/produce.ts'
import { AbortedTransactions } from '../../src/protocol/records/aborted.ts'
import { BatchReader } from '../../src/protocol/records/batch.ts'
import { BatchBuilder, type BatchHeader } from '../../src/protocol/records/builder.ts'
import type { ResponseOf } from '../../src/protocol/schema.ts'
import { answerError } from '../../src/rpc/answer-errors.ts'
import { Cluster } from '../../src/rpc/cluster.ts'
import { Again } from '../../src/rpc/retry.ts'
import { cpu, MiB, recordsIn } from '../records/reading.ts'
import { kafka } from './cluster.ts'

const compressions: readonly Compression[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd']
/** Not the past: Kafka rolls and deletes its log by the records' timestamps. */
const now = Date.now()
type Partition = ResponseOf<typeof Fetch>['responses'][number]['partitions'][number]

/** The low-level API with just what these tests ask of it, on topics of one partition. */
class Wire {
  readonly cluster = new Cluster(nodeEnv({ cpu }), { bootstrap: kafka.bootstrap })

  async createTopic(name: string, compression: string): Promise<void> {
    const configs = [{ name: 'compression.type', value: compression }]
    const topic = { name, numPartitions: 1, replicationFactor: 1, assignments: [], configs }
    const answer = await this.cluster.request(CreateTopics, { topics: [topic] })
    assert.equal(answer.topics[0]?.errorMessage ?? null, null)
    await this.cluster.topic(name)
  }

  async produce(
    topic: string,
    records: Buffer,
    transactionalId: string | null = null
  ): Promise<void> {
    const topicData = [{ name: topic, partitionData: [{ index: 0, records }] }]
    const body = { transactionalId, acks: -1, timeoutMs: 10_000, topicData }
    // Version 11 and above would add the partition to the transaction by itself (KIP-890).
    const to = { leader: { topic, partition: 0 } }
    const answer = await this.cluster.request(Produce, body, { to, maxVersion: 11 })
    const result = answer.responses[0]?.partitionResponses[0]
    assert.equal(result?.errorCode, 0, result?.errorMessage ?? '')
  }

  async fetch(topic: string, fetchOffset: number, isolationLevel: 0 | 1): Promise<Partition> {
    const partitions = [{ partition: 0, fetchOffset, partitionMaxBytes: MiB }]
    const body = { maxWaitMs: 1000, minBytes: 1, isolationLevel, topics: [{ topic, partitions }] }
    const to = { leader: { topic, partition: 0 } }
    const answer = await this.cluster.request(
      Fetch,
      { ...body, forgottenTopicsData: [] },
      { to, maxVersion: 12 }
    )
    const partition = answer.responses[0]?.partitions[0]
    assert.equal(partition?.errorCode, 0)
    return partition
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster.close()
  }
}

test('whatever the compression, Kafka takes it, compresses it anew, and we read the same', async () => {
  await using wire = new Wire()
  for (const stored of ['producer', 'uncompressed', 'gzip', 'snappy', 'lz4', 'zstd']) {
    const topic = kafka.uniqueName(`records-${stored}`)
    await wire.createTopic(topic, stored)
    const sent: string[] = []
    for (const compression of compressions)
      sent.push(...(await produceSome(wire, topic, compression)))
    const { values, seen } = await consumeAll(wire, topic, sent.length)
    assert.deepEqual(values, sent, stored)
    const expected =
      stored === 'producer' ? compressions : [stored === 'uncompressed' ? 'none' : stored]
    assert.deepEqual([...seen], expected, stored)
  }
})

/** A small batch and one of several compression blocks; resolves to the values, in hex. */
async function produceSome(wire: Wire, topic: string, compression: Compression): Promise<string[]> {
  const sent: string[] = []
  for (const count of [1, 6000]) {
    const builder = new BatchBuilder({ maxBytes: MiB })
    for (let index = 0; index < count; index += 1) {
      const value = Buffer.from(`value ${index} `.repeat(index % 13))
      const headers =
        index % 5 === 0
          ? [
              { key: 'h', value: null },
              { key: 'h', value: 'ü' }
            ]
          : []
      builder.append(
        1_700_000_000_000 + index,
        index % 3 === 0 ? null : `key ${index}`,
        value,
        headers
      )
      sent.push(value.toString('hex'))
    }
    const batch = await builder.closeCompressed({}, compression, cpu)
    await wire.produce(topic, batch.bytes)
  }
  return sent
}

async function consumeAll(wire: Wire, topic: string, count: number) {
  const values: (string | null)[] = []
  const seen = new Set<Compression>()
  let position = 0
  while (values.length < count) {
    const { records } = await wire.fetch(topic, position, 0)
    for (const batch of new BatchReader(records)) {
      batch.verify(cpu)
      const payload = await batch.decompress(cpu, 64 * MiB)
      for (const { value } of recordsIn(batch, payload, position)) values.push(value)
      seen.add(batch.compression)
      position = batch.nextOffset
    }
  }
  return { values, seen }
}

/** Six records and four markers: a marker may come behind the records that were sent after it. */
const lastOffset = 9

test('of aborted and committed transactions we keep what Kafka committed', async () => {
  await using wire = new Wire()
  const topic = kafka.uniqueName('records-transactions')
  await wire.createTopic(topic, 'producer')
  await wire.produce(topic, one('plain', {}))
  for (const [value, committed] of [
    ['a', false],
    ['b', true],
    ['c', false],
    ['d', true]
  ] as const) {
    await inTransaction(wire, topic, value, committed)
  }
  await wire.produce(topic, one('end', {}))

  const { records, abortedTransactions } = await fetchUpTo(wire, topic, lastOffset)
  assert.equal(abortedTransactions?.length, 2)
  const aborted = new AbortedTransactions(abortedTransactions)
  const values: (string | null)[] = []
  let controls = 0
  for (const batch of new BatchReader(records)) {
    if (batch.isControl) controls += 1
    if (aborted.drops(batch) || batch.isControl) continue
    for (const { value } of recordsIn(batch, batch.payload)) values.push(value)
  }
  assert.equal(controls, 4)
  assert.deepEqual(
    values,
    ['plain', 'b', 'd', 'end'].map(text => Buffer.from(text).toString('hex'))
  )
})

async function inTransaction(wire: Wire, topic: string, value: string, committed: boolean) {
  const transactionalId = kafka.uniqueName('transaction')
  const to = { transaction: transactionalId }
  const { producerId, producerEpoch } = await settled(wire, () =>
    wire.cluster.request(InitProducerId, { transactionalId, transactionTimeoutMs: 10_000 }, { to })
  )
  const add = {
    v3AndBelowTransactionalId: transactionalId,
    v3AndBelowProducerId: producerId,
    v3AndBelowProducerEpoch: producerEpoch,
    v3AndBelowTopics: [{ name: topic, partitions: [0] }]
  }
  const added = await wire.cluster.request(
    AddPartitionsToTxn,
    { transactions: [], ...add },
    { to, maxVersion: 3 }
  )
  assert.equal(added.resultsByTopicV3AndBelow[0]?.resultsByPartition[0]?.partitionErrorCode, 0)
  const header = { producerId, producerEpoch, baseSequence: 0, transactional: true }
  await wire.produce(topic, one(value, header), transactionalId)
  const end = { transactionalId, producerId, producerEpoch, committed }
  await settled(wire, () => wire.cluster.request(EndTxn, end, { to, maxVersion: 4 }))
}

/** Asks again while the transaction coordinator is still starting. */
function settled<Answer extends { readonly errorCode: number }>(
  wire: Wire,
  ask: () => Promise<Answer>
) {
  return wire.cluster.retrying({}, async () => {
    const answer = await ask()
    return answer.errorCode === 0 ? answer : new Again(answerError(answer.errorCode, 'transaction'))
  })
}

/** The first answer that reaches `offset`: EndTxn is answered before its markers are written. */
async function fetchUpTo(wire: Wire, topic: string, offset: number): Promise<Partition> {
  return await wire.cluster.retrying({}, async () => {
    const partition = await wire.fetch(topic, 0, 1)
    const last = [...new BatchReader(partition.records)].at(-1)?.lastOffset
    return last === offset
      ? partition
      : new Again(new PlayheadError('TIMED_OUT', `it ends at ${last}`))
  })
}

function one(value: string, header: BatchHeader): Buffer {
  const builder = new BatchBuilder({ maxBytes: MiB })
  builder.append(now, null, value)
  return builder.close(header, cpu).bytes
}
