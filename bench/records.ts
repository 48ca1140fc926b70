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
import { RecordCursor } from '../src/protocol/records/cursor.ts'
import { RawRecord, rawRecords } from '../src/protocol/records/record.ts'
import { RecordSource } from '../src/protocol/records/source.ts'
import { bareRead, build, texts, values } from './batches.ts'
import { median } from './rounds.ts'

const cpu = nodeCpu()
const rounds = Number(process.argv[2] ?? 7)
const answerBytes = 1024 * 1024
const batchBytes = 16 * 1024

/** Where results go, so that no loop is optimised away. */
let sink = 0

const batches: Buffer[] = []
const recordCount = build(values, batchBytes, answerBytes, batch =>
  batches.push(Buffer.from(batch))
)
const answer = Buffer.concat(batches)

function eachSource(read: (source: RecordSource) => void, verify = false): void {
  for (const batch of new BatchReader(answer)) {
    if (verify) batch.verify(cpu)
    read(new RecordSource(batch, batch.payload, 'topic', 0))
  }
}

const reading: readonly (readonly [string, () => void])[] = [
  [
    'bare loop, value touched, nothing checked',
    () => {
      sink += bareRead(answer)
    }
  ],
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
