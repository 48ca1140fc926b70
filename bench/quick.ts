/**
 * Whether a change made something slower, in under a minute and without Kafka: decoding, encoding, and client and embedded
 * broker end to end in one process, each as a ratio to a bare loop that moves the same bytes in the same rounds. A figure
 * of a shared machine means nothing tomorrow; a ratio does. It is held against bench/quick.json, and fails when one has
 * fallen by half.
 *
 *   npm run bench -- quick [--update] [--rounds 7]
 */
import { readFileSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { parseArgs } from 'node:util'
import { Broker } from '../src/broker.ts'
import { nodeCpu } from '../src/base/node/cpu.ts'
import { Playhead } from '../src/index.ts'
import { Metadata } from '../src/protocol/api/metadata.ts'
import { BatchReader } from '../src/protocol/records/batch.ts'
import { rawRecords } from '../src/protocol/records/record.ts'
import { RecordSource } from '../src/protocol/records/source.ts'
import { bareRead, bareWrite, build, values } from './batches.ts'
import { type Case, medians } from './rounds.ts'

const { values: options } = parseArgs({
  options: { update: { type: 'boolean' }, rounds: { type: 'string', default: '7' } }
})
const baselineFile = new URL('../../bench/quick.json', import.meta.url)
const cpu = nodeCpu()
const mebibyte = 1024 * 1024
/** Records that a topic holds, and that one case's run reads or writes. */
const recordCount = 100_000
/** A case's turn. */
const turnMs = 150
const questionCount = 200

const batches: Buffer[] = []
const decoded = build(values, 16 * 1024, mebibyte, batch => batches.push(Buffer.from(batch)))
const answer = Buffer.concat(batches)
const room = Buffer.alloc(mebibyte)
let sum = 0

function decode(): number {
  for (const batch of new BatchReader(answer)) {
    batch.verify(cpu)
    for (const record of rawRecords(new RecordSource(batch, batch.payload, 'topic', 0))) {
      sum += record.value?.[0] ?? 0
    }
  }
  return decoded
}

function encode(): number {
  return build(values, 16 * 1024, mebibyte, batch => (sum += batch.length))
}

/** The other end of a bare socket takes `takes` bytes and gives `gives` for them; an exchange is `times` of that. */
async function barePeer(takes: number, gives: Buffer, times = 1) {
  const server = net.createServer(socket => {
    let missing = takes
    socket.setNoDelay(true)
    socket.on('data', chunk => {
      missing -= chunk.length
      while (missing <= 0) {
        missing += takes
        socket.write(gives)
      }
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const socket = net.connect((server.address() as net.AddressInfo).port, '127.0.0.1')
  socket.setNoDelay(true)
  const received = Buffer.alloc(gives.length * times)
  let filled = 0
  let whole: () => void = () => {}
  socket.on('data', chunk => {
    filled += chunk.copy(received, filled)
    if (filled === received.length) {
      filled = 0
      whole()
    }
  })
  return {
    received,
    exchange: (bytes: Buffer) =>
      new Promise<void>(resolve => {
        whole = resolve
        socket.write(bytes)
      }),
    close: () => {
      socket.destroy()
      server.close()
    }
  }
}

await using broker = await Broker.start({ topics: { read: 3, written: 3 } })
const kafka = new Playhead({ bootstrap: broker.bootstrap })
const producer = kafka.producer()
const thousand = Array.from({ length: 1000 }, (_, i) => ({ value: values[i] ?? null }))

/** Ten calls at a time, as an application that has much to send. */
async function produce(topic: string): Promise<number> {
  for (let sent = 0; sent < recordCount; sent += 10_000) {
    await Promise.all(Array.from({ length: 10 }, () => producer.sendMany(topic, thousand)))
  }
  return recordCount
}

async function consume(): Promise<number> {
  await using consumer = kafka.consumer({
    assign: [0, 1, 2].map(partition => ({ topic: 'read', partition, offset: 'earliest' as const }))
  })
  let count = 0
  for await (const batch of consumer.batches()) {
    for (const record of batch) {
      sum += record.value?.[0] ?? 0
      count++
    }
    if (count >= recordCount) break
  }
  return count
}

/** Many at once: one after the other would measure how the machine schedules. */
async function ask(): Promise<number> {
  const one = () => kafka.cluster.request(Metadata, { topics: [] }, { to: 'any' })
  await Promise.all(Array.from({ length: questionCount }, one))
  return questionCount
}

const reading = await barePeer(1, answer)
const writing = await barePeer(mebibyte, Buffer.alloc(1))
const asking = await barePeer(32, Buffer.alloc(64), questionCount)
const questions = Buffer.alloc(32 * questionCount)

const cases: readonly (readonly [Case, Case])[] = [
  [
    { name: 'decode', run: decode },
    {
      name: 'read bare, and the checksum',
      run: () => {
        sum += cpu.crc32c(answer) + bareRead(answer)
        return decoded
      }
    }
  ],
  [
    { name: 'encode', run: encode },
    {
      name: 'write bare',
      run: () => {
        bareWrite(values, room)
        return decoded
      }
    }
  ],
  [
    { name: 'consume', run: consume },
    {
      name: 'read bare from a socket',
      run: async () => {
        await reading.exchange(Buffer.alloc(1))
        sum += bareRead(reading.received)
        return decoded
      }
    }
  ],
  [
    { name: 'produce', run: () => produce('written') },
    {
      name: 'write bare to a socket',
      run: async () => {
        bareWrite(values, room)
        await writing.exchange(room)
        return decoded
      }
    }
  ],
  [
    { name: 'ask', run: ask },
    {
      name: 'ask bare',
      run: async () => {
        await asking.exchange(questions)
        return questionCount
      }
    }
  ]
]

await produce('read')
const rates = await medians(cases.flat(), Number(options.rounds), turnMs)
const baseline = JSON.parse(readFileSync(baselineFile, 'utf8')) as Record<string, number>
const found: Record<string, number> = {}
console.log(
  `Node ${process.version}: records (or questions) a second, and the ratio to a bare loop\n`
)
console.log('           ours        bare        ratio   before')
for (const [ours, bare] of cases) {
  const [rate, bareRate] = [rates.get(ours.name) ?? 0, rates.get(bare.name) ?? 1]
  const ratio = rate / bareRate
  found[ours.name] = Number(ratio.toPrecision(3))
  const cells = [Math.round(rate), Math.round(bareRate)].map(n =>
    n.toLocaleString('en').padStart(11)
  )
  const before = baseline[ours.name] ?? 0
  const verdict = ratio < before / 2 ? '  fallen by half' : ''
  if (verdict) process.exitCode = 1
  console.log(
    `${ours.name.padEnd(8)}${cells.join(' ')}  ${ratio.toFixed(3).padStart(9)}  ${before.toFixed(3).padStart(7)}${verdict}`
  )
}
if (options.update) {
  process.exitCode = 0
  writeFileSync(baselineFile, `${JSON.stringify(found, null, 2)}\n`)
}
if (sum === 0) throw new Error('nothing was read')
for (const peer of [reading, writing, asking]) peer.close()
await producer.close()
await kafka.close()
