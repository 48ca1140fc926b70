/** What an admin does with topics, the cluster's brokers and its settings. */
import { PlayheadError } from '../../base/error.ts'
import { CreatePartitions } from '../../protocol/api/create-partitions.ts'
import { CreateTopics } from '../../protocol/api/create-topics.ts'
import { DeleteTopics } from '../../protocol/api/delete-topics.ts'
import { DescribeConfigs } from '../../protocol/api/describe-configs.ts'
import type { Cluster, WaitOptions } from '../../rpc/cluster.ts'
import { noTopicId, type TopicMetadata } from '../../rpc/metadata.ts'
import { refused } from './groups.ts'

/** A topic to be made. */
export interface NewTopic {
  /** Its name. */
  readonly topic: string
  /** Default: the broker's. */
  readonly partitions?: number
  /** Default: the broker's. */
  readonly replicationFactor?: number
  /** Settings by Kafka's names, as { 'cleanup.policy': 'compact' }. Default: the broker's. */
  readonly configs?: Readonly<Record<string, string>>
}

/**
 * Creates topics and waits until brokers know them. Rejects with TOPIC_EXISTS, INVALID_ARGUMENT, …; those that
 * came before in the list are then there.
 */
export async function createTopics(
  cluster: Cluster,
  topics: readonly NewTopic[],
  options: WaitOptions = {}
): Promise<void> {
  const waiting = cluster.within(options)
  for (const { topic, partitions = -1, replicationFactor = -1, configs = {} } of topics) {
    const wanted = {
      name: topic,
      numPartitions: partitions,
      replicationFactor,
      assignments: [],
      configs: Object.entries(configs).map(([name, value]) => ({ name, value }))
    }
    await cluster.retrying(waiting, async attempt => {
      const { timeoutMs, signal } = waiting
      const body = { topics: [wanted], timeoutMs }
      const answer = await cluster.request(CreateTopics, body, { timeoutMs, signal })
      const { errorCode = 0, errorMessage = null } = answer.topics[0] ?? {}
      try {
        return refused(errorCode, `creation of topic '${topic}'`, {
          topic,
          brokerMessage: errorMessage
        })
      } catch (error) {
        // An attempt before may have been carried out although it wasn't answered so.
        const ours = attempt > 1 && error instanceof PlayheadError && error.code === 'TOPIC_EXISTS'
        if (ours) return null
        throw error
      }
    })
    await cluster.topic(topic, waiting)
  }
}

export async function deleteTopics(
  cluster: Cluster,
  topics: readonly string[],
  options: WaitOptions = {}
): Promise<void> {
  const waiting = cluster.within(options)
  for (const topic of topics) {
    await cluster.retrying(waiting, async () => {
      const { timeoutMs, signal } = waiting
      const answer = await cluster.request(
        DeleteTopics,
        version =>
          version >= 6
            ? { topics: [{ name: topic, topicId: noTopicId }], timeoutMs }
            : { topicNames: [topic], timeoutMs },
        { timeoutMs, signal }
      )
      const { errorCode = 0, errorMessage = null } = answer.responses[0] ?? {}
      const details = { topic, brokerMessage: errorMessage }
      return refused(errorCode, `deletion of topic '${topic}'`, details)
    })
  }
}

/** Makes a topic have `count` partitions in all. */
export async function addPartitions(
  cluster: Cluster,
  topic: string,
  count: number,
  options: WaitOptions = {}
): Promise<void> {
  const waiting = cluster.within(options)
  const topics = [{ name: topic, count, assignments: null }]
  await cluster.retrying(waiting, async () => {
    const { timeoutMs, signal } = waiting
    const body = { topics, timeoutMs, validateOnly: false }
    const answer = await cluster.request(CreatePartitions, body, { timeoutMs, signal })
    const { errorCode = 0, errorMessage = null } = answer.results[0] ?? {}
    const what = `growth of topic '${topic}' to ${count} partitions`
    return refused(errorCode, what, { topic, brokerMessage: errorMessage })
  })
  const { timeoutMs, signal } = waiting
  await cluster.refresh({ topics: [topic], timeoutMs, signal })
}

/** Topics with their partitions. Rejects with UNKNOWN_TOPIC. */
export async function describeTopics(
  cluster: Cluster,
  topics: readonly string[],
  options: WaitOptions = {}
): Promise<readonly TopicMetadata[]> {
  const all = new Map((await cluster.listTopics(options)).map(topic => [topic.topic, topic]))
  return topics.map(name => {
    const topic = all.get(name)
    if (topic) return topic
    throw new PlayheadError('UNKNOWN_TOPIC', `topic '${name}' doesn't exist`, { topic: name })
  })
}

/** Whose settings. */
export type ConfigsOf = { readonly topic: string } | { readonly broker: number }

/** A setting of a topic or broker. */
export interface Config {
  /** Kafka's name for it. */
  readonly name: string
  /** Null: a secret. */
  readonly value: string | null
  /** Whether it was set for this topic or broker itself. */
  readonly own: boolean
  /** It cannot be changed while the broker runs. */
  readonly readOnly: boolean
}

const resourceTypes = { topic: 2, broker: 4 }
const ownSources: ReadonlySet<number> = new Set([1, 2, 4])

/** The settings of a topic or broker, its defaults included. `names`: only these. */
export async function describeConfigs(
  cluster: Cluster,
  of: ConfigsOf,
  names: readonly string[] | null = null,
  options: WaitOptions = {}
): Promise<readonly Config[]> {
  const waiting = cluster.within(options)
  const [resourceType, resourceName, to] =
    'topic' in of
      ? ([resourceTypes.topic, of.topic, 'any'] as const)
      : ([resourceTypes.broker, String(of.broker), { node: of.broker }] as const)
  const body = { resources: [{ resourceType, resourceName, configurationKeys: names }] }
  let configs: readonly Config[] = []
  await cluster.retrying(waiting, async () => {
    const { timeoutMs, signal } = waiting
    const answer = await cluster.request(DescribeConfigs, body, { to, timeoutMs, signal })
    const found = answer.results[0]
    configs = (found?.configs ?? []).map(({ name, value, readOnly, configSource }) => {
      return { name, value, readOnly, own: ownSources.has(configSource) }
    })
    const details = { brokerMessage: found?.errorMessage ?? null }
    return refused(found?.errorCode ?? 0, `settings of ${resourceName}`, details)
  })
  return configs
}
