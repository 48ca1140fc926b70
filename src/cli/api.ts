/** `playhead api`: which APIs and versions a broker speaks, beside what Playhead speaks. */
import type { Command } from 'commander'
import type { CommonOptions, Context } from './context.ts'
import { wholeNumber } from './values.ts'

interface ApiOptions extends CommonOptions {
  readonly broker?: number
}

export function addApi(root: Command, context: Context): void {
  root
    .command('api')
    .description('what a broker speaks')
    .option('--broker <id>', 'which broker (default: any)', wholeNumber('--broker', 0))
    .action((_: unknown, command: Command) => {
      const options = command.optsWithGlobals<ApiOptions>()
      return context.withCluster(options, async kafka => {
        const rows = await kafka.admin().apiVersions({ broker: options.broker })
        if (options.json) return context.terminal.json(rows)
        context.terminal.table(rows, [
          { title: 'KEY', value: row => row.key, align: 'right' },
          { title: 'API', value: row => row.name },
          { title: 'BROKER', value: row => range(row.broker) },
          { title: 'PLAYHEAD', value: row => row.playhead && range(row.playhead) }
        ])
      })
    })
}

function range([first, last]: readonly [number, number]): string {
  return first === last ? `${first}` : `${first}-${last}`
}
