/** `playhead produce TOPIC < lines`: each line of stdin becomes a record. */
import type { Command } from 'commander'
import { Option } from 'commander'
import type { Compression } from '../base/env.ts'
import type { CommonOptions, Context } from './context.ts'
import { Lines } from './lines.ts'
import { count } from './terminal.ts'
import { wholeNumber } from './values.ts'

interface ProduceOptions extends CommonOptions {
  readonly key?: string
  readonly keySeparator?: string
  readonly partition?: number
  readonly acks: 'all' | 'leader' | 'none'
  readonly compression: Compression
}

interface LineRecord {
  readonly key: Uint8Array | string | null
  readonly value: Uint8Array
  readonly partition?: number
}

export function addProduce(root: Command, context: Context): void {
  root
    .command('produce <topic>')
    .description('send each line of stdin as a record')
    .option('--key <key>', 'the same key for all')
    .option('--key-separator <text>', 'the key is what stands before it in each line')
    .option(
      '--partition <n>',
      "all to this one (default: by key, as Java's client)",
      wholeNumber('--partition', 0)
    )
    .addOption(
      new Option('--acks <who>', 'who must have it')
        .choices(['all', 'leader', 'none'])
        .default('all')
    )
    .addOption(
      new Option('--compression <codec>', 'of the batches')
        .choices(['none', 'gzip', 'snappy', 'lz4', 'zstd'])
        .default('none')
    )
    .action((topic: string, _: unknown, command: Command) =>
      produce(topic, command.optsWithGlobals<ProduceOptions>(), context)
    )
}

async function produce(topic: string, options: ProduceOptions, context: Context): Promise<void> {
  const { terminal, input, signal } = context
  await context.withCluster(options, async kafka => {
    const producer = kafka.producer({
      acks: options.acks,
      compression: options.compression,
      lingerMs: 5,
      idempotent: options.acks === 'all'
    })
    const lines = new Lines()
    const started = performance.now()
    let bytes = 0
    let records = 0
    const send = async (batch: readonly Uint8Array[]): Promise<void> => {
      if (batch.length === 0) return
      await producer.sendMany(
        topic,
        batch.map(line => recordOf(line, options))
      )
      records += batch.length
      const seconds = (performance.now() - started) / 1000
      terminal.progress(
        `${count(records)} records, ${megabytes(bytes)}, ${count(Math.round(records / seconds))}/s`
      )
    }
    // A few chunks under way at once keep the broker busy; more would only fill memory.
    const underway = new Set<Promise<void>>()
    for await (const chunk of input as AsyncIterable<Buffer>) {
      if (signal.aborted) break
      bytes += chunk.length
      const sent = send(lines.push(chunk))
      underway.add(sent)
      void sent.then(
        () => underway.delete(sent),
        () => {}
      )
      if (underway.size >= MAX_CHUNKS) await Promise.race(underway)
    }
    await Promise.all([...underway, send(lines.end())])
    await producer.close()
    const seconds = (performance.now() - started) / 1000
    if (options.json) terminal.json({ topic, records, bytes, seconds })
    else {
      terminal.note(
        `${count(records)} records, ${megabytes(bytes)} to ${topic} in ${seconds.toFixed(1)} s`
      )
    }
  })
}

const MAX_CHUNKS = 32

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`
}

function recordOf(line: Uint8Array, options: ProduceOptions): LineRecord {
  const partition = options.partition === undefined ? {} : { partition: options.partition }
  if (options.keySeparator !== undefined) {
    const at = Buffer.from(line.buffer, line.byteOffset, line.length).indexOf(options.keySeparator)
    if (at >= 0) {
      const rest = at + Buffer.byteLength(options.keySeparator)
      return { key: line.subarray(0, at), value: line.subarray(rest), ...partition }
    }
  }
  return { key: options.key ?? null, value: line, ...partition }
}
