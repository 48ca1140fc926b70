// Playhead's adapter for the comparison of clients: the shape that each client of that benchmark has. Put a file
// into its `clients/` that says: export * from 'PATH OF THIS CHECKOUT/bench/compare/playhead.mjs', after `npm run build`.
import { Playhead } from '../../build/src/index.js'

export const info = {
  package: 'playhead',
  version: '0.1.0',
  language: 'js',
  protocols: ['classic', 'consumer'],
  idempotence: [false, true],
  codecs: ['gzip', 'snappy', 'lz4', 'zstd'],
  codecNotes: 'snappy and lz4 prebuilt, gzip and zstd from node:zlib',
  api: {
    consume: 'batches(), each record value touched; commits every 5 s',
    produce: 'sendMany() of 1000 records, concurrently',
    each: 'send() of one record, a promise each'
  }
}

const client = brokers => new Playhead({ bootstrap: [brokers], clientId: 'bench' })

export async function consumer({ brokers, topic, group, protocol = 'auto' }, onValue) {
  const kafka = client(brokers)
  const consumer = kafka.consumer({ group, topics: [topic], protocol, startFrom: 'earliest' })
  const reading = (async () => {
    if (process.env.PLAYHEAD_EACH) for await (const record of consumer) onValue(record.value)
    else
      for await (const batch of consumer.batches())
        for (const record of batch) onValue(record.value)
  })()
  return {
    async close() {
      await consumer.close()
      await reading
      await kafka.close()
    }
  }
}

export async function producer({ brokers, topic, idempotent, profile }) {
  const kafka = client(brokers)
  const producer = kafka.producer({ idempotent })
  return {
    send:
      profile === 'throughput'
        ? values =>
            producer.sendMany(
              topic,
              values.map(value => ({ value }))
            )
        : ([value]) => producer.send(topic, { value }),
    async close() {
      await producer.close()
      await kafka.close()
    }
  }
}
