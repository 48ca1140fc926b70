/**
 * A broker that answers a consumer's fetches with what was never asked for, with nonsense, or with bombs: nothing false is
 * delivered, what is damaged is told by topic, partition and offset, and what is good afterwards is read (S3, S4, S5).
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { PlayheadError } from '../../src/base/error.ts'
import { silentLog } from '../../src/base/node/log.ts'
import { Broker } from '../../src/broker.ts'
import { Playhead } from '../../src/index.ts'
import { batchOf } from '../broker/wire.ts'

const cpu = nodeCpu()

interface Asked {
  readonly topics: readonly { readonly topicId: string }[]
}

/** One partition of a Fetch answer. */
function part(records: Buffer | null, more: object = {}) {
  return {
    partitionIndex: 0,
    errorCode: 0,
    highWatermark: 5,
    lastStableOffset: 5,
    logStartOffset: 0,
    abortedTransactions: null,
    preferredReadReplica: -1,
    records,
    ...more
  }
}

function answerOf(topicId: string, partitions: readonly object[], more: readonly object[] = []) {
  return {
    throttleTimeMs: 0,
    errorCode: 0,
    sessionId: 0,
    responses: [{ topicId, partitions }, ...more]
  }
}

/** What a consumer gets of a topic that holds 'a' and 'b', when its first fetch, or each, is answered so. */
async function read(answer: (topicId: string) => object, always = false) {
  await using broker = await Broker.start({ topics: { orders: 1 }, log: silentLog })
  await using kafka = new Playhead({ bootstrap: broker.bootstrap, log: silentLog })
  const producer = kafka.producer()
  for (const value of ['a', 'b']) await producer.send('orders', { value })
  let answered = false
  broker.control.on('Fetch', ({ body }) => {
    const topicId = (body as unknown as Asked).topics[0]?.topicId
    if ((answered && !always) || topicId === undefined) return undefined
    answered = true
    return { answer: answer(topicId) as never }
  })
  await using consumer = kafka.consumer({ assign: [{ topic: 'orders', partition: 0, offset: 0 }] })
  const values: string[] = []
  const errors: PlayheadError[] = []
  consumer.on('error', ({ error }) => errors.push(error))
  while (values.length < 2 && errors.length < 1) {
    try {
      for (const { value } of await consumer.poll({ timeoutMs: 5_000 })) values.push(String(value))
    } catch (error) {
      assert(error instanceof PlayheadError, String(error))
      errors.push(error)
    }
  }
  assert(answered, 'it was asked')
  return { values, errors }
}

const nowhere = 'AAAAAAAAAAAAAAAAAAAAAw'

const unasked: readonly (readonly [what: string, answer: (topicId: string) => object])[] = [
  [
    'partitions that were not asked for',
    id =>
      answerOf(
        id,
        [7, -1, 2 ** 31 - 1].map(partitionIndex => part(batchOf(['forged']), { partitionIndex }))
      )
  ],
  [
    'a topic that was not asked for',
    id => answerOf(id, [], [{ topicId: nowhere, partitions: [part(batchOf(['forged']))] }])
  ],
  [
    'a hundred thousand partitions',
    id =>
      answerOf(
        id,
        Array.from({ length: 100_000 }, (_, i) => part(null, { partitionIndex: i + 1 }))
      )
  ],
  [
    'nothing, with offsets that cannot be',
    id =>
      answerOf(id, [part(null, { highWatermark: -1, lastStableOffset: -9, logStartOffset: -5 })])
  ],
  [
    'a preferred replica that is nobody',
    id => answerOf(id, [part(null, { preferredReadReplica: 4711 })])
  ]
]

for (const [what, answer] of unasked) {
  test(`a fetch that is answered with ${what} delivers nothing false, and the next what there is`, async () => {
    const { values, errors } = await read(answer)
    assert.deepEqual(errors, [])
    assert.deepEqual(values, ['a', 'b'])
  })
}

test('a broker that keeps no fetch session for us is read like any other', async () => {
  const { values } = await read(id => answerOf(id, [part(batchOf(['first', 'second']))]))
  assert.deepEqual(values, ['first', 'second'])
})

const damaged: readonly (readonly [what: string, records: () => Buffer, code: string])[] = [
  [
    'a bomb',
    () => compressed(gzipSync(Buffer.alloc(200 * 1024 * 1024), { level: 1 })),
    'DECOMPRESSION_FAILED'
  ],
  ['a batch of a negative length', () => withInt32(8, -5), 'CORRUPT_RECORDS'],
  ['a batch of 2^31-1 records', () => withInt32(57, 2 ** 31 - 1), 'CORRUPT_RECORDS'],
  ['a batch of -3 records', () => withInt32(57, -3), 'CORRUPT_RECORDS'],
  ['a batch whose checksum is wrong', () => withInt32(17, 1, false), 'CORRUPT_RECORDS']
]

for (const [what, records, code] of damaged) {
  test(`a fetch that is answered with ${what} is told by topic, partition and offset, in bounded memory`, async () => {
    const bytes = records()
    const before = process.memoryUsage()
    const { values, errors } = await read(id => answerOf(id, [part(bytes)]), true)
    const after = process.memoryUsage()
    const grown = after.heapUsed + after.external - before.heapUsed - before.external
    assert(grown < 150 * 1024 * 1024, `${grown} bytes more`)
    const [error] = errors
    assert.equal(error?.code, code, `${values.join()} ${error?.message}`)
    assert.deepEqual([error?.topic, error?.partition], ['orders', 0])
    assert.match(error?.message ?? '', /offset 0|orders-0/)
    assert.deepEqual(values, [])
  })
}

/** A batch with this number at this place, and a right checksum unless it is to be wrong. */
function withInt32(at: number, value: number, summed = true): Buffer {
  const batch = Buffer.from(batchOf(['forged']))
  batch.writeInt32BE(value, at)
  if (summed) batch.writeUInt32BE(cpu.crc32c(batch.subarray(21)), 17)
  return batch
}

/** A batch of one record by its header, with this in its place, compressed by gzip as it says. */
function compressed(payload: Buffer): Buffer {
  const batch = Buffer.concat([batchOf(['x']).subarray(0, 61), payload])
  batch.writeInt32BE(batch.length - 12, 8)
  batch.writeInt16BE(1, 21)
  batch.writeUInt32BE(cpu.crc32c(batch.subarray(21)), 17)
  return batch
}
