import rdkafka from 'node-rdkafka'
const { KafkaConsumer, Producer } = rdkafka

export const info = {
  package: 'node-rdkafka',
  language: 'native',
  protocols: ['classic', 'consumer'],
  idempotence: [false, true],
  codecs: ['gzip', 'snappy', 'lz4', 'zstd'],
  codecNotes: `all in librdkafka ${rdkafka.librdkafkaVersion}`,
  api: {
    consume: 'consume(10000, callback) in a loop (latency: flowing mode), auto commit every 5 s',
    produce: 'produce() with delivery reports (dr_cb), polled in the background',
    each: 'the same'
  }
}

export async function consumer({ brokers, topic, group, protocol, profile }, onValue) {
  const consumer = new KafkaConsumer(
    {
      'bootstrap.servers': brokers,
      'group.id': group,
      'enable.auto.commit': true,
      'fetch.wait.max.ms': 500,
      ...(protocol === 'consumer' ? { 'group.protocol': 'consumer' } : {}),
      ...(profile === 'throughput'
        ? {
            'queued.min.messages': 100_000,
            'queued.max.messages.kbytes': 65536,
            'fetch.queue.backoff.ms': 10,
            'max.partition.fetch.bytes': 1 << 20
          }
        : {})
    },
    { 'auto.offset.reset': 'earliest' }
  )
  await new Promise((resolve, reject) =>
    consumer.connect({}, error => (error ? reject(new Error(error.message)) : resolve()))
  )
  consumer.subscribe([topic])
  let open = true
  const loop = () =>
    consumer.consume(10_000, (error, messages) => {
      if (!open) return
      if (messages) for (const { value } of messages) onValue(value)
      loop()
    })
  if (profile === 'throughput') {
    consumer.setDefaultConsumeTimeout(20)
    loop()
  } else {
    consumer.on('data', ({ value }) => onValue(value))
    consumer.consume()
  }
  return {
    close: () => {
      open = false
      return new Promise(resolve => consumer.disconnect(resolve))
    }
  }
}

export async function producer({ brokers, topic, idempotent, profile }) {
  const producer = new Producer({
    'bootstrap.servers': brokers,
    acks: -1,
    'enable.idempotence': idempotent,
    dr_cb: true,
    'linger.ms': profile === 'latency' ? 0 : 5,
    'queue.buffering.max.messages': 200_000,
    'batch.size': 1_000_000
  })
  await new Promise((resolve, reject) =>
    producer.connect({}, error => (error ? reject(new Error(error.message)) : resolve()))
  )
  producer.setPollInBackground?.(true)
  if (!producer.setPollInBackground) producer.setPollInterval(1)
  producer.on('delivery-report', (error, report) => {
    const job = report.opaque
    if (error) job.reject(error)
    else if (--job.left === 0) job.resolve()
  })
  return {
    send: values =>
      new Promise((resolve, reject) => {
        const job = { left: values.length, resolve, reject }
        for (const value of values) producer.produce(topic, null, value, null, null, job)
      }),
    close: () => new Promise(resolve => producer.disconnect(resolve))
  }
}
