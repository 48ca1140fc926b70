/** `playhead rewind …`: plans, carries out, shows, cancels and undoes rewinds of a group that runs. */
import { type Command, Option } from 'commander'
import { PlayheadError } from '../base/error.ts'
import { RewindError, type RewindResult } from '../client/admin/rewind-result.ts'
import type { KnownRewind } from '../client/admin/rewind-status.ts'
import type { RewindOptions } from '../client/admin/rewind.ts'
import { parseTarget } from '../client/time.ts'
import type { PlannedPartition, RewindPlan } from '../group/ledger/plan.ts'
import type { Playhead } from '../index.ts'
import type { CommonOptions, Context } from './context.ts'
import { type Column, type Terminal, count, localTime } from './terminal.ts'
import { topicChoice, wholeNumber } from './values.ts'

/** How a plan is carried out: the same for rewind, undo and replay. */
export interface ExecuteOptions extends CommonOptions {
  readonly topic: readonly string[]
  readonly execute?: boolean
  readonly reason?: string
  readonly allowSkip?: boolean
  readonly partial?: boolean
  readonly timeout: number
  readonly ledger?: string
}

interface RewindCommandOptions extends ExecuteOptions {
  readonly to?: string
  readonly clamp?: boolean
}

export function addRewind(root: Command, context: Context): void {
  const rewind = root
    .command('rewind [group]')
    .description('move the offsets of a group, running or not; prints its plan unless --execute')
    .option(
      '--to <target>',
      '2h (ago), 01:00, 2026-10-01T12:00Z, earliest, latest, 4711 (offset), -100 (shift)'
    )
    .option('--clamp', "take the log's end where an offset lies outside of it")
  addExecuteOptions(rewind)
  rewind.action((group: string | undefined, _: unknown, command: Command) => {
    const options = command.optsWithGlobals<RewindCommandOptions>()
    const { to } = options
    if (group === undefined) throw missing('which group? Write: playhead rewind GROUP --to …')
    if (to === undefined) throw missing(`where to? Write: playhead rewind ${group} --to 2h`)
    const target = parseTarget(to, Date.now())
    const which = choice(options)
    return context.withCluster(options, async kafka => {
      const plan = await kafka.admin().planRewind(group, { ...which, to: target })
      if (options.execute && !options.clamp && typeof target === 'object' && 'offset' in target) {
        refuseOutside(plan, target.offset)
      }
      await planOrExecute(kafka, plan, options, context)
    })
  })
  addStatus(rewind, context)
  addCancel(rewind, context)
  addUndo(rewind, context)
}

export function addExecuteOptions(command: Command): void {
  command
    .addOption(
      new Option('--topic <topics...>', 'topics, or partitions of them as orders:0,3-5').default(
        [],
        'all it has'
      )
    )
    .option('--execute', 'carry the plan out')
    .option('--reason <text>', 'for the owners, logs and `rewind status`')
    .option('--allow-skip', 'allow going forward over records that were never consumed')
    .option('--partial', 'leave out what would be refused')
    .option('--timeout <s>', 'how long to wait for the owners', wholeNumber('--timeout', 1), 30)
    .option('--ledger <group>', "the companion group (default: the group's name and .rewind)")
}

/** The API cuts targets to the log. But an offset that somebody typed and that isn't there is most likely a typo. */
function refuseOutside(plan: RewindPlan, offset: number): void {
  const outside = plan.partitions.find(p => p.clamped !== null)
  if (!outside) return
  const { topic, partition, logStart, logEnd } = outside
  throw new PlayheadError(
    'REWIND_REFUSED',
    `offset ${offset} is outside of ${topic}:${partition}, whose log goes from ${logStart} to ${logEnd}: ` +
      `name one inside, earliest or latest, or add --clamp`,
    { topic, partition, group: plan.group }
  )
}

function missing(message: string): PlayheadError {
  return new PlayheadError('INVALID_ARGUMENT', message)
}

/** Topics and partitions that the options name; none: all. */
export function choice(options: Pick<ExecuteOptions, 'topic' | 'ledger'>): {
  readonly topics?: readonly string[]
  readonly partitions?: readonly { readonly topic: string; readonly partition: number }[]
  readonly ledger?: string
} {
  const { topics, partitions } = topicChoice(options.topic)
  return {
    ...(topics.length > 0 && { topics }),
    ...(partitions.length > 0 && { partitions }),
    ...(options.ledger !== undefined && { ledger: options.ledger })
  }
}

/** Prints the plan; with `--execute` carries it out and prints what became of each partition. */
export async function planOrExecute(
  kafka: Playhead,
  plan: RewindPlan,
  options: ExecuteOptions,
  context: Context
): Promise<void> {
  const { terminal, signal } = context
  if (!options.execute) return printPlan(plan, options, terminal)
  for (const warning of plan.warnings) terminal.note(`warning: ${warning}`)
  const execution: RewindOptions = {
    signal,
    who: 'cli',
    timeoutMs: options.timeout * 1000,
    allowSkip: options.allowSkip,
    partial: options.partial,
    reason: options.reason,
    onProgress: ({ partitions }) => {
      const done = partitions.filter(p => p.state !== 'pending').length
      terminal.progress(`${done} of ${partitions.length} partitions`)
    }
  }
  try {
    printResult(await kafka.admin().rewind(plan, execution), options, terminal)
  } catch (error) {
    if (error instanceof RewindError) printResult(error.result, options, terminal)
    throw error
  }
}

function printPlan(plan: RewindPlan, options: ExecuteOptions, terminal: Terminal): void {
  if (options.json) return terminal.json(plan)
  terminal.table(plan.partitions, planColumns)
  for (const warning of plan.warnings) terminal.note(`warning: ${warning}`)
  const again = plan.partitions.reduce((sum, p) => sum + p.again, 0)
  const skipped = plan.partitions.reduce((sum, p) => sum + p.skipped, 0)
  const skips = skipped > 0 ? `, ${count(skipped)} would be skipped (needs --allow-skip)` : ''
  terminal.note(
    `A plan: up to ${count(again)} records would be delivered again${skips}. Nothing was changed; --execute carries it out.`
  )
}

const planColumns: readonly Column<PlannedPartition>[] = [
  { title: 'TOPIC', value: p => p.topic },
  { title: 'PARTITION', value: p => p.partition, align: 'right' },
  { title: 'OWNER', value: p => (p.owner ? `${p.owner.memberId} at ${p.owner.host}` : 'none') },
  { title: 'COMMITTED', value: p => p.committed, align: 'right' },
  { title: 'TARGET', value: p => p.target, align: 'right' },
  { title: 'AGAIN', value: p => p.again, align: 'right' },
  { title: 'SKIPPED', value: p => p.skipped, align: 'right' },
  { title: 'FROM TIME', value: p => (p.timestamp === null ? null : localTime(p.timestamp)) },
  { title: 'NOTE', value: p => (p.clamped ? `cut to the log's ${p.clamped}` : '') }
]

function printResult(result: RewindResult, options: CommonOptions, terminal: Terminal): void {
  if (options.json) return terminal.json(result)
  terminal.table(result.partitions, [
    { title: 'TOPIC', value: p => p.topic },
    { title: 'PARTITION', value: p => p.partition, align: 'right' },
    { title: 'OWNER', value: p => (p.owner ? `${p.owner.memberId} at ${p.owner.host}` : 'none') },
    { title: 'FROM', value: p => p.from, align: 'right' },
    { title: 'TO', value: p => p.to, align: 'right' },
    { title: 'MS', value: p => (p.ms === null ? null : Math.round(p.ms)), align: 'right' },
    { title: 'STATE', value: p => (p.by === null ? p.state : `${p.state} by ${p.by}`) },
    { title: 'NOTE', value: p => (p.clamped ? `cut to the log's ${p.clamped}` : '') }
  ])
  terminal.note(`rewind ${result.id} of group ${result.group}: ${Math.round(result.ms)} ms`)
}

function addStatus(rewind: Command, context: Context): void {
  rewind
    .command('status <group>')
    .description('the newest rewind of each partition: pending, applied, …')
    .action((group: string, _: unknown, command: Command) => {
      const options = command.optsWithGlobals<ExecuteOptions>()
      return context.withCluster(options, async kafka => {
        const rewinds = await kafka.admin().rewinds(group, ledgerOf(options))
        if (options.json) return context.terminal.json(rewinds)
        if (rewinds.length === 0) context.terminal.note(`no rewinds of group ${group}`)
        for (const rewind of rewinds) printRewind(rewind, context.terminal)
      })
    })
}

function ledgerOf({ ledger }: ExecuteOptions): { readonly ledger?: string } {
  return ledger === undefined ? {} : { ledger }
}

function printRewind(rewind: KnownRewind, terminal: Terminal): void {
  const reason = rewind.reason === '' ? '' : `: ${rewind.reason}`
  terminal.note(`rewind ${rewind.id} by ${rewind.who}, ${localTime(rewind.created)}${reason}`)
  terminal.table(rewind.partitions, [
    { title: 'TOPIC', value: p => p.topic },
    { title: 'PARTITION', value: p => p.partition, align: 'right' },
    { title: 'STATE', value: p => (p.replaying ? `${p.state}, replaying` : p.state) },
    { title: 'FROM', value: p => p.from, align: 'right' },
    { title: 'TO', value: p => p.to, align: 'right' },
    { title: 'COMMITTED', value: p => p.committed, align: 'right' },
    { title: 'UNTIL', value: p => p.until, align: 'right' }
  ])
}

function addCancel(rewind: Command, context: Context): void {
  rewind
    .command('cancel <group>')
    .description('take back what no owner has taken up yet')
    .action((group: string, _: unknown, command: Command) => {
      const options = command.optsWithGlobals<ExecuteOptions>()
      return context.withCluster(options, async kafka => {
        const partitions = await kafka.admin().cancelRewind(group, ledgerOf(options))
        if (options.json) return context.terminal.json(partitions)
        if (partitions.length === 0) context.terminal.note('nothing was pending')
        else {
          context.terminal.table(partitions, [
            { title: 'TOPIC', value: p => p.topic },
            { title: 'PARTITION', value: p => p.partition, align: 'right' },
            { title: 'STATE', value: p => p.state }
          ])
        }
      })
    })
}

/** Undo takes back what was just done, so it is carried out at once; `--plan` only looks. */
function addUndo(rewind: Command, context: Context): void {
  rewind
    .command('undo <group>')
    .description('back to where each partition was before its last rewind')
    .option('--plan', 'only print where it would go')
    .action((group: string, _: unknown, command: Command) => {
      const options = command.optsWithGlobals<ExecuteOptions & { plan?: boolean }>()
      return context.withCluster(options, async kafka => {
        const plan = await kafka.admin().planUndo(group, choice(options))
        const execute = !options.plan
        const reason = options.reason ?? 'undo'
        await planOrExecute(kafka, plan, { ...options, execute, reason, allowSkip: true }, context)
      })
    })
}
