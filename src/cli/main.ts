#!/usr/bin/env node
/** The command line: `playhead …`. One file per command; this one puts them together and ends the process. */
import { Command, CommanderError } from 'commander'
import { addAccessOptions } from './access.ts'
import { addApi } from './api.ts'
import { addBroker } from './broker.ts'
import { addConsume } from './consume.ts'
import { Context } from './context.ts'
import { addDemo } from './demo.ts'
import { errorText, exitCodeOf, exitCodes } from './exit.ts'
import { addGroups } from './groups.ts'
import { addProduce } from './produce.ts'
import { addReplay } from './replay.ts'
import { addRewind } from './rewind.ts'
import { addTopics } from './topics.ts'

const context = new Context(process.stdin, process.stdout, process.stderr)

function program(): Command {
  const root = new Command('playhead')
    .description('A Kafka client whose consumer groups can be rewound while they run.')
    .option(
      '--bootstrap <host:port,…>',
      'where the cluster is (or PLAYHEAD_BOOTSTRAP)',
      process.env.PLAYHEAD_BOOTSTRAP ?? '127.0.0.1:9092'
    )
    .option('--json', 'print JSON, one value a line')
    .option('--verbose', 'say on stderr what happens underneath')
    .showHelpAfterError('(playhead --help lists the commands)')
    .exitOverride()
  addAccessOptions(root)
  for (const add of [
    addDemo,
    addTopics,
    addProduce,
    addConsume,
    addGroups,
    addRewind,
    addReplay,
    addBroker,
    addApi
  ]) {
    add(root, context)
  }
  return root
}

async function main(): Promise<number> {
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => context.interrupt())
  try {
    await program().parseAsync()
    return exitCodes.done
  } catch (error) {
    // Commander has printed its own message already; help and version end with 0.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : exitCodes.usage
    context.terminal.note(`playhead: ${errorText(error)}`)
    return exitCodeOf(error)
  }
}

process.exitCode = await main()
