/** `playhead broker`: an embedded broker as a process of its own. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { lineLog } from '../base/node/log.ts'
import { isLoopback } from '../base/loopback.ts'
import { Broker } from '../broker.ts'
import { wrong } from './access.ts'
import { type BrokerAccessOptions, brokerAccessOf } from './broker-access.ts'
import type { CommonOptions, Context } from './context.ts'
import { wholeNumber } from './values.ts'

interface BrokerCommandOptions extends CommonOptions, BrokerAccessOptions {
  readonly port: number
  readonly host: string
  readonly advertisedHost?: string
  readonly open?: boolean
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
    .option('--host <address>', 'where to listen', '127.0.0.1')
    .option('--advertised-host <name>', 'what clients are told to dial (default: --host)')
    .option('--open', 'let everybody in, also beyond this machine')
    .option('--users <file>', 'who may come in by --sasl: {"alice": "password"} as JSON')
    .option(
      '--session-lifetime <seconds>',
      'clients prove again who they are after so long',
      wholeNumber('--session-lifetime', 1)
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
    .addHelpText('after', accessHelp)
    .action((_: unknown, command: Command) =>
      run(command.optsWithGlobals<BrokerCommandOptions>(), context)
    )
}

const accessHelp = `
Who may come in, by options of playhead itself:
  --tls-cert FILE --tls-key FILE   speak TLS with this certificate
  --tls-ca FILE                    want a certificate of each client, signed by this authority
  --sasl SCRAM-SHA-512,PLAIN       offer these mechanisms, for --username (password in PLAYHEAD_PASSWORD) or --users
`

function addTopic(text: string, topics: ReadonlyMap<string, number>): Map<string, number> {
  const [, topic, partitions = '1'] = /^([^:]+)(?::(\d{1,6}))?$/.exec(text) ?? []
  if (topic === undefined) throw new InvalidArgumentError('write it as orders:6')
  return new Map([...topics, [topic, wholeNumber('--topic', 1)(partitions)]])
}

async function run(options: BrokerCommandOptions, { terminal, signal }: Context): Promise<void> {
  const { host, port, brokers, data, durability, topic, advertisedHost, open } = options
  const access = brokerAccessOf(options, terminal)
  if (!open && !isLoopback(host) && access.sasl === undefined && access.tls?.caFile === undefined) {
    throw wrong(
      `at ${host} anyone may read, write and rewind everything: ask who they are with --sasl or --tls-ca, or say --open`
    )
  }
  await using broker = await Broker.start({
    host,
    port,
    brokers,
    durability,
    ...access,
    open,
    advertisedHost,
    ...(data !== undefined && { dataDir: data }),
    topics: Object.fromEntries(topic),
    log: lineLog({ level: options.verbose ? 'debug' : 'info' })
  })
  const bootstrap = broker.bootstrap.join(',')
  if (options.json) terminal.json({ bootstrap: broker.bootstrap })
  else terminal.print(bootstrap)
  const shown = [
    ...(access.tls === undefined ? [] : [' --tls-ca FILE']),
    ...(access.tls?.caFile === undefined ? [] : [' --tls-cert FILE --tls-key FILE']),
    ...(access.sasl === undefined ? [] : [` --sasl ${options.sasl?.[0]} --username NAME`])
  ].join('')
  terminal.note(
    `listening; Ctrl-C ends it. Try: playhead topics list --bootstrap ${bootstrap}${shown}`
  )
  if (!signal.aborted) {
    await new Promise<void>(resolve => {
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
  }
}
