import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'
import zlib from 'node:zlib'
import { createRequire } from 'node:module'
const { Kafka, CompressionTypes, CompressionCodecs, Partitioners, logLevel } = kafkajs

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => {
  const lz4 = createRequire(import.meta.url)('lz4-napi')
  return { compress: e => lz4.compressFrame(e.buffer), decompress: b => lz4.decompressFrame(b) }
}
if (zlib.zstdCompressSync)
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: e => zlib.zstdCompressSync(e.buffer),
    decompress: b => zlib.zstdDecompressSync(b)
  })

export const info = {
  package: 'kafkajs',
  language: 'js',
  protocols: ['classic'],
  idempotence: [false, true],
  codecs: ['gzip', 'snappy', 'lz4', ...(zlib.zstdCompressSync ? ['zstd'] : [])],
  codecNotes:
    'gzip built in; snappy by kafkajs-snappy; lz4 by lz4-napi, zstd by node:zlib, registered as custom codecs',
  api: {
    consume:
      'run({eachBatch}), 3 partitions concurrently, autoCommit off and commitOffsets every 5 s',
    produce: 'send({messages: 1000}) concurrently',
    each: 'send() of one message'
  }
}

const client = (brokers, id) =>
  new Kafka({ clientId: id, brokers: [brokers], logLevel: logLevel.NOTHING })

export async function consumer({ brokers, topic, group }, onValue) {
  const consumer = client(brokers, 'bench').consumer({
    groupId: group,
    minBytes: 1,
    maxWaitTimeInMs: 500,
    maxBytes: 50 << 20,
    maxBytesPerPartition: 1 << 20
  })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const done = new Map()
  await consumer.run({
    partitionsConsumedConcurrently: 3,
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      for (const { value } of batch.messages) onValue(value)
      done.set(batch.partition, batch.lastOffset())
    }
  })
  const commit = () =>
    consumer.commitOffsets(
      [...done].map(([partition, last]) => ({
        topic,
        partition,
        offset: String(BigInt(last) + 1n)
      }))
    )
  const timer = setInterval(() => commit().catch(() => {}), 5000)
  return {
    close: async () => {
      clearInterval(timer)
      await consumer.disconnect()
    }
  }
}

export async function producer({ brokers, topic, idempotent }) {
  const producer = client(brokers, 'bench').producer({
    createPartitioner: Partitioners.DefaultPartitioner,
    allowAutoTopicCreation: false,
    idempotent,
    ...(idempotent ? { maxInFlightRequests: 1 } : {})
  })
  await producer.connect()
  return {
    send: values => producer.send({ topic, acks: -1, messages: values.map(value => ({ value })) }),
    close: () => producer.disconnect()
  }
}
