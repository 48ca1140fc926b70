/**
 * Record batches, without a network: reading a Fetch answer of 1 MB of 100-byte values beside a bare loop over
 * the same bytes, building produce batches, checksums, and each compression. Cases take turns; the median of the
 * rounds is printed, one core.
 *
 *   node build/bench/records.js [rounds = 7]
 */
import type { Compression } from '../src/base/env.ts'
import { nodeCpu } from '../src/base/node/cpu.ts'
import { BatchReader } from '../src/protocol/records/batch.ts'
import { BatchBuilder } from '../src/protocol/records/builder.ts'
import { RecordCursor } from '../src/protocol/records/cursor.ts'
import { BufferPool } from '../src/protocol/records/pool.ts'
import { RawRecord, rawRecords } from '../src/protocol/records/record.ts'
import { RecordSource } from '../src/protocol/records/source.ts'
import type { Bytes } from '../src/protocol/records/write.ts'

const cpu = nodeCpu()
const rounds = Number(process.argv[2] ?? 7)
const answerBytes = 1024 * 1024
const batchBytes = 16 * 1024
const pool = new BufferPool(64 * 1024 * 1024)

/** Where results go, so that no loop is optimised away. */
let sink = 0

const words = 'lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor'.split(
  ' '
)
let seed = 1
function word(): string {
  seed = (seed * 48_271) % 0x7fff_ffff
  return words[seed % words.length] ?? ''
}
const texts = Array.from({ length: 10_000 }, (_, index) => {
  let text = `${index}`
  while (text.length < 100) text += ` ${word()}`
  return text.slice(0, 100)
})
const values = texts.map(text => Buffer.from(text))

/** Batches of about `maxBytes`, until `totalBytes`. */
function build(
  list: readonly Bytes[],
  maxBytes: number,
  totalBytes: number,
  done: (batch: Buffer) => void
): number {
  const builder = new BatchBuilder({ maxBytes, pool })
  let count = 0
  let bytes = 0
  while (bytes < totalBytes) {
    if (builder.append(1_700_000_000_000 + count, null, list[count % list.length])) count += 1
    else {
      bytes += builder.sizeBytes
      const batch = builder.close({}, cpu)
      done(batch.bytes)
      batch.release()
    }
  }
  builder.discard()
  return count
}

const batches: Buffer[] = []
const recordCount = build(values, batchBytes, answerBytes, batch =>
  batches.push(Buffer.from(batch))
)
const answer = Buffer.concat(batches)

/** What any reader must do at the least: go over the lengths and touch the value. Checks nothing. */
function bareLoop(bytes: Buffer): void {
  let at = 0
  while (at < bytes.length) {
    const end = at + 12 + bytes.readInt32BE(at + 8)
    at += 61
    while (at < end) {
      let byte = bytes[at++] as number
      let length = byte & 0x7f
      if (byte > 0x7f) length |= (bytes[at++] as number) << 7
      const next = at + (length >>> 1)
      at += 1
      while ((bytes[at++] as number) > 0x7f);
      while ((bytes[at++] as number) > 0x7f);
      at += 1 // the null key
      byte = bytes[at++] as number
      if (byte > 0x7f) at += 1
      sink += bytes[at] as number
      at = next
    }
  }
}

function eachSource(read: (source: RecordSource) => void, verify = false): void {
  for (const batch of new BatchReader(answer)) {
    if (verify) batch.verify(cpu)
    read(new RecordSource(batch, batch.payload, 'topic', 0))
  }
}

const reading: readonly (readonly [string, () => void])[] = [
  ['bare loop, value touched, nothing checked', () => bareLoop(answer)],
  [
    'cursor alone, everything checked',
    () =>
      eachSource(source => {
        const cursor = new RecordCursor(source)
        while (cursor.advance()) sink += cursor.valueLength
      })
  ],
  [
    'a record each, value not touched',
    () =>
      eachSource(source => {
        const cursor = new RecordCursor(source)
        while (cursor.advance()) sink += new RawRecord(source, cursor).offset
      })
  ],
  [
    "a record each, value's first byte",
    () =>
      eachSource(source => {
        const cursor = new RecordCursor(source)
        while (cursor.advance()) sink += new RawRecord(source, cursor).value?.[0] ?? 0
      })
  ],
  [
    '… and the checksum',
    () =>
      eachSource(source => {
        const cursor = new RecordCursor(source)
        while (cursor.advance()) sink += new RawRecord(source, cursor).value?.[0] ?? 0
      }, true)
  ],
  [
    '… and value.toString()',
    () =>
      eachSource(source => {
        const cursor = new RecordCursor(source)
        while (cursor.advance()) sink += new RawRecord(source, cursor).value?.toString().length ?? 0
      }, true)
  ],
  [
    "rawRecords(), value's first byte, checksum",
    () =>
      eachSource(source => {
        for (const record of rawRecords(source)) sink += record.value?.[0] ?? 0
      }, true)
  ]
]

const count = (batch: Buffer): void => {
  sink += batch.length
}
const writing: readonly (readonly [string, () => number])[] = [
  ['values as Buffer, batches of 16 KB', () => build(values, batchBytes, answerBytes, count)],
  [
    'values as Buffer, batches of 1 MB',
    () => build(values, answerBytes, answerBytes * 0.99, count)
  ],
  ['values as string, batches of 16 KB', () => build(texts, batchBytes, answerBytes, count)]
]

function measured(run: () => number): number {
  const start = process.hrtime.bigint()
  let units = 0
  for (let i = 0; i < 10; i += 1) units += run()
  return units / (Number(process.hrtime.bigint() - start) / 1e9)
}

function median(list: number[]): number {
  list.sort((a, b) => a - b)
  return list[list.length >> 1] ?? 0
}

function table(
  title: string,
  unit: string,
  cases: readonly (readonly [string, () => number])[]
): void {
  const results = cases.map(() => [] as number[])
  for (let round = -2; round < rounds; round += 1) {
    for (const [index, [, run]] of cases.entries()) {
      const result = measured(run)
      if (round >= 0) results[index]?.push(result)
    }
  }
  console.log(`\n${title}`)
  for (const [index, [name]] of cases.entries()) {
    const figure = median(results[index] ?? []) / 1e6
    console.log(`  ${name.padEnd(46)} ${figure.toFixed(figure < 100 ? 1 : 0).padStart(7)} ${unit}`)
  }
}

function checksum(bytes: Buffer): number {
  sink += cpu.crc32c(bytes)
  return bytes.length
}

async function compressionTable(): Promise<void> {
  console.log('\nCompressions, MB/s of uncompressed bytes (one at a time, as awaited)')
  const codecs: readonly Compression[] = ['gzip', 'snappy', 'lz4', 'zstd']
  for (const size of [16 * 1024, 1024 * 1024]) {
    const raw = Buffer.concat(batches.map(batch => batch.subarray(61))).subarray(0, size)
    for (const codec of codecs) {
      const packed = await cpu.compress(codec, raw)
      const rate = async (run: () => Promise<unknown>) => {
        const results: number[] = []
        for (let round = -1; round < Math.min(rounds, 5); round += 1) {
          const start = process.hrtime.bigint()
          let bytes = 0
          for (; bytes < 2_000_000; bytes += raw.length) await run()
          if (round >= 0) results.push((bytes / Number(process.hrtime.bigint() - start)) * 1e3)
        }
        return median(results).toFixed(0).padStart(5)
      }
      const write = await rate(() => cpu.compress(codec, raw))
      const read = await rate(() => cpu.decompress(codec, packed, 64 * answerBytes))
      const ratio = (raw.length / packed.length).toFixed(1)
      console.log(
        `  ${codec.padEnd(7)} ${`${size / 1024} KiB`.padStart(9)}  writes ${write}  reads ${read}  ${ratio} : 1`
      )
    }
  }
}

console.log(
  `Node ${process.version}, ${recordCount} records of 100 bytes in ${batches.length} batches, ${rounds} rounds`
)
const records = (run: () => void) => () => {
  run()
  return recordCount
}
table(
  'Reading',
  'M records/s',
  reading.map(([name, run]) => [name, records(run)] as const)
)
table('Writing, with checksum', 'M records/s', writing)
table('Checksum', 'MB/s', [
  ['of 1 MB', () => checksum(answer)],
  ['of 16 KB', () => checksum(answer.subarray(0, batchBytes))],
  ['of 200 bytes', () => checksum(answer.subarray(0, 200))]
])
await compressionTable()
if (sink === 0) console.log('nothing was read')
