/**
 * The topics of the cluster: names, ids, configurations, partitions and who leads them. In memory whole, stored by
 * id. What changes it is applied at once and put into `changes`, which the caller commits before it answers.
 */
import type { Cpu } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import type { Changes, Store } from '../base/store.ts'
import type { LogView } from '../group/controller/world.ts'
import type { Topics } from '../group/machine.ts'
import { afterAll, partitionKey, spaces, topicKey } from './keys.ts'
import { Log } from './log.ts'
import { Partition } from './partition.ts'
import { StoredTopic, readStored, writeStored } from './stored.ts'
import { listOf, topicConfigs } from './topic-configs.ts'

const longestName = 249

/** What is wrong with a topic's name, as Kafka says it (Topic.java); undefined: nothing. */
export function topicNameFault(name: string): string | undefined {
  if (name === '') return 'Topic name is invalid: the empty string is not allowed'
  if (name === '.' || name === '..') return "Topic name is invalid: '.' or '..' is not allowed"
  if (name.length > longestName) {
    return `Topic name is invalid: the length of '${name}' is longer than the max allowed length ${longestName}`
  }
  if (!/^[a-zA-Z0-9._-]+$/.test(name)) {
    return `Topic name is invalid: '${name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'`
  }
  return undefined
}

export class Topic {
  readonly name: string
  /** base64url uuid. */
  readonly id: string
  readonly replicationFactor: number
  /** Only what was set for this topic. */
  readonly configs: Map<string, string>
  readonly partitions: Partition[] = []

  constructor(name: string, id: string, replicationFactor: number, configs: Map<string, string>) {
    this.name = name
    this.id = id
    this.replicationFactor = replicationFactor
    this.configs = configs
  }

  config(name: string): string {
    return this.configs.get(name) ?? topicConfigs.get(name)?.default ?? ''
  }

  number(name: string): number {
    return Number(this.config(name))
  }

  get compacted(): boolean {
    return listOf(this.config('cleanup.policy')).includes('compact')
  }

  get logAppendTime(): boolean {
    return this.config('message.timestamp.type') === 'LogAppendTime'
  }
}

export interface NewTopic {
  readonly name: string
  /** Replicas of each partition; the first leads. */
  readonly assignment: readonly (readonly number[])[]
  readonly replicationFactor: number
  readonly configs: ReadonlyMap<string, string>
}

/** What changed: the group coordinators look at their members' subscriptions again. */
export type CatalogListener = (event: {
  readonly created?: Topic
  readonly grown?: Topic
  readonly deleted?: Topic
}) => void

/** The catalog as groups look at it. */
export function catalogTopics(catalog: Catalog): Topics {
  const seen = (topic: Topic | undefined) =>
    topic && { name: topic.name, id: topic.id, partitionCount: topic.partitions.length }
  return {
    named: name => seen(catalog.topic(name)),
    withId: id => seen(catalog.topicById(id)),
    names: () => catalog.topics.keys()
  }
}

/** The logs of the catalog, as a group's controller checks offsets against them. */
export function catalogLog(catalog: Catalog, topic: string, index: number): LogView | undefined {
  const partition = catalog.partition(topic, index)
  if (partition === undefined) return undefined
  const { log, highWatermark } = partition
  return { start: log.startOffset, end: highWatermark, epochOf: at => partition.epochOf(at) }
}

export class Catalog {
  readonly #store: Store
  readonly #cpu: Cpu
  readonly #topics = new Map<string, Topic>()
  readonly #byId = new Map<string, Topic>()
  readonly #listeners = new Set<CatalogListener>()

  constructor(store: Store, cpu: Cpu) {
    this.#store = store
    this.#cpu = cpu
  }

  /** Every topic, by name. */
  get topics(): ReadonlyMap<string, Topic> {
    return this.#topics
  }

  topic(name: string): Topic | undefined {
    return this.#topics.get(name)
  }

  topicById(id: string): Topic | undefined {
    return this.#byId.get(id)
  }

  partition(topic: string, index: number): Partition | undefined {
    return this.#topics.get(topic)?.partitions[index]
  }

  /** Told of topics that come, grow and go, at once. Returns how to stop that. */
  watch(listener: CatalogListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Takes in what is stored. */
  load(): void {
    const head = Buffer.from([spaces.topic])
    for (const { key, value } of this.#store.range({ from: head, to: afterAll(head) })) {
      const id = key.toString('base64url', 1)
      const { name, replicationFactor, partitionCount, configs } = readStored(StoredTopic, value)
      const settings = new Map(configs.map(config => [config.name, config.value]))
      const topic = new Topic(name, id, replicationFactor, settings)
      for (let index = 0; index < partitionCount; index++) {
        const stored = this.#store.get(partitionKey(spaces.partition, id, index))
        if (stored === undefined) {
          throw new PlayheadError('CORRUPT_RECORDS', `the store lacks partition ${name}-${index}`)
        }
        topic.partitions.push(this.#partition(topic, index, stored))
      }
      this.#add(topic)
    }
  }

  create(order: NewTopic, changes: Changes): Topic {
    const id = this.#newId()
    const topic = new Topic(order.name, id, order.replicationFactor, new Map(order.configs))
    this.#addPartitions(topic, order.assignment, changes)
    this.#saveTopic(topic, changes)
    this.#add(topic)
    this.#tell({ created: topic })
    return topic
  }

  grow(topic: Topic, assignment: readonly (readonly number[])[], changes: Changes): void {
    this.#addPartitions(topic, assignment, changes)
    this.#saveTopic(topic, changes)
    this.#tell({ grown: topic })
  }

  configure(topic: Topic, configs: ReadonlyMap<string, string>, changes: Changes): void {
    topic.configs.clear()
    for (const [name, value] of configs) topic.configs.set(name, value)
    this.#saveTopic(topic, changes)
  }

  delete(topic: Topic, changes: Changes): void {
    this.#topics.delete(topic.name)
    this.#byId.delete(topic.id)
    changes.delete(topicKey(spaces.topic, topic.id))
    for (const { index } of topic.partitions) {
      changes.delete(partitionKey(spaces.partition, topic.id, index))
      Log.erase(topic.id, index, changes)
    }
    this.#tell({ deleted: topic })
    for (const partition of topic.partitions) partition.changed()
  }

  #addPartitions(topic: Topic, assignment: readonly (readonly number[])[], changes: Changes): void {
    for (const replicas of assignment) {
      const index = topic.partitions.length
      const at = { topicId: topic.id, topic: topic.name, partition: index }
      const stored = Partition.create(at, replicas, replicas[0] ?? -1, changes)
      topic.partitions.push(this.#partition(topic, index, stored))
    }
  }

  #partition(topic: Topic, index: number, stored: Buffer): Partition {
    const at = { topicId: topic.id, topic: topic.name, partition: index }
    return new Partition(this.#store, this.#cpu, at, stored)
  }

  #saveTopic(topic: Topic, changes: Changes): void {
    const { name, replicationFactor } = topic
    const configs = [...topic.configs].map(([key, value]) => ({ name: key, value }))
    const all = { name, replicationFactor, partitionCount: topic.partitions.length, configs }
    changes.put(topicKey(spaces.topic, topic.id), writeStored(StoredTopic, all))
  }

  #add(topic: Topic): void {
    this.#topics.set(topic.name, topic)
    this.#byId.set(topic.id, topic)
  }

  #tell(event: Parameters<CatalogListener>[0]): void {
    for (const listener of this.#listeners) listener(event)
  }

  /** Kafka keeps ids that begin with '-' out of the way of command lines. */
  #newId(): string {
    for (;;) {
      const id = this.#cpu.randomBytes(16).toString('base64url')
      if (!id.startsWith('-') && !this.#byId.has(id)) return id
    }
  }
}
