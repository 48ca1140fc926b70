/**
 * Configurations as the admin APIs see them: of topics and groups, which may be changed, and of brokers, which may not.
 * A resource is named by type and name; setting one replaces what was set for it.
 */
import type { Changes } from '../base/store.ts'
import { KafkaError } from '../protocol/errors.ts'
import { topicNameFault } from './catalog.ts'
import type { BrokerCluster } from './cluster.ts'
import { groupConfigFault, groupConfigs } from './group-configs.ts'
import { configFault, configType, listOf, topicConfigs } from './topic-configs.ts'

/** ConfigResource.Type */
export const resourceType = { topic: 2, broker: 4, group: 32 } as const

/** DescribeConfigsResponse.ConfigSource */
const source = { topic: 1, staticBroker: 4, default: 5, group: 8 } as const

export interface DescribedConfig {
  readonly name: string
  readonly value: string
  readonly type: number
  readonly source: number
  readonly readOnly: boolean
  readonly synonyms: readonly {
    readonly name: string
    readonly value: string
    readonly source: number
  }[]
}

export type Fault = readonly [code: number, message: string]

export interface Resource {
  readonly resourceType: number
  readonly resourceName: string
}

/** All settings of a resource, or why there are none. */
export function describeResource(
  resource: Resource,
  node: number,
  cluster: BrokerCluster
): DescribedConfig[] | Fault {
  const { resourceName: name } = resource
  switch (resource.resourceType) {
    case resourceType.topic: {
      const topic = cluster.catalog.topic(name)
      return topic === undefined ? topicFault(name) : describeTopic(topic.configs)
    }
    case resourceType.group:
      return name === '' ? emptyGroup : describeGroup(cluster.groups.configs(name))
    case resourceType.broker: {
      if (name !== '' && name !== String(node)) {
        const message = `Unexpected broker id, expected ${node} or empty string, but received ${name}`
        return [KafkaError.INVALID_REQUEST, message]
      }
      return name === '' ? [] : describeBroker(node, cluster)
    }
    default:
      return [KafkaError.INVALID_REQUEST, `Unsupported resource type: ${resource.resourceType}`]
  }
}

/** What is set for a resource; undefined: it can't be changed. */
export function settingsOf(
  { resourceType: type, resourceName: name }: Resource,
  cluster: BrokerCluster
): ReadonlyMap<string, string> | Fault {
  if (type === resourceType.topic) return cluster.catalog.topic(name)?.configs ?? topicFault(name)
  if (type === resourceType.group) return name === '' ? emptyGroup : cluster.groups.configs(name)
  const what =
    type === resourceType.broker
      ? 'A broker is configured when it is started'
      : `Unsupported resource type: ${type}`
  return [KafkaError.INVALID_REQUEST, what]
}

/** What is wrong with a setting; undefined: nothing. */
export function settingFault(type: number, name: string, value: string | null): Fault | undefined {
  const wrong =
    type === resourceType.group ? groupConfigFault(name, value) : configFault(name, value)
  return wrong === undefined ? undefined : [KafkaError.INVALID_CONFIG, wrong]
}

/** Whether a setting is a list, to which one may append. */
export function isList(type: number, name: string): boolean {
  return type === resourceType.topic && topicConfigs.get(name)?.type === 'list'
}

export function defaultOf(type: number, name: string): string {
  return type === resourceType.topic ? (topicConfigs.get(name)?.default ?? '') : ''
}

/** Replaces what is set; in `changes`, or by itself. */
export async function configure(
  { resourceType: type, resourceName: name }: Resource,
  settings: ReadonlyMap<string, string>,
  cluster: BrokerCluster,
  changes: Changes
): Promise<void> {
  if (type === resourceType.group) return cluster.groups.configure(name, settings)
  const topic = cluster.catalog.topic(name)
  if (topic !== undefined) cluster.catalog.configure(topic, settings, changes)
}

/** A list with elements added to it, or taken away. */
export function editList(before: string, operand: string, add: boolean): string {
  const elements = listOf(operand)
  const kept = listOf(before).filter(element => !elements.includes(element))
  return (
    add ? [...listOf(before), ...elements.filter(e => !listOf(before).includes(e))] : kept
  ).join(',')
}

function topicFault(name: string): Fault {
  const wrong = topicNameFault(name)
  return wrong === undefined ? unknownTopic : [KafkaError.INVALID_TOPIC_EXCEPTION, wrong]
}

const unknownTopic: Fault = [
  KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
  'This server does not host this topic-partition.'
]
const emptyGroup: Fault = [KafkaError.INVALID_REQUEST, 'Group name must not be empty.']

function describeTopic(set: ReadonlyMap<string, string>): DescribedConfig[] {
  return [...topicConfigs].map(([name, config]) => {
    const own = set.get(name)
    const synonyms = own === undefined ? [] : [{ name, value: own, source: source.topic }]
    const broker = { name: config.synonym ?? name, value: config.default, source: source.default }
    return {
      name,
      value: own ?? config.default,
      type: configType[config.type],
      source: own === undefined ? source.default : source.topic,
      readOnly: false,
      synonyms: config.synonym === undefined ? synonyms : [...synonyms, broker]
    }
  })
}

function describeGroup(set: ReadonlyMap<string, string>): DescribedConfig[] {
  return [...groupConfigs].map(([name, setting]) => {
    const own = set.get(name)
    const value = own ?? String(setting.default)
    const from = own === undefined ? source.default : source.group
    const synonyms = own === undefined ? [] : [{ name, value: own, source: source.group }]
    return { name, value, type: configType.int, source: from, readOnly: false, synonyms }
  })
}

function describeBroker(
  node: number,
  { settings, nodes, defaultReplicationFactor }: BrokerCluster
): DescribedConfig[] {
  const at = nodes.get(node)
  const all: readonly (readonly [name: string, type: number, value: string])[] = [
    ['advertised.listeners', configType.string, `PLAINTEXT://${at?.host}:${at?.port}`],
    ['auto.create.topics.enable', configType.boolean, String(settings.autoCreateTopics)],
    ['default.replication.factor', configType.int, String(defaultReplicationFactor)],
    ['log.cleanup.policy', configType.list, topicConfigs.get('cleanup.policy')?.default ?? ''],
    ['log.retention.bytes', configType.long, topicConfigs.get('retention.bytes')?.default ?? ''],
    ['log.retention.ms', configType.long, topicConfigs.get('retention.ms')?.default ?? ''],
    ['message.max.bytes', configType.int, topicConfigs.get('max.message.bytes')?.default ?? ''],
    ['node.id', configType.int, String(node)],
    ['num.partitions', configType.int, String(settings.defaultPartitions)]
  ]
  return all.map(([name, type, value]) => {
    const synonyms = [{ name, value, source: source.staticBroker }]
    return { name, value, type, source: source.staticBroker, readOnly: true, synonyms }
  })
}
