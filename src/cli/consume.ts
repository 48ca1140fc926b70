/** `playhead consume TOPIC…`: prints records, as a member of a group or on its own. */
import { type Command, Option } from 'commander'
import type { Consumer } from '../client/consumer/consumer.ts'
import type { ConsumerRecord } from '../client/consumer/record.ts'
import type { StartFrom } from '../client/consumer/options.ts'
import type { TopicPartition } from '../client/partition.ts'
import { parseTarget } from '../client/time.ts'
import { PlayheadError } from '../base/error.ts'
import { printable } from '../base/printable.ts'
import type { Playhead } from '../index.ts'
import type { CommonOptions, Context } from './context.ts'
import { count } from './terminal.ts'
import { wholeNumber } from './values.ts'

interface ConsumeOptions extends CommonOptions {
  readonly group?: string
  readonly from: string
  readonly max?: number
  readonly keySeparator?: string
  readonly protocol: 'auto' | 'consumer' | 'classic' | 'controller'
  readonly quiet?: boolean
}

export function addConsume(root: Command, context: Context): void {
  root
    .command('consume <topic...>')
    .description('print records as lines; Ctrl-C ends it in an orderly way')
    .option('--group <group>', 'share the partitions with the other members of this group')
    .option(
      '--from <target>',
      'where nothing is committed: earliest, latest, 2h, a time',
      'earliest'
    )
    .option('--max <n>', 'end after so many records', wholeNumber('--max', 1))
    .option('--key-separator <text>', 'print the key too, with this behind it')
    .addOption(
      new Option('--protocol <name>', 'of the group')
        .choices(['auto', 'consumer', 'classic', 'controller'])
        .default('auto')
    )
    .option('--quiet', 'no notes about partitions and rewinds')
    .action((topics: string[], _: unknown, command: Command) =>
      consume(topics, command.optsWithGlobals<ConsumeOptions>(), context)
    )
}

async function consume(topics: string[], options: ConsumeOptions, context: Context): Promise<void> {
  const { terminal, signal } = context
  const startFrom = startOf(options.from)
  await context.withCluster(options, async kafka => {
    const consumer = await open(kafka, topics, startFrom, options)
    if (!options.quiet) tell(consumer, context)
    let printed = 0
    while (!signal.aborted && !terminal.closed && printed < (options.max ?? Infinity)) {
      const maxRecords = Math.min(RECORDS_AT_ONCE, (options.max ?? Infinity) - printed)
      const records = await consumer.poll({ timeoutMs: INTERRUPTIBLE_MS, maxRecords })
      printed += records.length
      const lines = records.map(record => line(record, options))
      await terminal.write(Buffer.concat(terminal.isInteractive ? lines.map(escaped) : lines))
    }
    // Asking once more says that all that was printed is processed; what comes now is not, and not committed.
    await consumer.poll({ timeoutMs: 0, maxRecords: 1 })
    await consumer.close()
    if (!options.quiet) terminal.note(`${count(printed)} records`)
  })
}

function startOf(from: string): StartFrom {
  const target = parseTarget(from, Date.now())
  if (target === 'earliest' || target === 'latest') return target
  if ('ago' in target || 'time' in target) return target
  throw new PlayheadError(
    'INVALID_ARGUMENT',
    `--from ${from}: write earliest, latest, a duration (2h) or a time (2026-10-01T12:00Z)`
  )
}

async function open(
  kafka: Playhead,
  topics: readonly string[],
  startFrom: StartFrom,
  { group, protocol }: ConsumeOptions
): Promise<Consumer> {
  if (group !== undefined) return kafka.consumer({ group, topics, startFrom, protocol })
  if (startFrom === 'none') throw new PlayheadError('INVALID_ARGUMENT', '--from none needs --group')
  const described = await kafka.admin().describeTopics(topics)
  return kafka.consumer({
    assign: described
      .flatMap(topic => topic.partitions)
      .map(({ topic, partition }) => ({ topic, partition, offset: startFrom }))
  })
}

/** On a terminal, people want to see what the group does. */
function tell(consumer: Consumer, { terminal }: Context): void {
  const names = (partitions: readonly TopicPartition[]): string =>
    partitions.map(({ topic, partition }) => `${topic}:${partition}`).join(' ')
  consumer.on('assigned', ({ partitions }) => terminal.note(`assigned ${names(partitions)}`))
  consumer.on('revoked', ({ partitions }) => terminal.note(`revoked ${names(partitions)}`))
  consumer.on('lost', ({ partitions, why }) => terminal.note(`lost ${names(partitions)}: ${why}`))
  consumer.on('rewound', ({ partitions, by, reason }) => {
    for (const { topic, partition, from, to } of partitions) {
      const why = reason === '' ? '' : ` (${reason})`
      terminal.note(
        `rewound ${topic}:${partition} from ${from === null ? 'nowhere' : count(from)} to ${count(to)} by ${by}${why}`
      )
    }
  })
  consumer.on('moved', ({ topic, partition, from, to, why }) =>
    terminal.note(`${topic}:${partition} ${why}: from ${count(from)} to ${count(to)}`)
  )
  consumer.on('stalled', ({ reason, detail }) => terminal.note(`stalled: ${reason}, ${detail}`))
  consumer.on('error', ({ error }) => terminal.note(`error: ${error.message}`))
}

const RECORDS_AT_ONCE = 1_000
/** How long Ctrl-C may have to wait. */
const INTERRUPTIBLE_MS = 200

const newline = Buffer.from('\n')

function line(record: ConsumerRecord, { json, keySeparator }: ConsumeOptions): Uint8Array {
  if (json) return Buffer.from(`${JSON.stringify(recordJson(record))}\n`)
  const value = record.value ?? Buffer.alloc(0)
  if (keySeparator === undefined) return Buffer.concat([value, newline])
  const key = record.key ?? Buffer.alloc(0)
  return Buffer.concat([key, Buffer.from(keySeparator), value, newline])
}

/** A record must not be able to steer a terminal. */
function escaped(bytes: Uint8Array): Uint8Array {
  return Buffer.from(`${printable(Buffer.from(bytes).toString().slice(0, -1))}\n`)
}

/** Bytes that are UTF-8 as text, others as base64 under another name, so that nothing is lost. */
function recordJson(record: ConsumerRecord): object {
  const { topic, partition, offset, timestamp, headers } = record
  return {
    topic,
    partition,
    offset,
    timestamp,
    ...textOrBase64('key', record.key),
    ...textOrBase64('value', record.value),
    headers: headers.map(({ key, value }) => ({ key, ...textOrBase64('value', value) }))
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function textOrBase64(name: string, bytes: Uint8Array | null): object {
  if (bytes === null) return { [name]: null }
  try {
    return { [name]: utf8.decode(bytes) }
  } catch {
    return { [`${name}Base64`]: Buffer.from(bytes).toString('base64') }
  }
}
