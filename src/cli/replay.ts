/** `playhead replay …`: a range once more, and then on from where the group was. */
import type { Command } from 'commander'
import { PlayheadError } from '../base/error.ts'
import { parseTarget } from '../client/time.ts'
import type { Context } from './context.ts'
import { type ExecuteOptions, addExecuteOptions, choice, planOrExecute } from './rewind.ts'

interface ReplayOptions extends ExecuteOptions {
  readonly from: string
  readonly until: string
}

export function addReplay(root: Command, context: Context): void {
  const replay = root
    .command('replay <group>')
    .description(
      'deliver a range again and go on where the group was; prints its plan unless --execute'
    )
    .requiredOption('--from <target>', 'where it begins: as --to of `playhead rewind`')
    .requiredOption('--until <target>', 'where it ends, itself not delivered')
  addExecuteOptions(replay)
  replay.action((group: string, _: unknown, command: Command) => {
    const options = command.optsWithGlobals<ReplayOptions>()
    const now = Date.now()
    const from = parseTarget(options.from, now)
    const until = parseTarget(options.until, now)
    return context.withCluster(options, async kafka => {
      const plan = await kafka.admin().planReplay(group, { ...choice(options), from, until })
      if (plan.partitions.length === 0) {
        const message = `group '${group}' has consumed nothing in that range: nothing to replay`
        throw new PlayheadError('REWIND_REFUSED', message, { group })
      }
      await planOrExecute(kafka, plan, options, context)
    })
  })
}
