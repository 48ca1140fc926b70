/** `playhead topics …`: list, create, describe, delete. */
import type { Command } from 'commander'
import type { CommonOptions, Context } from './context.ts'
import { wholeNumber } from './values.ts'

export function addTopics(root: Command, context: Context): void {
  const topics = root.command('topics').description('list, create, describe, delete topics')
  addList(topics, context)
  addCreate(topics, context)
  addDescribe(topics, context)
  topics
    .command('delete <topic...>')
    .description('delete topics and their records, for good')
    .action((names: string[], _: unknown, command: Command) =>
      context.withCluster(command.optsWithGlobals<CommonOptions>(), async kafka => {
        await kafka.admin().deleteTopics(names)
        context.terminal.note(`deleted ${names.join(', ')}`)
      })
    )
}

function addList(topics: Command, context: Context): void {
  topics
    .command('list')
    .description('list topics')
    .option('--internal', 'those of Kafka itself, too')
    .action((_: unknown, command: Command) => {
      const options = command.optsWithGlobals<CommonOptions & { internal?: boolean }>()
      return context.withCluster(options, async kafka => {
        const all = await kafka.admin().listTopics()
        const rows = all.filter(topic => options.internal || !topic.internal)
        if (options.json) return context.terminal.json(rows)
        context.terminal.table(rows, [
          { title: 'TOPIC', value: t => t.topic },
          { title: 'PARTITIONS', value: t => t.partitions.length, align: 'right' },
          { title: 'ID', value: t => t.topicId }
        ])
      })
    })
}

interface CreateOptions extends CommonOptions {
  readonly partitions?: number
  readonly replicationFactor?: number
  readonly config: readonly string[]
}

function addCreate(topics: Command, context: Context): void {
  topics
    .command('create <topic>')
    .description('create a topic')
    .option('--partitions <n>', "how many (default: the broker's)", wholeNumber('--partitions', 1))
    .option(
      '--replication-factor <n>',
      "copies of each (default: the broker's)",
      wholeNumber('--replication-factor', 1)
    )
    .option('--config <name=value...>', 'settings of the topic', [])
    .action((topic: string, _: unknown, command: Command) => {
      const { partitions, replicationFactor, config, ...common } =
        command.optsWithGlobals<CreateOptions>()
      const configs = Object.fromEntries(
        config.map(pair => {
          const at = pair.indexOf('=')
          if (at < 1) command.error(`playhead: --config ${pair}: write it as name=value`)
          return [pair.slice(0, at), pair.slice(at + 1)]
        })
      )
      return context.withCluster(common, async kafka => {
        await kafka.admin().createTopics([
          {
            topic,
            ...(partitions !== undefined && { partitions }),
            ...(replicationFactor !== undefined && { replicationFactor }),
            configs
          }
        ])
        context.terminal.note(`created ${topic}`)
      })
    })
}

function addDescribe(topics: Command, context: Context): void {
  topics
    .command('describe <topic...>')
    .description('partitions, leaders and offsets of topics')
    .action((names: string[], _: unknown, command: Command) => {
      const options = command.optsWithGlobals<CommonOptions>()
      return context.withCluster(options, async kafka => {
        const rows = await kafka.admin().describeTopics(names)
        if (options.json) return context.terminal.json(rows)
        context.terminal.table(
          rows.flatMap(topic => topic.partitions),
          [
            { title: 'TOPIC', value: p => p.topic },
            { title: 'PARTITION', value: p => p.partition, align: 'right' },
            { title: 'LEADER', value: p => (p.leader < 0 ? 'none' : p.leader), align: 'right' },
            { title: 'REPLICAS', value: p => p.replicas.join(',') },
            { title: 'ISR', value: p => p.isr.join(',') }
          ]
        )
      })
    })
}
