/** Topics for tests of consumers, made and filled by the low-level calls alone. */
import { nodeEnv } from '../../src/base/node/env.ts'
import { lineLog } from '../../src/base/node/log.ts'
import { CreatePartitions } from '../../src/protocol/api/create-partitions.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { Produce } from '../../src/protocol/api/produce.ts'
import { isRetriable, KafkaError, kafkaErrorName } from '../../src/protocol/errors.ts'
import { BatchBuilder, type BatchHeader } from '../../src/protocol/records/builder.ts'
import { answerError } from '../../src/rpc/answer-errors.ts'
import { Cluster } from '../../src/rpc/cluster.ts'
import { Again } from '../../src/rpc/retry.ts'
import type { Compression } from '../../src/base/env.ts'
import { kafka } from './cluster.ts'

export function connect(bootstrap: readonly string[] = kafka.bootstrap): Cluster {
  const log = lineLog({ level: process.env['PLAYHEAD_LOG'] === 'debug' ? 'debug' : 'error' })
  return new Cluster(nodeEnv({ log }), { bootstrap, clientId: 'consumer-test' })
}

export async function createTopic(
  cluster: Cluster,
  partitions: number,
  configs: Readonly<Record<string, string>> = {},
  name: string = kafka.uniqueName('topic')
): Promise<string> {
  const { topics } = await cluster.request(CreateTopics, {
    topics: [
      {
        name,
        numPartitions: partitions,
        replicationFactor: 1,
        assignments: [],
        configs: Object.entries(configs).map(([key, value]) => ({ name: key, value }))
      }
    ]
  })
  check(topics[0]?.errorCode ?? -1)
  // Brokers hear of it one after the other, and on a busy machine late.
  await cluster.retrying({ timeoutMs: 30_000 }, async () => {
    const { topics: known } = await cluster.refresh({ topics: [name] })
    if (known.has(name)) return undefined
    return new Again(answerError(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, `topic '${name}'`))
  })
  return name
}

export async function addPartitions(cluster: Cluster, name: string, count: number): Promise<void> {
  const { results } = await cluster.request(CreatePartitions, {
    topics: [{ name, count, assignments: null }],
    timeoutMs: 10_000,
    validateOnly: false
  })
  check(results[0]?.errorCode ?? -1)
  while ((cluster.metadata.topics.get(name)?.partitions.length ?? 0) < count) {
    await cluster.refresh({ topics: [name] })
  }
}

export interface ProduceOptions extends BatchHeader {
  readonly compression?: Compression
  readonly timestamp?: number
  readonly key?: (i: number) => string | null
  readonly transactionalId?: string
}

/** One batch of `values`; returns its first offset. */
export async function produce(
  cluster: Cluster,
  topic: string,
  partition: number,
  values: readonly (string | null)[],
  options: ProduceOptions = {}
): Promise<number> {
  const builder = new BatchBuilder({ maxBytes: 2 ** 20 })
  const { timestamp = cluster.env.clock.now(), compression = 'none', key } = options
  for (const [i, value] of values.entries()) {
    const keyText = key?.(i) ?? null
    builder.append(
      timestamp,
      keyText === null ? null : Buffer.from(keyText),
      value === null ? null : Buffer.from(value)
    )
  }
  const { cpu } = cluster.env
  const batch =
    compression === 'none'
      ? builder.close(options, cpu)
      : await builder.closeCompressed(options, compression, cpu)
  const { topicId } = await cluster.topic(topic)
  const partitionData = [{ index: partition, records: batch.bytes }]
  return await cluster.retrying({ timeoutMs: 10_000 }, async () => {
    const answer = await cluster.request(
      Produce,
      {
        acks: -1,
        timeoutMs: 10_000,
        transactionalId: options.transactionalId ?? null,
        topicData: [{ name: topic, topicId, partitionData }]
      },
      { to: { leader: { topic, partition } } }
    )
    const { errorCode = -1, baseOffset = -1 } = answer.responses[0]?.partitionResponses[0] ?? {}
    // A topic that has just been made may not have reached its leader.
    if (isRetriable(errorCode)) return new Again(answerError(errorCode, 'produce'))
    check(errorCode)
    return baseOffset
  })
}

/** 'p0-0', 'p0-1', …: values that say where they are. */
export function numbered(prefix: string, from: number, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}-${from + i}`)
}

function check(code: number): void {
  if (code !== KafkaError.NONE) throw new Error(kafkaErrorName(code))
}
