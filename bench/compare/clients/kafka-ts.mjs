import zlib from 'node:zlib'
import kafkaTs from 'kafka-ts'
const { createKafkaClient, setLogger } = kafkaTs
const quiet = () => {}
setLogger({ debug: quiet, info: quiet, warn: console.error, error: console.error })

export const info = {
  package: 'kafka-ts',
  language: 'js',
  text: true, // its keys and values are strings: binary values do not survive it
  protocols: ['classic', 'consumer'],
  idempotence: [true],
  codecs: ['gzip', 'snappy', 'lz4', ...(zlib.zstdCompressSync ? ['zstd'] : [])],
  codecNotes: 'built in (lz4 and snappy in plain JS); it produces uncompressed only',
  api: {
    consume:
      'startConsumer({onBatch}); commits in the background after every batch, cannot be turned off',
    produce: 'send(1000 messages) concurrently, one request in flight a broker; always idempotent',
    each: 'send() of one message, joined by maxBatchSize'
  }
}

const client = brokers => {
  const [host, port] = brokers.split(':')
  return createKafkaClient({ clientId: 'bench', bootstrapServers: [{ host, port: +port }] })
}

export async function consumer({ brokers, topic, group, protocol }, onValue) {
  const consumer = await client(brokers).startConsumer({
    groupId: group,
    topics: [topic],
    fromTimestamp: -2n,
    groupProtocol: protocol,
    minBytes: 1,
    maxWaitMs: 500,
    maxBytes: 50 << 20,
    partitionMaxBytes: 1 << 20,
    onBatch: messages => {
      for (const { value } of messages) onValue(value)
    }
  })
  return { close: () => consumer.close(true) }
}

export async function producer({ brokers, topic, size }) {
  const producer = client(brokers).createProducer({ maxBatchSize: size > 500 ? 2500 : 5000 }) // by count only: a request's partition must stay under 1 MiB
  return {
    send: values => producer.send(values.map(value => ({ topic, value }))),
    close: () => producer.close()
  }
}
