/** Playhead: a Kafka client whose consumer groups can be rewound while they run. */
import type { Log } from './base/env.ts'
import { nodeEnv } from './base/node/env.ts'
import { lineLog, type LogLevel } from './base/node/log.ts'
import { Client } from './client/client.ts'
import type { ClusterOptions } from './rpc/options.ts'

export interface PlayheadOptions extends ClusterOptions {
  /** The least level that is written to standard error. Default 'warn'. */
  readonly logLevel?: LogLevel | undefined
  /** Takes the messages instead. */
  readonly log?: Log | undefined
}

/**
 * A client of one Kafka cluster. Connects when first used; close it, or declare it with `await using`.
 * @throws PlayheadError INVALID_ARGUMENT when an option makes no sense.
 */
export class Playhead extends Client {
  constructor(options: PlayheadOptions) {
    const { log, logLevel = 'warn', ...cluster } = options
    super(nodeEnv({ log: log ?? lineLog({ level: logLevel }) }), cluster)
  }
}

export type { Log, LogFields, TlsOptions } from './base/env.ts'
export type { LogLevel } from './base/node/log.ts'
export { silentLog } from './base/node/log.ts'
export { type ErrorCode, PlayheadError } from './base/error.ts'
export type { Cluster } from './rpc/cluster.ts'
export type { ClusterOptions } from './rpc/options.ts'
export type { Answer, Call, CallOptions, Target } from './rpc/call.ts'
export type { BrokerNode, Metadata, PartitionMetadata, TopicMetadata } from './rpc/metadata.ts'
export type { SaslOptions } from './rpc/sasl/sasl.ts'
export type { Compression } from './base/env.ts'
export type { Acks, ProducerOptions } from './client/producer/options.ts'
export type { Partitioner } from './client/producer/partitioner.ts'
export type { Producer } from './client/producer/producer.ts'
export type { Transaction } from './client/producer/transaction.ts'
export {
  type BytesInput,
  PartialSendError,
  type ProducerRecord,
  type RecordMetadata,
  type Serializer
} from './client/producer/record.ts'
export type { PartitionLag } from './client/consumer/assignment.ts'
export type { CloseOptions, Consumer } from './client/consumer/consumer.ts'
export type { ConsumerEventName, ConsumerEvents, StallReason } from './client/consumer/events.ts'
export type {
  AssignOptions,
  ConsumerOptions,
  GroupOptions,
  GroupProtocol,
  StartFrom,
  TopicPartition,
  TopicPartitionOffset
} from './client/consumer/options.ts'
export { JumpedError, type JumpReason } from './client/consumer/playhead.ts'
export type { PollOptions } from './client/consumer/readers.ts'
export type { ConsumerBatch, ConsumerRecord } from './client/consumer/record.ts'
export type { Handler, HandlerContext, RunOptions } from './client/consumer/run.ts'
export { bytes, json, type Serde, string } from './client/serde.ts'
