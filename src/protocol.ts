/**
 * Kafka's protocol: every API that a client sends, as declared messages, for `kafka.cluster.request(…)`; and
 * what it takes to declare, write and read messages of one's own.
 */
export { AddOffsetsToTxn } from './protocol/api/add-offsets-to-txn.ts'
export { AddPartitionsToTxn } from './protocol/api/add-partitions-to-txn.ts'
export { AddRaftVoter } from './protocol/api/add-raft-voter.ts'
export { AlterClientQuotas } from './protocol/api/alter-client-quotas.ts'
export { AlterConfigs } from './protocol/api/alter-configs.ts'
export { AlterPartitionReassignments } from './protocol/api/alter-partition-reassignments.ts'
export { AlterReplicaLogDirs } from './protocol/api/alter-replica-log-dirs.ts'
export { AlterShareGroupOffsets } from './protocol/api/alter-share-group-offsets.ts'
export { AlterUserScramCredentials } from './protocol/api/alter-user-scram-credentials.ts'
export { ApiVersions } from './protocol/api/api-versions.ts'
export { ConsumerGroupDescribe } from './protocol/api/consumer-group-describe.ts'
export { ConsumerGroupHeartbeat } from './protocol/api/consumer-group-heartbeat.ts'
export { ControllerCreateGroup } from './protocol/api/controller-create-group.ts'
export { ControllerHeartbeat } from './protocol/api/controller-heartbeat.ts'
export { ControllerListGroups } from './protocol/api/controller-list-groups.ts'
export { CreateAcls } from './protocol/api/create-acls.ts'
export { CreateDelegationToken } from './protocol/api/create-delegation-token.ts'
export { CreatePartitions } from './protocol/api/create-partitions.ts'
export { CreateTopics } from './protocol/api/create-topics.ts'
export { DeleteAcls } from './protocol/api/delete-acls.ts'
export { DeleteGroups } from './protocol/api/delete-groups.ts'
export { DeleteRecords } from './protocol/api/delete-records.ts'
export { DeleteShareGroupOffsets } from './protocol/api/delete-share-group-offsets.ts'
export { DeleteTopics } from './protocol/api/delete-topics.ts'
export { DescribeAcls } from './protocol/api/describe-acls.ts'
export { DescribeClientQuotas } from './protocol/api/describe-client-quotas.ts'
export { DescribeCluster } from './protocol/api/describe-cluster.ts'
export { DescribeConfigs } from './protocol/api/describe-configs.ts'
export { DescribeDelegationToken } from './protocol/api/describe-delegation-token.ts'
export { DescribeGroups } from './protocol/api/describe-groups.ts'
export { DescribeLogDirs } from './protocol/api/describe-log-dirs.ts'
export { DescribeProducers } from './protocol/api/describe-producers.ts'
export { DescribeQuorum } from './protocol/api/describe-quorum.ts'
export { DescribeShareGroupOffsets } from './protocol/api/describe-share-group-offsets.ts'
export { DescribeTopicPartitions } from './protocol/api/describe-topic-partitions.ts'
export { DescribeTransactions } from './protocol/api/describe-transactions.ts'
export { DescribeUserScramCredentials } from './protocol/api/describe-user-scram-credentials.ts'
export { ElectLeaders } from './protocol/api/elect-leaders.ts'
export { EndTxn } from './protocol/api/end-txn.ts'
export { ExpireDelegationToken } from './protocol/api/expire-delegation-token.ts'
export { Fetch } from './protocol/api/fetch.ts'
export { FindCoordinator } from './protocol/api/find-coordinator.ts'
export { GetTelemetrySubscriptions } from './protocol/api/get-telemetry-subscriptions.ts'
export { Heartbeat } from './protocol/api/heartbeat.ts'
export { IncrementalAlterConfigs } from './protocol/api/incremental-alter-configs.ts'
export { InitProducerId } from './protocol/api/init-producer-id.ts'
export { JoinGroup } from './protocol/api/join-group.ts'
export { LeaveGroup } from './protocol/api/leave-group.ts'
export { ListConfigResources } from './protocol/api/list-config-resources.ts'
export { ListGroups } from './protocol/api/list-groups.ts'
export { ListOffsets } from './protocol/api/list-offsets.ts'
export { ListPartitionReassignments } from './protocol/api/list-partition-reassignments.ts'
export { ListTransactions } from './protocol/api/list-transactions.ts'
export { Metadata } from './protocol/api/metadata.ts'
export { OffsetCommit } from './protocol/api/offset-commit.ts'
export { OffsetDelete } from './protocol/api/offset-delete.ts'
export { OffsetFetch } from './protocol/api/offset-fetch.ts'
export { OffsetForLeaderEpoch } from './protocol/api/offset-for-leader-epoch.ts'
export { Produce } from './protocol/api/produce.ts'
export { PushTelemetry } from './protocol/api/push-telemetry.ts'
export { RegisterConsumer } from './protocol/api/register-consumer.ts'
export { RemoveRaftVoter } from './protocol/api/remove-raft-voter.ts'
export { RenewDelegationToken } from './protocol/api/renew-delegation-token.ts'
export { RewindConsumer } from './protocol/api/rewind-consumer.ts'
export { SaslAuthenticate } from './protocol/api/sasl-authenticate.ts'
export { SaslHandshake } from './protocol/api/sasl-handshake.ts'
export { ShareAcknowledge } from './protocol/api/share-acknowledge.ts'
export { ShareFetch } from './protocol/api/share-fetch.ts'
export { ShareGroupDescribe } from './protocol/api/share-group-describe.ts'
export { ShareGroupHeartbeat } from './protocol/api/share-group-heartbeat.ts'
export { StreamsGroupDescribe } from './protocol/api/streams-group-describe.ts'
export { StreamsGroupHeartbeat } from './protocol/api/streams-group-heartbeat.ts'
export { StreamsGroupTopologyDescriptionUpdate } from './protocol/api/streams-group-topology-description-update.ts'
export { SyncGroup } from './protocol/api/sync-group.ts'
export { TxnOffsetCommit } from './protocol/api/txn-offset-commit.ts'
export { UnregisterBroker } from './protocol/api/unregister-broker.ts'
export { UnregisterConsumer } from './protocol/api/unregister-consumer.ts'
export { UnregisterController } from './protocol/api/unregister-controller.ts'
export { UpdateFeatures } from './protocol/api/update-features.ts'
export { WriteTxnMarkers } from './protocol/api/write-txn-markers.ts'
export { apiByKey, apis } from './protocol/apis.ts'
export { type Codec, codec } from './protocol/codec.ts'
export { ConsumerProtocolAssignment } from './protocol/embedded/assignment.ts'
export { ConsumerProtocolSubscription } from './protocol/embedded/subscription.ts'
export { KafkaError, type KafkaErrorName, isRetriable, kafkaErrorName } from './protocol/errors.ts'
export { Reader } from './protocol/reader.ts'
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
  RequestRead,
  ResponseOf,
  ResponseWritten,
  Route,
  ScalarType,
  StructField,
  Written
} from './protocol/schema.ts'
export { type Bytes, Writer } from './protocol/writer.ts'
