// Playhead's adapters differ in how they read; everything else is here. Needs `npm run build`.
import { readFileSync } from 'node:fs'
import { Playhead } from '../../../dist/index.js'

const { version } = JSON.parse(
  readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')
)

const client = brokers => new Playhead({ bootstrap: [brokers], clientId: 'bench' })

/** An adapter that hands each record's value to `onValue` by `read(consumer, onValue)`. */
export function adapter(consume, read) {
  return {
    info: {
      package: 'playhead',
      version,
      language: 'js',
      protocols: ['classic', 'consumer'],
      idempotence: [false, true],
      codecs: ['gzip', 'snappy', 'lz4', 'zstd'],
      codecNotes:
        'snappy and lz4 prebuilt, gzip and zstd from node:zlib (zstd in wasm before Node 22.15)',
      api: {
        consume: `${consume}; defaults: commits every 5 s, checksums verified`,
        produce: 'sendMany() of 1000 records, concurrently',
        each: 'send() of one record, a promise each'
      }
    },

    consumer: async ({ brokers, topic, group, protocol = 'auto' }, onValue) => {
      const kafka = client(brokers)
      const consumer = kafka.consumer({ group, topics: [topic], protocol, startFrom: 'earliest' })
      const reading = read(consumer, onValue)
      return {
        async close() {
          await consumer.close()
          await reading
          await kafka.close()
        }
      }
    },

    producer: async ({ brokers, topic, idempotent, profile }) => {
      const kafka = client(brokers)
      const producer = kafka.producer({ idempotent })
      const many = values =>
        producer.sendMany(
          topic,
          values.map(value => ({ value }))
        )
      return {
        send: profile === 'throughput' ? many : ([value]) => producer.send(topic, { value }),
        async close() {
          await producer.close()
          await kafka.close()
        }
      }
    }
  }
}
