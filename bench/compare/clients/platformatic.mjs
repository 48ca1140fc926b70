import zlib from 'node:zlib'
import { Consumer, Producer, ProducerStreamReportModes } from '@platformatic/kafka'

if (!Promise.withResolvers) throw new Error('@platformatic/kafka calls what Node has from 22 on')

export const info = {
  package: '@platformatic/kafka',
  language: 'js',
  protocols: ['classic', 'consumer'],
  idempotence: [false, true],
  codecs: ['gzip', 'snappy', 'lz4', ...(zlib.zstdCompressSync ? ['zstd'] : [])],
  codecNotes: 'all built in (wasm for lz4 and snappy, node:zlib for gzip and zstd)',
  api: {
    consume: "consume() stream, on('data'), autocommit every 5 s",
    produce: 'send({messages: 1000}) concurrently',
    each: "asStream() with reportMode 'message'"
  }
}

export async function consumer({ brokers, topic, group, protocol }, onValue) {
  const consumer = new Consumer({
    groupId: group,
    clientId: 'bench',
    bootstrapBrokers: [brokers],
    autocommit: 5000,
    ...(protocol === 'consumer' ? { groupProtocol: 'consumer' } : {}),
    minBytes: 1,
    maxBytes: 50 << 20,
    maxBytesPerPartition: 1 << 20,
    maxWaitTime: 500,
    highWaterMark: 1024
  })
  const stream = await consumer.consume({
    topics: [topic],
    mode: 'committed',
    fallbackMode: 'earliest'
  })
  stream.on('data', message => onValue(message.value))
  stream.on('error', error => {
    console.error('platformatic stream', error.message)
  })
  return {
    close: async () => {
      await stream.close()
      await consumer.close(true)
    }
  }
}

export async function producer({ brokers, topic, idempotent, profile }) {
  const producer = new Producer({
    clientId: 'bench',
    bootstrapBrokers: [brokers],
    idempotent,
    acks: -1,
    autocreateTopics: false
  })
  if (profile !== 'each') {
    return {
      send: values =>
        producer.send({ messages: values.map(value => ({ topic, value })), acks: -1, idempotent }),
      close: () => producer.close(true)
    }
  }
  const stream = producer.asStream({
    acks: -1,
    idempotent,
    batchSize: 500,
    batchTime: 1,
    highWaterMark: 10_000,
    reportMode: ProducerStreamReportModes.MESSAGE
  })
  const waiting = new Map()
  stream.on('delivery-report', ({ message }) => {
    const resolve = waiting.get(message)
    waiting.delete(message)
    resolve()
  })
  return {
    send: ([value]) =>
      new Promise(resolve => {
        const message = { topic, value }
        waiting.set(message, resolve)
        stream.write(message)
      }),
    close: async () => {
      await stream.close()
      await producer.close(true)
    }
  }
}
