/**
 * Producing end to end against a real cluster: records a second, time to the acknowledgement, CPU.
 *
 *   node build/bench/produce.js --bootstrap 127.0.0.1:9092 [--records 500000] [--bytes 100] [--partitions 3]
 *     [--each] [--keys] [--compression none] [--linger 0] [--batch 1000000] [--window 10000] [--rounds 3]
 *
 * By default calls of `sendMany` with 1,000 records, as many at once as `--window` records are; with `--each`,
 * one awaited `send` a record. On a shared machine the figure means something beside others of the same minute only.
 */
import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import { type Compression, Playhead, type Producer, type ProducerRecord } from '../src/index.ts'
import { CreateTopics } from '../src/protocol/api/create-topics.ts'
import { DeleteTopics } from '../src/protocol/api/delete-topics.ts'

const { values: options } = parseArgs({
  options: {
    bootstrap: { type: 'string', default: '127.0.0.1:9092' },
    records: { type: 'string', default: '500000' },
    bytes: { type: 'string', default: '100' },
    partitions: { type: 'string', default: '3' },
    each: { type: 'boolean', default: false },
    keys: { type: 'boolean', default: false },
    compression: { type: 'string', default: 'none' },
    linger: { type: 'string', default: '0' },
    batch: { type: 'string', default: '1000000' },
    window: { type: 'string', default: '10000' },
    rounds: { type: 'string', default: '3' }
  }
})
const count = Number(options.records)
/** Topics are named, not identified. */
const zeroId = 'AAAAAAAAAAAAAAAAAAAAAA'
const chunk = options.each ? 1 : 1000
const value = randomBytes(Number(options.bytes)).toString('base64').slice(0, Number(options.bytes))
const bytes = Buffer.from(value)

function record(i: number): ProducerRecord {
  return options.keys ? { key: `key-${i % 1000}`, value: bytes } : { value: bytes }
}

/** Resolves when all are acknowledged; milliseconds from each call to its end, sorted. */
async function run(producer: Producer, topic: string): Promise<number[]> {
  const window = Number(options.window)
  const took: number[] = []
  let next = 0
  let flying = 0
  await new Promise<void>((resolve, reject) => {
    const launch = () => {
      while (flying < window && next < count) {
        const first = next
        const size = Math.min(chunk, count - first)
        next += size
        flying += size
        const at = performance.now()
        const sent = options.each
          ? producer.send(topic, record(first))
          : producer.sendMany(
              topic,
              Array.from({ length: size }, (_, i) => record(first + i))
            )
        sent.then(() => {
          took.push(performance.now() - at)
          flying -= size
          if (flying === 0 && next === count) resolve()
          else launch()
        }, reject)
      }
    }
    launch()
  })
  return took.sort((a, b) => a - b)
}

await using kafka = new Playhead({ bootstrap: options.bootstrap.split(',') })
for (let round = 1; round <= Number(options.rounds); round++) {
  const topic = `bench-${randomBytes(5).toString('hex')}`
  const wanted = { name: topic, numPartitions: Number(options.partitions), replicationFactor: -1 }
  await kafka.cluster.request(CreateTopics, {
    topics: [{ ...wanted, assignments: [], configs: [] }],
    timeoutMs: 10_000
  })
  await using producer = kafka.producer({
    compression: options.compression as Compression,
    lingerMs: Number(options.linger),
    batchBytes: Number(options.batch)
  })
  // Connections, metadata, the producer id and the files of the partitions are not part of the throughput.
  const each = Array.from({ length: wanted.numPartitions }, (_, partition) => ({ partition }))
  await producer.sendMany(topic, each)
  const cpu = process.cpuUsage()
  const start = performance.now()
  const took = await run(producer, topic)
  const ms = performance.now() - start
  const { user, system } = process.cpuUsage(cpu)
  const percentile = (p: number) => took[Math.floor((took.length - 1) * p)]?.toFixed(2)
  console.log(
    `round ${round}: ${Math.round((count / ms) * 1000).toLocaleString('en')} records/s, ` +
      `ack p50 ${percentile(0.5)} p99 ${percentile(0.99)} ms, ` +
      `${((user + system) / count).toFixed(2)} CPU s per million, ` +
      `${Math.round(process.memoryUsage().rss / 2 ** 20)} MiB`
  )
  const doomed = { name: topic, topicId: zeroId }
  await kafka.cluster.request(DeleteTopics, { topics: [doomed], timeoutMs: 10_000 })
}
