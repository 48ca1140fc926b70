/** `playhead groups …`: list, describe, lag, delete. */
import type { Command } from 'commander'
import { PlayheadError } from '../base/error.ts'
import type { TopicPartition } from '../client/partition.ts'
import type { CommonOptions, Context } from './context.ts'

export function addGroups(root: Command, context: Context): void {
  const groups = root.command('groups').description('list, describe, lag, delete consumer groups')
  addList(groups, context)
  addDescribe(groups, context)
  addLag(groups, context)
  groups
    .command('delete <group...>')
    .description('delete groups without members, their offsets and rewind ledgers')
    .action((names: string[], _: unknown, command: Command) =>
      context.withCluster(command.optsWithGlobals<CommonOptions>(), async kafka => {
        await kafka.admin().deleteGroups(names)
        context.terminal.note(`deleted ${names.join(', ')}`)
      })
    )
}

function addList(groups: Command, context: Context): void {
  groups
    .command('list')
    .description('groups and their states')
    .action((_: unknown, command: Command) => {
      const options = command.optsWithGlobals<CommonOptions>()
      return context.withCluster(options, async kafka => {
        const { groups: all, failed } = await kafka.admin().listGroups()
        if (options.json) context.terminal.json(all)
        else {
          context.terminal.table(all, [
            { title: 'GROUP', value: g => g.group },
            { title: 'TYPE', value: g => g.type },
            { title: 'STATE', value: g => g.state },
            { title: 'COORDINATOR', value: g => g.coordinator, align: 'right' }
          ])
        }
        // Half a list that looks whole would mislead: what could be had is printed, and the command fails.
        const [first] = failed.values()
        if (first) {
          const nodes = [...failed.keys()].join(', ')
          throw new PlayheadError(
            first.code,
            `groups of broker ${nodes} are missing: ${first.message}`
          )
        }
      })
    })
}

function addDescribe(groups: Command, context: Context): void {
  groups
    .command('describe <group...>')
    .description('members, where they connect from, and their partitions')
    .action((names: string[], _: unknown, command: Command) => {
      const options = command.optsWithGlobals<CommonOptions>()
      const { terminal } = context
      return context.withCluster(options, async kafka => {
        const described = await kafka.admin().describeGroups(names)
        const dead = described.find(group => group.state === 'Dead')
        if (dead) {
          throw new PlayheadError('UNKNOWN_GROUP', `there is no group '${dead.group}'`, {
            group: dead.group
          })
        }
        if (options.json) return terminal.json(described)
        for (const group of described) {
          terminal.note(
            `${group.group}: ${group.state}, ${group.type}, ${group.members.length} members`
          )
          terminal.table(group.members, [
            { title: 'MEMBER', value: m => m.memberId },
            { title: 'CLIENT', value: m => m.clientId },
            { title: 'HOST', value: m => m.host },
            { title: 'REWINDABLE', value: m => (m.rewindable ? 'yes' : 'no') },
            { title: 'PARTITIONS', value: m => partitionList(m.partitions) }
          ])
        }
      })
    })
}

/** orders:0,1,2 audit:0 */
function partitionList(partitions: readonly TopicPartition[]): string {
  const byTopic = new Map<string, number[]>()
  for (const { topic, partition } of partitions) {
    const list = byTopic.get(topic) ?? []
    list.push(partition)
    byTopic.set(topic, list)
  }
  return [...byTopic]
    .map(([topic, numbers]) => `${topic}:${numbers.sort((a, b) => a - b).join(',')}`)
    .join(' ')
}

function addLag(groups: Command, context: Context): void {
  groups
    .command('lag <group>')
    .description('how far a group is behind, partition by partition')
    .action((group: string, _: unknown, command: Command) => {
      const options = command.optsWithGlobals<CommonOptions>()
      return context.withCluster(options, async kafka => {
        const rows = await kafka.admin().lag(group)
        if (options.json) return context.terminal.json(rows)
        context.terminal.table(rows, [
          { title: 'TOPIC', value: p => p.topic },
          { title: 'PARTITION', value: p => p.partition, align: 'right' },
          { title: 'COMMITTED', value: p => p.committed, align: 'right' },
          { title: 'LOG END', value: p => p.logEnd, align: 'right' },
          { title: 'LAG', value: p => p.lag, align: 'right' }
        ])
      })
    })
}
