import { KafkaClient } from 'kafka-crab-js'

export const info = {
  package: 'kafka-crab-js',
  language: 'native',
  protocols: ['classic', 'consumer'],
  idempotence: [false, true],
  codecs: ['gzip', 'snappy', 'lz4'],
  codecNotes: 'librdkafka inside its prebuilt binary, which has no zstd',
  api: {
    consume: 'createWebStreamConsumer({batchSize: 4096, batchTimeout: 2}), auto commit every 5 s',
    produce: 'send({messages: 1000}) concurrently',
    each: 'send() of one message'
  }
}

const client = brokers =>
  new KafkaClient({ brokers, clientId: 'bench', diagnostics: false, logLevel: 'error' })

export async function consumer({ brokers, topic, group, protocol, profile }, onValue) {
  const big = profile === 'throughput'
  const { consumer, stream } = client(brokers).createWebStreamConsumer({
    groupId: group,
    enableAutoCommit: true,
    batchSize: big ? 4096 : 64,
    batchTimeout: big ? 2 : 1,
    configuration: {
      'auto.offset.reset': 'earliest',
      'fetch.wait.max.ms': 500,
      ...(protocol === 'consumer' ? { 'group.protocol': 'consumer' } : {}),
      ...(big
        ? {
            'queued.min.messages': 100_000,
            'queued.max.messages.kbytes': 65536,
            'fetch.queue.backoff.ms': 10,
            'max.partition.fetch.bytes': 1 << 20
          }
        : {})
    }
  })
  await consumer.subscribe(topic)
  const reader = stream.getReader()
  const loop = (async () => {
    for (;;) {
      const { value: messages, done } = await reader.read()
      if (done) return
      for (const { payload } of messages) onValue(payload)
    }
  })().catch(error => console.error('kafka-crab', error.message))
  return {
    close: async () => {
      await reader.cancel().catch(() => {})
      await loop
      await consumer.disconnect()
    }
  }
}

export async function producer({ brokers, topic, idempotent, profile }) {
  // With autoFlush every send() waits until nothing at all is in flight: under a steady stream of sends it times out.
  const producer = client(brokers).createProducer({
    autoFlush: profile !== 'latency',
    configuration: {
      acks: 'all',
      'enable.idempotence': idempotent,
      'linger.ms': profile === 'latency' ? 0 : 5,
      'queue.buffering.max.messages': 200_000,
      'batch.size': 1_000_000
    }
  })
  return {
    send: values => producer.send({ topic, messages: values.map(payload => ({ payload })) }),
    close: async () => {
      await producer.flush()
    }
  }
}
