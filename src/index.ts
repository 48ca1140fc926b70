/** Playhead: a Kafka client whose consumer groups can be rewound while they run. */
import type { Log } from './base/env.ts'
import { nodeClock } from './base/node/clock.ts'
import { nodeEnv } from './base/node/env.ts'
import { post } from './base/node/http.ts'
import { lineLog, type LogLevel } from './base/node/log.ts'
import { Client } from './client/client.ts'
import type { ClusterOptions } from './rpc/options.ts'
import {
  type ClientCredentialsOptions,
  tokensByClientCredentials
} from './rpc/sasl/client-credentials.ts'
import type { OauthToken } from './rpc/sasl/oauthbearer.ts'

/** What a client is made with: where the cluster is, how to get in, limits, and where messages go. */
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

/**
 * A token provider for `sasl: { mechanism: 'OAUTHBEARER', token: clientCredentials({ … }) }`: gets tokens from an endpoint by
 * a client's id and secret (OAuth 2), and keeps each until it has used up 80 % of its life.
 * @throws PlayheadError INVALID_ARGUMENT when an option makes no sense. The provider rejects with AUTHENTICATION_FAILED.
 */
export function clientCredentials(options: ClientCredentialsOptions): () => Promise<OauthToken> {
  return tokensByClientCredentials({ clock: nodeClock, post }, options)
}

// The world and its errors
export type {
  Address,
  Clock,
  Compression,
  Cpu,
  Env,
  ListenAddress,
  Listener,
  Log,
  LogFields,
  Net,
  Random,
  Socket,
  SocketHandler,
  Timer,
  TlsOptions
} from './base/env.ts'
export { Secret } from './base/secret.ts'
export { type LogLevel, silentLog } from './base/node/log.ts'
export { type ErrorCode, type ErrorDetails, errorCodes, PlayheadError } from './base/error.ts'

// The low-level RPC API: `kafka.cluster`
export { answerError } from './rpc/answer-errors.ts'
export type { Answer, Body, Call, CallOptions, LaneName, Rpc, Target } from './rpc/call.ts'
export type { Cluster, WaitOptions } from './rpc/cluster.ts'
export type { CoordinatorTarget } from './rpc/coordinators.ts'
export type {
  BrokerNode,
  LeaderEndpoint,
  LeaderHint,
  Metadata,
  PartitionMetadata,
  TopicMetadata
} from './rpc/metadata.ts'
export type { ClusterOptions } from './rpc/options.ts'
export { Again, type Backoff } from './rpc/retry.ts'
export type { ClientCredentialsOptions } from './rpc/sasl/client-credentials.ts'
export type { SaslBroker, SaslMechanism } from './rpc/sasl/custom.ts'
export type { OauthToken } from './rpc/sasl/oauthbearer.ts'
export type { PasswordOptions, SaslOptions } from './rpc/sasl/sasl.ts'
export type {
  Api,
  ArrayField,
  Default,
  Field,
  FieldOptions,
  Fields,
  Lane,
  Message,
  Read,
  RequestOf,
  ResponseOf,
  Route,
  ScalarType,
  StructField,
  Written
} from './protocol/schema.ts'

// Producers
export type { Acks, ProducerOptions, SendOutcome } from './client/producer/options.ts'
export type { Partitioner, PartitionerInput } from './client/producer/partitioner.ts'
export type { ProducerCluster } from './client/producer/outbox.ts'
export type { Producer } from './client/producer/producer.ts'
export {
  type BytesInput,
  type HeadersInput,
  PartialSendError,
  type ProducerRecord,
  type RecordMetadata,
  type Serializer,
  type TopicRecord
} from './client/producer/record.ts'
export type { Transaction } from './client/producer/transaction.ts'
export type {
  TransactionOffset,
  TransactionOffsets,
  TransactionOffsetsSource,
  TransactionOutcome
} from './client/transaction-offsets.ts'

// Consumers
export type { CommittedOffset, LogEnds } from './client/consumer/asks.ts'
export type { CloseOptions, Consumer } from './client/consumer/consumer.ts'
export type { PartitionLag } from './client/consumer/assignment.ts'
export type { ConsumerEventName, ConsumerEvents, StallReason } from './client/consumer/events.ts'
export type {
  AssignOptions,
  CommonOptions,
  ConsumerOptions,
  GroupOptions,
  GroupProtocol,
  SeekTarget,
  StartFrom
} from './client/consumer/options.ts'
export type { TopicPartition, TopicPartitionOffset } from './client/partition.ts'
export { JumpedError, type JumpReason } from './client/consumer/playhead.ts'
export type { PollOptions } from './client/consumer/readers.ts'
export type { BatchLimits, ConsumerBatch, ConsumerRecord } from './client/consumer/record.ts'
export type { OnRewind, Rewound, RewoundPlace } from './client/consumer/rewound.ts'
export type { DeadLetter, DeadLetters, HandlerRetries } from './client/consumer/retries.ts'
export type { LetterSender } from './client/consumer/retries.ts'
export type { Handler, HandlerContext, RunOptions } from './client/consumer/run.ts'
export { bytes, json, type Serde, string } from './client/serde.ts'
export type { Header } from './protocol/records/record.ts'

// Pipelines
export type {
  Outputs,
  Pipeline,
  PipelineContext,
  PipelineOptions,
  PipelineProgress,
  PipelineRunOptions,
  Transform
} from './client/pipeline.ts'

// Administration and rewinds
export type {
  Admin,
  ClusterDescription,
  CommittedPartition,
  SpokenApi
} from './client/admin/admin.ts'
export type { GroupDescription, GroupMember, GroupPartitionLag } from './client/admin/groups.ts'
export type {
  PlanOptions,
  ReplayPlanOptions,
  RewindScope,
  RewindTarget
} from './client/admin/rewind-plan.ts'
export {
  RewindError,
  type RewindResult,
  type RewoundPartition,
  type RewoundState
} from './client/admin/rewind-result.ts'
export type {
  CancelledPartition,
  CancelOptions,
  KnownRewind,
  KnownRewoundPartition,
  LedgerOptions
} from './client/admin/rewind-status.ts'
export type { RewindOptions } from './client/admin/rewind.ts'
export type { Config, ConfigsOf, NewTopic } from './client/admin/topics.ts'
export type { Duration, Moment, UniformTarget } from './client/time.ts'
export type { Commit } from './group/ledger/position.ts'
export type {
  Known as SurveyedPartition,
  Owner,
  PlannedPartition,
  RewindPlan
} from './group/ledger/plan.ts'
export type { EntryState, RewindEntry, Sequence } from './protocol/embedded/rewind-envelope.ts'
export type {
  AssignedPartition,
  AssignorMember,
  AssignorSelf,
  AssignorTopic,
  PartitionAssignor
} from './group/assign/partition-assignor.ts'
export type { AssignorChoice, AssignorName } from './group/member/strategies.ts'
export type { ListedGroup, ListedGroups } from './rpc/groups.ts'
export type { ListedOffset } from './rpc/partition-offsets.ts'
export { Client } from './client/client.ts'
