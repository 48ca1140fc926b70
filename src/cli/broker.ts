/** `playhead broker`: an embedded broker as a process of its own. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { lineLog } from '../base/node/log.ts'
import { Broker } from '../broker.ts'
import type { CommonOptions, Context } from './context.ts'
import { wholeNumber } from './values.ts'

interface BrokerCommandOptions extends CommonOptions {
  readonly port: number
  readonly host: string
  readonly data?: string
  readonly brokers: number
  readonly topic: ReadonlyMap<string, number>
  readonly durability: 'fsync' | 'os'
}

export function addBroker(root: Command, context: Context): void {
  root
    .command('broker')
    .description('a Kafka broker in TypeScript: for tests, development, small things')
    .option('--port <port>', 'of the first broker; 0: a free one', wholeNumber('--port', 0), 9092)
    .option(
      '--host <address>',
      'where to listen; whoever reaches it may do everything',
      '127.0.0.1'
    )
    .option('--data <directory>', 'keep everything there (default: in memory)')
    .option('--brokers <n>', 'be so many brokers', wholeNumber('--brokers', 1), 1)
    .addOption(
      new Option('--topic <topics...>', 'topics to start with, as orders:6')
        .argParser(addTopic)
        .default(new Map(), 'none')
    )
    .addOption(
      new Option('--durability <kind>', 'acknowledged is: on disk, or with the operating system')
        .choices(['fsync', 'os'])
        .default('fsync')
    )
    .action((_: unknown, command: Command) =>
      run(command.optsWithGlobals<BrokerCommandOptions>(), context)
    )
}

function addTopic(text: string, topics: ReadonlyMap<string, number>): Map<string, number> {
  const [, topic, partitions = '1'] = /^([^:]+)(?::(\d{1,6}))?$/.exec(text) ?? []
  if (topic === undefined) throw new InvalidArgumentError('write it as orders:6')
  return new Map([...topics, [topic, wholeNumber('--topic', 1)(partitions)]])
}

async function run(options: BrokerCommandOptions, { terminal, signal }: Context): Promise<void> {
  const { host, port, brokers, data, durability, topic } = options
  await using broker = await Broker.start({
    host,
    port,
    brokers,
    durability,
    ...(data !== undefined && { dataDir: data }),
    topics: Object.fromEntries(topic),
    log: lineLog({ level: options.verbose ? 'debug' : 'info' })
  })
  const bootstrap = broker.bootstrap.join(',')
  if (options.json) terminal.json({ bootstrap: broker.bootstrap })
  else terminal.print(bootstrap)
  terminal.note(`listening; Ctrl-C ends it. Try: playhead topics list --bootstrap ${bootstrap}`)
  if (!signal.aborted) {
    await new Promise<void>(resolve => {
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
  }
}
