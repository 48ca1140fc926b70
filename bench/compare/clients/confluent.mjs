import confluent from '@confluentinc/kafka-javascript'
const { Kafka } = confluent.KafkaJS

export const info = {
  package: '@confluentinc/kafka-javascript',
  language: 'native',
  protocols: ['classic', 'consumer'],
  idempotence: [false, true],
  codecs: ['gzip', 'snappy', 'lz4', 'zstd'],
  codecNotes: `all in librdkafka ${confluent.librdkafkaVersion}`,
  api: {
    consume:
      'KafkaJS-like API: run({eachBatch}), js.consumer.max.batch.size 1000, js cache 20 ms, auto commit every 5 s',
    produce: 'KafkaJS-like send({messages: 1000}) concurrently',
    each: 'KafkaJS-like send() of one message'
  }
}

const quiet = { log_level: 0 }

export async function consumer({ brokers, topic, group, protocol, profile }, onValue) {
  const consumer = new Kafka().consumer({
    ...quiet,
    'bootstrap.servers': brokers,
    'group.id': group,
    'auto.offset.reset': 'earliest',
    'fetch.wait.max.ms': 500,
    ...(protocol === 'consumer' ? { 'group.protocol': 'consumer' } : {}),
    ...(profile === 'throughput'
      ? {
          'js.consumer.max.batch.size': 1000,
          'js.consumer.max.cache.size.per.worker.ms': 20,
          'queued.min.messages': 100_000,
          'queued.max.messages.kbytes': 65536,
          'fetch.queue.backoff.ms': 10,
          'max.partition.fetch.bytes': 1 << 20
        }
      : {})
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic] })
  await consumer.run({
    partitionsConsumedConcurrently: 3,
    eachBatch: async ({ batch }) => {
      for (const { value } of batch.messages) onValue(value)
    }
  })
  return { close: () => consumer.disconnect() }
}

export async function producer({ brokers, topic, idempotent, profile }) {
  const producer = new Kafka().producer({
    ...quiet,
    'bootstrap.servers': brokers,
    acks: 'all',
    'enable.idempotence': idempotent,
    'linger.ms': profile === 'latency' ? 0 : 5,
    'queue.buffering.max.messages': 200_000,
    'batch.size': 1_000_000
  })
  await producer.connect()
  return {
    send: values => producer.send({ topic, messages: values.map(value => ({ value })) }),
    close: () => producer.disconnect()
  }
}
