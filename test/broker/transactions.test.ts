/** Transactions by bare requests: what readers see, who is fenced, how they end, and that a restart changes nothing. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { startBroker } from '../../src/broker/broker.ts'
import { Broker } from '../../src/broker.ts'
import { AddPartitionsToTxn } from '../../src/protocol/api/add-partitions-to-txn.ts'
import { DescribeProducers } from '../../src/protocol/api/describe-producers.ts'
import { DescribeTransactions } from '../../src/protocol/api/describe-transactions.ts'
import { EndTxn } from '../../src/protocol/api/end-txn.ts'
import { InitProducerId } from '../../src/protocol/api/init-producer-id.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { JournalStore } from '../../src/store/journal.ts'
import { Disk } from '../../sim/world/disk.ts'
import { Wire, batchOf, recordsOf } from './wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })

interface Who {
  readonly producerId: bigint
  readonly producerEpoch: number
}

async function init(wire: Wire, transactionalId: string, timeoutMs = 60_000): Promise<Who> {
  const body = { transactionalId, transactionTimeoutMs: timeoutMs }
  const { errorCode, producerId, producerEpoch } = await wire.ask(InitProducerId, 5, body)
  assert.equal(errorCode, 0)
  return { producerId, producerEpoch }
}

const end = (wire: Wire, transactionalId: string, who: Who, committed: boolean, version = 5) =>
  wire.ask(EndTxn, version, { transactionalId, ...who, committed })

function part(who: Who, value: string, baseSequence: number): Buffer {
  return batchOf([value], { ...who, baseSequence, transactional: true })
}

const committed = { isolationLevel: 1 }

test('what a transaction wrote is seen when it is committed, and never when it is aborted', async () => {
  await using broker = await Broker.start({ topics: { t: 1 } })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  let who = await init(wire, 'x')
  assert.equal(
    (await wire.produce('t', 0, part(who, 'a', 0), { transactionalId: 'x' })).errorCode,
    0
  )
  await wire.produce('t', 0, batchOf(['plain']))
  const open = await wire.fetch('t', 0, 0, committed)
  assert.deepEqual(recordsOf(open.records), [], 'nothing behind an open transaction is seen')
  assert.deepEqual([open.lastStableOffset, open.highWatermark], [0, 2])
  assert.deepEqual(recordsOf((await wire.fetch('t', 0, 0)).records), ['0:a', '1:plain'])
  assert.equal((await wire.offset('t', 0, -1, 1)).offset, 0)

  const first = await end(wire, 'x', who, true)
  assert.deepEqual([first.errorCode, first.producerEpoch], [0, who.producerEpoch + 1])
  const seen = await wire.fetch('t', 0, 0, committed)
  assert.deepEqual(recordsOf(seen.records), ['0:a', '1:plain', '2!'])
  assert.deepEqual(seen.abortedTransactions, [])

  who = first
  await wire.produce('t', 0, part(who, 'b', 0), { transactionalId: 'x' })
  await end(wire, 'x', who, false)
  const after = await wire.fetch('t', 0, 3, committed)
  const { producerId } = who
  assert.deepEqual(after.abortedTransactions, [{ producerId, firstOffset: 3 }])
  assert.equal(after.lastStableOffset, 5)
  await wire.close()
})

test('an older producer adds its partitions first, and keeps its epoch', async () => {
  await using broker = await Broker.start({ topics: { t: 1 } })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  const who = await init(wire, 'x')
  const early = { transactionalId: 'x', version: 10 }
  const stray = await wire.produce('t', 0, part(who, 'a', 0), early)
  assert.equal(stray.errorCode, KafkaError.INVALID_TXN_STATE)
  const added = await wire.ask(AddPartitionsToTxn, 3, {
    v3AndBelowTransactionalId: 'x',
    v3AndBelowProducerId: who.producerId,
    v3AndBelowProducerEpoch: who.producerEpoch,
    v3AndBelowTopics: [{ name: 't', partitions: [0] }]
  })
  assert.equal(added.resultsByTopicV3AndBelow[0]?.resultsByPartition[0]?.partitionErrorCode, 0)
  assert.equal((await wire.produce('t', 0, part(who, 'a', 0), early)).errorCode, 0)
  assert.equal((await end(wire, 'x', who, true, 3)).errorCode, 0)
  assert.equal((await end(wire, 'x', who, true, 3)).errorCode, 0, 'a retry is no error')
  const other = await end(wire, 'x', who, false, 3)
  assert.equal(other.errorCode, KafkaError.INVALID_TXN_STATE)
  assert.deepEqual(recordsOf((await wire.fetch('t', 0, 0, committed)).records), ['0:a', '1!'])
  await wire.close()
})

test('an end that is sent again is done once, and another one is refused', async () => {
  await using broker = await Broker.start({ topics: { t: 1 } })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  const who = await init(wire, 'x')
  await wire.produce('t', 0, part(who, 'a', 0), { transactionalId: 'x' })
  const first = await end(wire, 'x', who, true)
  const again = await end(wire, 'x', who, true)
  assert.deepEqual(again, first)
  assert.equal((await end(wire, 'x', who, false)).errorCode, KafkaError.INVALID_TXN_STATE)
  assert.equal((await end(wire, 'x', first, true)).errorCode, KafkaError.INVALID_TXN_STATE)
  assert.deepEqual(recordsOf((await wire.fetch('t', 0, 0)).records), ['0:a', '1!'])
  // An abort of nothing is how a producer takes a new epoch.
  const bumped = await end(wire, 'x', first, false)
  assert.deepEqual([bumped.errorCode, bumped.producerEpoch], [0, first.producerEpoch + 1])
  await wire.close()
})

test('a second producer of an id aborts what the first has open, and fences it', async () => {
  await using broker = await Broker.start({ topics: { t: 1 } })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  const first = await init(wire, 'x')
  await wire.produce('t', 0, part(first, 'a', 0), { transactionalId: 'x' })
  const second = await init(wire, 'x')
  assert.equal(second.producerId, first.producerId)
  assert(second.producerEpoch > first.producerEpoch)
  const late = await wire.produce('t', 0, part(first, 'late', 1), { transactionalId: 'x' })
  assert.equal(late.errorCode, KafkaError.INVALID_PRODUCER_EPOCH)
  assert.equal((await end(wire, 'x', first, true)).errorCode, KafkaError.PRODUCER_FENCED)
  const seen = await wire.fetch('t', 0, 0, committed)
  assert.deepEqual(seen.abortedTransactions, [{ producerId: first.producerId, firstOffset: 0 }])
  await wire.close()
})

test('a transaction that runs out of time is aborted, and its producer fenced', async () => {
  await using broker = await Broker.start({ topics: { t: 1 } })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  const who = await init(wire, 'x', 30)
  await wire.produce('t', 0, part(who, 'a', 0), { transactionalId: 'x' })
  const waiting = await wire.fetch('t', 0, 1, { maxWaitMs: 10_000 })
  assert.deepEqual(recordsOf(waiting.records), ['1!'])
  assert.equal((await end(wire, 'x', who, true)).errorCode, KafkaError.PRODUCER_FENCED)
  await wire.close()
})

test('an open transaction lives through a restart, with its producers, its end and its aborted ones', async () => {
  let disk = new Disk()
  const open = async () => {
    disk = disk.afterKill()
    const journal = { files: disk, cpu: env.cpu, log: env.log, durability: 'os' } as const
    return startBroker({ env, store: await JournalStore.open(journal) }, { topics: { t: 1 } })
  }
  let broker = await open()
  let wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  const first = await init(wire, 'x')
  await wire.produce('t', 0, part(first, 'a', 0), { transactionalId: 'x' })
  const who = await end(wire, 'x', first, false)
  await wire.produce('t', 0, part(who, 'b', 0), { transactionalId: 'x' })
  await wire.close()
  await broker.close()

  broker = await open()
  wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  assert.equal((await wire.fetch('t', 0, 0, committed)).lastStableOffset, 2)
  const { transactionStates } = await wire.ask(DescribeTransactions, 0, { transactionalIds: ['x'] })
  assert.equal(transactionStates[0]?.transactionState, 'Ongoing')
  assert.deepEqual(transactionStates[0]?.topics, [{ topic: 't', partitions: [0] }])
  const again = await wire.produce('t', 0, part(who, 'b', 0), { transactionalId: 'x' })
  assert.deepEqual([again.errorCode, again.baseOffset], [0, 2])
  const producers = await wire.ask(DescribeProducers, 0, {
    topics: [{ name: 't', partitionIndexes: [0] }]
  })
  assert.equal(producers.topics[0]?.partitions[0]?.activeProducers[0]?.currentTxnStartOffset, 2)
  assert.equal((await end(wire, 'x', who, true)).errorCode, 0)
  const seen = await wire.fetch('t', 0, 0, committed)
  assert.deepEqual(recordsOf(seen.records), ['0:a', '1!', '2:b', '3!'])
  const { producerId } = who
  assert.deepEqual(seen.abortedTransactions, [{ producerId, firstOffset: 0 }])
  assert.notEqual((await init(wire, 'y')).producerId, producerId)
  await wire.close()
  await broker.close()
})

test('before the marker of an aborted transaction is stored, nothing of it counts as stable', async () => {
  await using broker = await Broker.start({ brokers: 1, topics: { t: 1 } })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  const who = await init(wire, 'x')
  await wire.produce('t', 0, part(who, 'a', 0), { transactionalId: 'x' })
  // In one write: the fetch is read in the same turn in which the end was decided.
  const [ended, seen] = await Promise.all([
    end(wire, 'x', who, false),
    wire.fetch('t', 0, 0, committed)
  ])
  assert.equal(ended.errorCode, 0)
  const aborted = seen.abortedTransactions ?? []
  assert(recordsOf(seen.records).length === 0 || aborted.length === 1)
  await wire.close()
})
